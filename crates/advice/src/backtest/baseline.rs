//! Trivial forecasts that any model has to beat.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Report;
use crate::calendar::{earlier_days, plus, signed};
use crate::sample::{Sample, Samples};
use crate::settings::{HistorySet, Settings};

/// Maximum age of a sample at the time that it is taken for.
const NEAR: SignedDuration = SignedDuration::from_hours(1);

/// A forecast that repeats an earlier sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The newest known sample.
    LastValue,
    /// The sample at the same local time yesterday.
    Yesterday,
    /// The sample at the same local time a week ago.
    LastWeek,
}

impl Baseline {
    /// Every baseline.
    pub const ALL: [Self; 3] = [Self::LastValue, Self::Yesterday, Self::LastWeek];

    /// The name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::LastValue => "last value",
            Self::Yesterday => "same time yesterday",
            Self::LastWeek => "same time last week",
        }
    }

    /// Forecasts every sample from `from` on, from what was known `horizon` before it. Days and times
    /// of day are in the settings' time zone. A sample is not forecast if no sample was taken within the
    /// hour before the time to repeat.
    pub fn judge(
        self,
        samples: &Samples,
        from: Timestamp,
        horizon: Duration,
        settings: &Settings,
    ) -> Report {
        let (mut judged, mut not_forecast, mut errors) = (0, 0, 0.0);
        for truth in samples.between(from, Timestamp::MAX).iter() {
            match self.forecast(samples, truth.time, signed(horizon), settings) {
                Some(forecast) => {
                    judged += 1;
                    errors += (forecast.available_mbps - truth.available_mbps).abs();
                }
                None => not_forecast += 1,
            }
        }
        Report {
            model: self.name().to_owned(),
            judged,
            not_forecast,
            mean_absolute_error_mbps: errors / f64::from(judged),
            interval_coverage: None,
            interval_width_mbps: None,
            following: None,
        }
    }

    fn forecast(
        self,
        samples: &Samples,
        time: Timestamp,
        horizon: SignedDuration,
        settings: &Settings,
    ) -> Option<Sample> {
        let oldest = samples.all().iter().next()?.time;
        let days_ago = |days: usize| {
            let set = HistorySet::All;
            earlier_days(time, oldest, &settings.time_zone, set).nth(days - 1)
        };
        let known = plus(time, -horizon);
        let stands_for_it = match self {
            Self::LastValue => known,
            Self::Yesterday => days_ago(1)?.min(known),
            Self::LastWeek => days_ago(7)?.min(known),
        };
        let sample = samples.until(stands_for_it).last()?;
        (stands_for_it.duration_since(sample.time) <= NEAR).then_some(sample)
    }
}
