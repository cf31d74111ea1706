//! Forecasts of the available bandwidth of one hop.

use std::time::Duration;

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
    /// Time after `now` within which the bandwidth may change by [`Settings::change`](crate::Settings::change), limited to the
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
