//! Evaluates a model on a recorded series.

mod baseline;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::advice::{Request, advise};
use crate::calendar::{plus, signed};
use crate::history::{History, Hop};
use crate::mode::Mode;
use crate::sample::{Sample, Samples};
use crate::settings::{ModeRule, Settings};

pub use baseline::Baseline;

/// The result of a backtest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the model.
    pub model: String,
    /// Number of samples in the evaluated part that were forecast.
    pub judged: u32,
    /// Number of samples not forecast for lack of earlier samples.
    pub not_forecast: u32,
    /// Mean absolute error of the forecasts, in Mbit/s; NaN if there was none.
    pub mean_absolute_error_mbps: f64,
    /// Share of the forecast samples within the prediction interval, for models that give one.
    pub interval_coverage: Option<f64>,
    /// Mean width of the prediction interval, in Mbit/s.
    pub interval_width_mbps: Option<f64>,
    /// The advice to a transfer that never ends; None without a threshold.
    pub following: Option<Following>,
}

/// The advice followed through the evaluated part, with a request at every next advice time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Following {
    /// Number of requests for advice.
    pub calls: u32,
    /// Requests that did not change the mode.
    pub redundant_calls: u32,
    /// Hours followed. After a sample without a successor within [`Settings::stale_after`] the truth is
    /// unknown, and nothing is counted until the next sample.
    pub hours: f64,
    /// Hours in which the mode contradicted the available bandwidth, compared with the threshold.
    pub wrong_hours: f64,
}

impl Following {
    /// Requests per hour.
    pub fn calls_per_hour(&self) -> f64 {
        f64::from(self.calls) / self.hours
    }

    /// Share of the time in the wrong mode.
    pub fn wrong_share(&self) -> f64 {
        self.wrong_hours / self.hours
    }
}

/// Forecasts every sample from `from` on, `horizon` ahead, from the samples known that long before it
/// and no later ones. With a threshold, also follows the advice by the thesis' rule. The path is assumed
/// to be the operator's own.
pub fn backtest(
    samples: &Samples,
    from: Timestamp,
    horizon: Duration,
    settings: &Settings,
) -> Report {
    let settings = Settings {
        mode_rule: ModeRule::Thesis,
        own_path: true,
        ..settings.clone()
    };
    let mut run = Run::new(samples, from, &settings);
    let all: Vec<Sample> = samples.all().iter().collect();
    let horizon = signed(horizon);
    let mut target = all.partition_point(|s| s.time < from);
    for (i, &sample) in all.iter().enumerate() {
        let next = all.get(i + 1).map_or(Timestamp::MAX, |next| next.time);
        run.know(sample);
        while target < all.len() && plus(all[target].time, -horizon) < next {
            if plus(all[target].time, -horizon) >= sample.time {
                run.judge(sample.time, all[target]);
            }
            target += 1;
        }
        if sample.time >= from && next < Timestamp::MAX {
            run.follow(sample, next);
        }
    }
    run.report()
}

struct Run<'a> {
    settings: &'a Settings,
    history: History,
    errors: f64,
    judged: u32,
    not_forecast: u32,
    with_interval: u32,
    within: u32,
    widths: f64,
    following: Following,
    mode: Option<Mode>,
    next_call: Timestamp,
}

impl<'a> Run<'a> {
    fn new(samples: &Samples, from: Timestamp, settings: &'a Settings) -> Self {
        let mut hop = Hop::new("", Samples::new());
        if let Some(first) = samples.all().iter().next() {
            hop.learn(first.time, settings);
        }
        Self {
            settings,
            history: History {
                hops: vec![hop],
                rtt: None,
            },
            errors: 0.0,
            judged: 0,
            not_forecast: 0,
            with_interval: 0,
            within: 0,
            widths: 0.0,
            following: Following::default(),
            mode: None,
            next_call: from,
        }
    }

    fn know(&mut self, sample: Sample) {
        let hop = &mut self.history.hops[0];
        hop.insert(sample, sample.time)
            .expect("samples are in order");
        hop.learn(sample.time, self.settings);
    }

    fn judge(&mut self, now: Timestamp, truth: Sample) {
        let ahead = truth.time.duration_since(now).unsigned_abs();
        let Ok(forecast) = self.history.hops[0].forecast(now, ahead, self.settings) else {
            self.not_forecast += 1;
            return;
        };
        self.judged += 1;
        self.errors += (forecast.available_mbps - truth.available_mbps).abs();
        if let Some((low, high)) = forecast.interval_mbps {
            self.with_interval += 1;
            self.within += u32::from((low..=high).contains(&truth.available_mbps));
            self.widths += high - low;
        }
    }

    /// Follows the advice up to `next`; `sample` is the truth until then.
    fn follow(&mut self, sample: Sample, next: Timestamp) {
        let Some(threshold) = self.settings.threshold_mbps else {
            return;
        };
        if next.duration_since(sample.time) > signed(self.settings.stale_after) {
            self.next_call = self.next_call.max(next);
            return;
        }
        let right = if sample.available_mbps < threshold {
            Mode::CongestionControl
        } else {
            Mode::NoCongestionControl
        };
        let mut time = sample.time;
        while time < next {
            if self.next_call <= time {
                self.call(time);
            }
            let end = self.next_call.min(next);
            let hours = hours(end.duration_since(time));
            self.following.hours += hours;
            if self.mode != Some(right) {
                self.following.wrong_hours += hours;
            }
            time = end;
        }
    }

    fn call(&mut self, now: Timestamp) {
        let advice = advise(&self.history, &Request::default(), now, self.settings);
        self.following.calls += 1;
        self.following.redundant_calls += u32::from(self.mode == Some(advice.mode));
        self.mode = Some(advice.mode);
        // An empty interval would make `follow` loop for ever.
        self.next_call = advice
            .next_advice
            .max(plus(now, SignedDuration::from_secs(1)));
    }

    fn report(self) -> Report {
        let share =
            |sum: f64| (self.with_interval > 0).then(|| sum / f64::from(self.with_interval));
        Report {
            model: self.settings.model.name().to_owned(),
            judged: self.judged,
            not_forecast: self.not_forecast,
            mean_absolute_error_mbps: self.errors / f64::from(self.judged),
            interval_coverage: share(f64::from(self.within)),
            interval_width_mbps: share(self.widths),
            following: self.settings.threshold_mbps.map(|_| self.following),
        }
    }
}

fn hours(duration: SignedDuration) -> f64 {
    duration.as_secs_f64() / 3600.0
}
