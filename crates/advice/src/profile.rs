//! The daily and weekly profile, corrected by the latest residual: the more accurate model.
//!
//! The usual value at a local time of the week (`week`) is averaged over all days, over working days or
//! days off, and over the same weekday, with decreasing weight for older weeks. To each of these, the
//! residual of the latest samples is added, decaying with the horizon. The best combination differs
//! from path to path: all are scored on the path's past and weighted by their scores (`experts`). The
//! prediction interval follows the errors of the weighted forecast at each horizon (`quantile`).

use std::time::Duration;

use jiff::Timestamp;

use crate::calendar::{plus, signed};
use crate::forecast::{Forecast, NoForecast};
use crate::sample::Span;
use crate::settings::Settings;

mod experts;
mod horizon;
mod learner;
mod quantile;
mod recent;
mod week;

pub use learner::{Learner, Outlook};

/// A learner for forecasts at `then` that has seen `known`. Learning weeks of samples takes milliseconds.
pub(crate) fn learned(known: Span<'_>, then: Timestamp, settings: &Settings) -> Learner {
    let mut learner = Learner::new(then, settings);
    learner.learn(known);
    learner
}

impl Learner {
    /// The forecast for `now + ahead`, where `now` is not before the newest sample.
    ///
    /// # Errors
    ///
    /// If there is no sample.
    pub fn forecast(
        &self,
        now: Timestamp,
        ahead: Duration,
        settings: &Settings,
    ) -> Result<Forecast, NoForecast> {
        let outlook = self
            .outlook(plus(now, signed(ahead)))
            .ok_or(NoForecast::NoSamples)?;
        let available = outlook.available_mbps.max(0.0);
        Ok(Forecast {
            available_mbps: available,
            interval_mbps: outlook.margin_mbps.map(|margin| {
                let low = (outlook.available_mbps - margin).max(0.0);
                (low, (outlook.available_mbps + margin).max(0.0))
            }),
            slope_bound_mbps_per_hour: None,
            r_squared: None,
            days_used: self.days(),
            next_change_after: self.next_change(now, settings),
        })
    }

    /// Time until the next request: until the forecast moves by [`Settings::change`] or its interval
    /// includes the threshold, but not before the next sample is due, as nothing is new until then.
    fn next_change(&self, now: Timestamp, settings: &Settings) -> Duration {
        let steps = 24;
        let step = settings.longest_interval / steps;
        let outlook = |wait: Duration| self.outlook(plus(now, signed(wait)));
        let current = outlook(Duration::ZERO).map_or(0.0, |o| o.available_mbps);
        let change = settings.change.mbps(current.max(0.0));
        let changed = |o: Outlook| {
            let distance = settings
                .threshold_mbps
                .map(|t| (o.available_mbps - t).abs());
            (o.available_mbps - current).abs() >= change
                || distance
                    .zip(o.margin_mbps)
                    .is_some_and(|(distance, margin)| distance <= margin)
        };
        let wait = (1..steps)
            .map(|n| step * n)
            .find(|&wait| outlook(wait).is_some_and(changed))
            .unwrap_or(settings.longest_interval);
        let next_sample_s = self.newest().map_or(0.0, |newest| {
            self.spacing_s() - now.duration_since(newest).as_secs_f64()
        });
        settings.bounded_interval(wait.as_secs_f64().max(next_sample_s))
    }
}
