//! Forecasts of the available bandwidth of one hop.

use std::time::Duration;

use jiff::Timestamp;

use crate::linear::Linear;
use crate::profile::Profile;
use crate::sample::Samples;
use crate::settings::{ModelKind, Settings};

/// A model of available bandwidth over time.
pub trait Forecaster {
    /// The available bandwidth at `now + ahead`, from the samples up to `now` and no later ones.
    ///
    /// # Errors
    ///
    /// If the samples are too few for the model, see [`NoForecast`].
    fn forecast(
        &self,
        samples: &Samples,
        now: Timestamp,
        ahead: Duration,
        settings: &Settings,
    ) -> Result<Forecast, NoForecast>;
}

impl ModelKind {
    /// The implementation of this model.
    pub fn forecaster(self) -> &'static dyn Forecaster {
        match self {
            Self::Linear => &Linear,
            Self::Profile => &Profile,
        }
    }
}

/// A model's forecast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Available bandwidth in Mbit/s, at least 0.
    pub available_mbps: f64,
    /// 80 % prediction interval of the available bandwidth, in Mbit/s.
    pub interval_mbps: Option<(f64, f64)>,
    /// The thesis' S: bound on the rate of change, in Mbit/s per hour.
    pub slope_bound_mbps_per_hour: Option<f64>,
    /// Mean R² of the straight lines through the days, at most 1.
    pub r_squared: Option<f64>,
    /// Number of earlier days that the forecast is based on.
    pub days_used: u32,
    /// Time after `now` within which the bandwidth may change by [`Settings::change`], limited to the
    /// range from the shortest to the longest interval.
    pub next_change_after: Duration,
}

/// Why there is no forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoForecast {
    /// The history is empty.
    #[error("no test has been made")]
    NoSamples,
    /// The linear model needs two samples of one earlier day at or after the same time of day.
    #[error("no earlier day has two tests after this time of day")]
    NoEarlierDay,
}
