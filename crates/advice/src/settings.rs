//! The settings of a path, chosen by its operator.

use std::time::Duration;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// The settings for advice on one path.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The forecasting model.
    pub model: ModelKind,
    /// The span t1 - t0 of the linear model's least squares; more than 0, at most a day.
    pub window: Duration,
    /// Two-sided confidence of the linear model's bound on the rate of change; between 0 and 1, exclusive.
    pub confidence: f64,
    /// The change of available bandwidth at which to ask again.
    pub change: Change,
    /// The next advice is due no earlier than this after the request.
    pub shortest_interval: Duration,
    /// The next advice is due no later than this after the request.
    pub longest_interval: Duration,
    /// A hop whose newest test is older than this counts as congested. Without congestion control, the
    /// next advice is due when the first of the newest tests reaches this age.
    pub stale_after: Duration,
    /// A hop with less available bandwidth than this, in Mbit/s, is congested. None: always advise
    /// congestion control.
    pub threshold_mbps: Option<f64>,
    /// The earlier days that the model learns from.
    pub history_set: HistorySet,
    /// Time zone of days and times of day.
    pub time_zone: TimeZone,
    /// Which modes transfers on the path get.
    pub mode_rule: ModeRule,
    /// The congestion controls for the modes.
    pub controls: Controls,
    /// Whether the operator declared the path to be his own. On any other path the advice is congestion
    /// control, whatever the load.
    pub own_path: bool,
    /// Bandwidth of the narrowest link in Mbit/s, if known. Buffers are then sized by it instead of the
    /// forecast.
    pub capacity_mbps: Option<f64>,
    /// Smallest and largest buffer to advise.
    pub buffers: Buffers,
    /// Multiple of the available bandwidth to pace at without congestion control; None: no pacing.
    pub pace_at: Option<f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: ModelKind::Profile,
            window: Duration::from_secs(3600),
            confidence: 0.95,
            change: Change::Relative(0.05),
            shortest_interval: Duration::from_secs(60),
            longest_interval: Duration::from_secs(3600),
            stale_after: Duration::from_secs(900),
            threshold_mbps: None,
            history_set: HistorySet::All,
            time_zone: TimeZone::UTC,
            mode_rule: ModeRule::Thesis,
            controls: Controls::default(),
            own_path: false,
            capacity_mbps: None,
            buffers: Buffers::default(),
            pace_at: None,
        }
    }
}

/// The rule by which transfers on a path get their mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModeRule {
    /// The thesis' two: without congestion control while no hop of an own path is congested, otherwise with it.
    #[default]
    Thesis,
    /// Always in the background. No history is needed, so this suits every network.
    Background,
    /// At the rate that the forecast vouches for; in the background while there is no such rate.
    Rate,
}

impl ModeRule {
    /// The name used in settings and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Thesis => "thesis",
            Self::Background => "background",
            Self::Rate => "rate",
        }
    }
}

/// The models that forecast available bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Model))]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// The thesis' model: the mean of one straight line for each earlier day.
    Linear,
    /// A daily and weekly profile corrected by the latest residual.
    Profile,
}

impl ModelKind {
    /// Every model.
    pub const ALL: [Self; 2] = [Self::Linear, Self::Profile];

    /// The name used in advice, settings and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Profile => "profile",
        }
    }
}

/// A change of available bandwidth; delta in the thesis.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// This share of the estimate; more than 0.
    Relative(f64),
    /// In Mbit/s; more than 0.
    AbsoluteMbps(f64),
}

impl Change {
    /// The change in Mbit/s at an estimate of `available_mbps`.
    pub fn mbps(self, available_mbps: f64) -> f64 {
        match self {
            Self::Relative(share) => share * available_mbps,
            Self::AbsoluteMbps(mbps) => mbps,
        }
    }
}

/// The earlier days that a model learns from (thesis, section 5.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistorySet {
    /// Every earlier day of the last ten years.
    All,
    /// This many days before today; the thesis' week before the test day is 7.
    LastDays(u16),
    /// The earlier days with today's weekday.
    SameWeekday,
}

/// The names of the congestion controls for the modes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Controls {
    /// With congestion control, paced or not; None: the kernel's default.
    pub on: Option<String>,
    /// Without congestion control.
    pub off: String,
    /// In the background.
    pub background: String,
}

impl Default for Controls {
    fn default() -> Self {
        Self {
            on: None,
            off: "nocc".to_owned(),
            background: "fairwind".to_owned(),
        }
    }
}

/// Smallest and largest buffer to advise, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Buffers {
    /// Lower bound.
    pub smallest_bytes: u64,
    /// Upper bound; at least `smallest_bytes`.
    pub largest_bytes: u64,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            smallest_bytes: 64 << 10,
            largest_bytes: 64 << 20,
        }
    }
}

impl Settings {
    /// `seconds`, clamped to the range from the shortest to the longest interval; NaN gives the shortest.
    pub(crate) fn bounded_interval(&self, seconds: f64) -> Duration {
        let longest = self.longest_interval.max(self.shortest_interval);
        let bounded = seconds
            .max(self.shortest_interval.as_secs_f64())
            .min(longest.as_secs_f64());
        Duration::try_from_secs_f64(bounded).unwrap_or(self.shortest_interval)
    }
}
