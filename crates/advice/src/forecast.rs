//! What a model says of the available bandwidth of one hop.

use std::time::Duration;

use jiff::Timestamp;

use crate::linear::Linear;
use crate::profile::Profile;
use crate::sample::Samples;
use crate::settings::{ModelKind, Settings};

/// A model of available bandwidth over time.
pub trait Forecaster {
    /// The available bandwidth at `now + ahead`, from the samples until `now` and no later ones.
    ///
    /// # Errors
    /// [`NoForecast`] says what is missing.
    fn forecast(
        &self,
        samples: &Samples,
        now: Timestamp,
        ahead: Duration,
        settings: &Settings,
    ) -> Result<Forecast, NoForecast>;
}

impl ModelKind {
    /// The model of this name.
    pub fn forecaster(self) -> &'static dyn Forecaster {
        match self {
            Self::Linear => &Linear,
            Self::Profile => &Profile,
        }
    }
}

/// A model's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Available bandwidth in Mbit/s, at least 0.
    pub available_mbps: f64,
    /// Four of five times the available bandwidth lies between these, in Mbit/s.
    pub interval_mbps: Option<(f64, f64)>,
    /// The thesis' S: bound on the rate of change, in Mbit/s per hour.
    pub slope_bound_mbps_per_hour: Option<f64>,
    /// Mean goodness of fit of the days' straight lines, at most 1.
    pub r_squared: Option<f64>,
    /// How many earlier days the answer rests on.
    pub days_used: u32,
    /// How long after `now` the bandwidth may have changed by [`Settings::change`], between the
    /// shortest and the longest interval.
    pub next_change_after: Duration,
}

/// Why there is no forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoForecast {
    /// The history is empty.
    #[error("no test has been made")]
    NoSamples,
    /// The linear model needs two samples of one earlier day after the same time of day.
    #[error("no earlier day has two tests after this time of day")]
    NoEarlierDay,
}
