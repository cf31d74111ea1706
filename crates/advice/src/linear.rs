//! The thesis' model: a straight line through the same time of day of every earlier day
//! (Akarapu 2002, section 3.3).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::calendar::{earlier_days, plus, signed};
use crate::forecast::{Forecast, Forecaster, NoForecast};
use crate::normal;
use crate::sample::{Samples, Span};
use crate::settings::Settings;

const HOUR_US: f64 = 3.6e9;

/// For every earlier day with data, least squares over [t0, t1]. The mean of the intercepts is the
/// available bandwidth; mean and deviation of the slopes bound its rate of change.
#[derive(Clone, Copy, Debug)]
pub struct Linear;

impl Forecaster for Linear {
    fn forecast(
        &self,
        samples: &Samples,
        now: Timestamp,
        ahead: Duration,
        settings: &Settings,
    ) -> Result<Forecast, NoForecast> {
        let known = samples.until(now);
        let oldest = known.iter().next().ok_or(NoForecast::NoSamples)?.time;
        let window = signed(settings.window);
        let mut lines = Lines::default();
        for start in earlier_days(now, oldest, &settings.time_zone, settings.history_set) {
            // The window includes its end. It must not reach beyond `now`, as a window of a day does on
            // a day of 23 hours.
            let end = plus(plus(start, window).min(now), SignedDuration::from_micros(1));
            lines.add(fit(samples.between(start, end), start));
        }
        lines.forecast(ahead, settings)
    }
}

/// A straight line through the samples of one day, b = intercept + slope t.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    /// Mbit/s at t0.
    intercept: f64,
    /// Mbit/s per hour.
    slope: f64,
    /// R², the share of the variance that the line explains; None if there is no variance.
    r_squared: Option<f64>,
}

/// Least squares through `span`, with t in hours since `origin`; None for fewer than two samples.
fn fit(span: Span<'_>, origin: Timestamp) -> Option<Line> {
    if span.len() < 2 {
        return None;
    }
    let n = span.len() as f64;
    let hours = |time_us: i64| (time_us - origin.as_microsecond()) as f64 / HOUR_US;
    let mean_t = span.times_us.iter().map(|&t| hours(t)).sum::<f64>() / n;
    let mean_b = span.values_mbps.iter().sum::<f64>() / n;
    // The thesis' sums, taken about the means, which gives the same line without cancellation.
    let (mut tt, mut tb, mut bb) = (0.0, 0.0, 0.0);
    for (&time_us, &value) in span.times_us.iter().zip(span.values_mbps) {
        let (t, b) = (hours(time_us) - mean_t, value - mean_b);
        tt += t * t;
        tb += t * b;
        bb += b * b;
    }
    let slope = tb / tt;
    Some(Line {
        intercept: mean_b - slope * mean_t,
        slope,
        r_squared: (bb > 0.0).then(|| tb * tb / (tt * bb)),
    })
}

/// The lines of all days.
#[derive(Default)]
struct Lines {
    lines: Vec<Line>,
}

impl Lines {
    fn add(&mut self, line: Option<Line>) {
        self.lines.extend(line);
    }

    fn forecast(&self, ahead: Duration, settings: &Settings) -> Result<Forecast, NoForecast> {
        let intercept = self.mean(|line| Some(line.intercept));
        let (Some(intercept), Some(slope)) = (intercept, self.mean(|line| Some(line.slope))) else {
            return Err(NoForecast::NoEarlierDay);
        };
        let bound = self.slope_bound(slope, normal::two_sided(settings.confidence));
        let change = settings.change.mbps(intercept.max(0.0));
        Ok(Forecast {
            available_mbps: (intercept + slope * ahead.as_secs_f64() / 3600.0).max(0.0),
            interval_mbps: None,
            slope_bound_mbps_per_hour: Some(bound),
            r_squared: self.mean(|line| line.r_squared),
            days_used: self.lines.len() as u32,
            next_change_after: settings.bounded_interval(change / bound * 3600.0),
        })
    }

    /// S = max(|b - t_z s|, |b + t_z s|).
    fn slope_bound(&self, mean: f64, t_z: f64) -> f64 {
        let spread = t_z * self.slope_deviation(mean);
        (mean - spread).abs().max((mean + spread).abs())
    }

    /// Sample standard deviation of the slopes; 0 for a single day.
    fn slope_deviation(&self, mean: f64) -> f64 {
        if self.lines.len() < 2 {
            return 0.0;
        }
        let squares: f64 = self.lines.iter().map(|l| (l.slope - mean).powi(2)).sum();
        (squares / (self.lines.len() - 1) as f64).sqrt()
    }

    /// Mean over the lines that have the value.
    fn mean(&self, value: impl Fn(&Line) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.lines.iter().filter_map(value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}
