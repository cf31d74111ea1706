//! Paths as declared by the operator: in the configuration file, on the command line, over REST.

mod check;
mod default;

pub(crate) use check::is_hop;

use std::time::Duration;

use fairwind_advice::{Buffers, Change, Controls, HistorySet, ModeRule, ModelKind, Role, Settings};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;
use utoipa::ToSchema;

use crate::host::HostPattern;

/// The hop of paths that declare none.
pub const DEFAULT_HOP: &str = "path";
/// The hop for available bandwidth measured by reported transfers.
pub const TRANSFERS_HOP: &str = "transfers";
/// Number of hops of a path, declared ones included, beyond which tests add no others except
/// [`TRANSFERS_HOP`].
pub const HOPS_AT_MOST: usize = 64;

/// A path to other hosts, and how advice is made for it. Only name and hosts are needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PathConfig {
    /// 1 to 64 letters, digits, `.`, `_` and `-`.
    #[schema(example = "argonne")]
    #[serde(default)]
    pub name: String,
    /// Hosts at the other end, at most 1,000: addresses, networks (`192.0.2.0/24`), names, and all names of
    /// a domain (`*.example.org`).
    #[schema(value_type = Vec<String>, example = json!(["192.0.2.0/24", "data.example.org"]))]
    pub hosts: Vec<HostPattern>,
    /// Hops that are measured, at most 32; each needs a recent sample before congestion control is switched
    /// off. Without them every hop counts that has samples, until it has been silent for 12 times the usual
    /// time between them.
    #[serde(default)]
    pub hops: Vec<String>,
    /// A hop with less available bandwidth, Mbit/s, is congested. Without a threshold congestion control
    /// stays on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_mbps: Option<f64>,
    /// Bandwidth of the narrowest link, Mbit/s; buffers then fit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_mbps: Option<f64>,
    /// The path is your own: congestion control may be switched off on it.
    #[serde(default)]
    pub own: bool,
    /// The model that forecasts: `"profile"`, or `"linear"`, that of the thesis.
    #[serde(default = "default::model")]
    pub model: ModelKind,
    /// Time zone of the days, a name of the IANA time zone database such as `"America/Chicago"`.
    #[schema(example = "America/Chicago")]
    #[serde(default = "default::time_zone")]
    pub time_zone: String,
    /// Span of the linear model's lines (t1 - t0 of the thesis), 1 to 86400 s.
    #[serde(default = "default::window_s")]
    pub window_s: u32,
    /// Two-sided confidence of the linear model's bound on the rate of change, between 0 and 1.
    #[serde(default = "default::confidence")]
    pub confidence: f64,
    /// Change of available bandwidth after which the next advice is due: `{ relative = 0.05 }` or
    /// `{ absolute_mbps = 2.0 }`.
    #[schema(value_type = serde_json::Value, example = json!({"relative": 0.05}))]
    #[serde(default = "default::change")]
    pub change: Change,
    /// Shortest time until the next advice, at least 1 s.
    #[serde(default = "default::shortest_interval_s")]
    pub shortest_interval_s: u32,
    /// Longest time until the next advice, seconds; not below `shortest_interval_s`.
    #[serde(default = "default::longest_interval_s")]
    pub longest_interval_s: u32,
    /// A hop whose newest sample is older counts as congested; at least 1 s.
    #[serde(default = "default::stale_after_s")]
    pub stale_after_s: u32,
    /// Days to learn from: `"all"`, `"same_weekday"` or `{ last_days = 7 }`, 1 at least.
    #[schema(value_type = serde_json::Value, example = json!("all"))]
    #[serde(default = "default::history")]
    pub history: HistorySet,
    /// Names of congestion controls, at most 15 characters: `on` (without it the kernel's default), `off`, and
    /// `background`.
    #[schema(value_type = Object, example = json!({"on": "cubic", "off": "nocc", "background": "fairwind"}))]
    #[serde(default)]
    pub controls: Controls,
    /// Smallest and largest buffer that is advised: `smallest_bytes`, `largest_bytes`.
    #[schema(value_type = Object, example = json!({"smallest_bytes": 65_536, "largest_bytes": 67_108_864}))]
    #[serde(default)]
    pub buffers: Buffers,
    /// Without congestion control, pace at this multiple of the available bandwidth. Without this key there
    /// is no pacing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace_at: Option<f64>,
    /// ICMP echo: `host` (without it the first of `hosts` that is a single host), and `interval_s`, whole
    /// seconds; 0: never.
    #[serde(default)]
    pub ping: Ping,
    /// Whether reported transfers that the network limited are samples of the path, on the hop `transfers`.
    /// Default: only on a path without declared hops, while no other hop is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfers_are_tests: Option<bool>,
    /// The mode of transfers on the path: `"thesis"` (without congestion control while no hop of an own path is
    /// congested, otherwise with it), `"background"` or `"rate"`.
    /// Default: `"thesis"`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: ModeRule,
}

/// Earlier versions do not know the key.
fn is_default(mode: &ModeRule) -> bool {
    *mode == ModeRule::default()
}

/// How the round-trip time is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ping {
    /// Whom to ask: an address or name; none: the first of the path's hosts that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Seconds from one echo request to the next, 1 at least; 0 asks nobody.
    #[serde(default = "default::ping_interval_s")]
    pub interval_s: u32,
}

impl Default for Ping {
    fn default() -> Self {
        let (host, interval_s) = (None, default::ping_interval_s());
        Ping { host, interval_s }
    }
}

/// An invalid declaration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("path {path:?}: {key}: {problem}")]
pub struct PathError {
    path: String,
    key: &'static str,
    problem: String,
}

impl PathConfig {
    /// A path with only its name and hosts declared.
    pub fn new(name: impl Into<String>, hosts: Vec<HostPattern>) -> PathConfig {
        let declared = json!({ "name": name.into(), "hosts": hosts });
        serde_json::from_value(declared).expect("all other keys have defaults")
    }

    /// The hops that exist before any test: the declared ones, and that of the transfers if these are
    /// declared to be tests.
    pub fn declared_hops(&self) -> Vec<&str> {
        let mut hops: Vec<&str> = self.hops.iter().map(String::as_str).collect();
        if self.transfers_are_tests == Some(true) {
            hops.push(TRANSFERS_HOP);
        }
        hops
    }

    /// The role of a hop's tests in the advice; `None` if they are ignored.
    pub fn role_of(&self, hop: &str) -> Option<Role> {
        if self.hops.iter().any(|declared| declared == hop) {
            return Some(Role::Declared);
        }
        match (hop == TRANSFERS_HOP, self.transfers_are_tests) {
            (true, Some(true)) => Some(Role::Transfers),
            (true, Some(false)) => None,
            (true, None) => self.hops.is_empty().then_some(Role::Makeshift),
            (false, _) => self.hops.is_empty().then_some(Role::Found),
        }
    }

    /// The hop of samples that name none.
    pub fn default_hop(&self) -> &str {
        self.hops.first().map_or(DEFAULT_HOP, String::as_str)
    }

    /// Whether reported transfers count as tests of the available bandwidth.
    pub fn learns_from_transfers(&self) -> bool {
        self.transfers_are_tests.unwrap_or(self.hops.is_empty())
    }

    /// The host to send echo requests to, and their interval; `None` if there are to be none.
    pub fn echo(&self) -> Option<(String, Duration)> {
        let first = || self.hosts.iter().find_map(HostPattern::single);
        let host = self.ping.host.clone().or_else(first)?;
        let interval = Duration::from_secs(u64::from(self.ping.interval_s));
        (!interval.is_zero()).then_some((host, interval))
    }

    /// The settings of the models.
    ///
    /// # Errors
    /// If a value is invalid; the error names its key and what would be right.
    pub fn settings(&self) -> Result<Settings, PathError> {
        self.check()?;
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        Ok(Settings {
            model: self.model,
            window: seconds(self.window_s),
            confidence: self.confidence,
            change: self.change,
            shortest_interval: seconds(self.shortest_interval_s),
            longest_interval: seconds(self.longest_interval_s),
            stale_after: seconds(self.stale_after_s),
            threshold_mbps: self.threshold_mbps,
            history_set: self.history,
            time_zone: self.zone()?,
            mode_rule: self.mode,
            controls: self.controls.clone(),
            own_path: self.own,
            capacity_mbps: self.capacity_mbps,
            buffers: self.buffers,
            pace_at: self.pace_at,
        })
    }

    fn zone(&self) -> Result<TimeZone, PathError> {
        let problem = "a name of the time zone database is needed, such as Europe/Berlin";
        TimeZone::get(&self.time_zone).map_err(|_| self.error("time_zone", problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> PathConfig {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn name_and_hosts_are_enough() {
        let path = read(r#"{"name": "a", "hosts": ["192.0.2.0/24", "192.0.2.9"]}"#);
        assert_eq!(path, PathConfig::new("a", path.hosts.clone()));
        assert_eq!(path.settings().unwrap(), Settings::default());
        assert_eq!(
            path.echo(),
            Some(("192.0.2.9".to_owned(), Duration::from_secs(60)))
        );
        assert!(path.learns_from_transfers());
        assert_eq!(path.role_of("anything"), Some(Role::Found));
        assert_eq!(path.role_of("transfers"), Some(Role::Makeshift));
        let again: PathConfig =
            serde_json::from_str(&serde_json::to_string(&path).unwrap()).unwrap();
        assert_eq!(again, path);
    }

    #[test]
    fn declared_hops_are_what_advice_rests_on() {
        let path = read(r#"{"name": "a", "hosts": [], "hops": ["r1"], "ping": {"interval_s": 0}}"#);
        assert_eq!(path.role_of("r1"), Some(Role::Declared));
        assert_eq!(path.role_of("r2"), None);
        assert_eq!(path.role_of("transfers"), None);
        assert!(!path.learns_from_transfers());
        assert_eq!(path.default_hop(), "r1");
        assert_eq!(path.echo(), None);
    }

    #[test]
    fn transfers_are_tests_if_the_declaration_says_so() {
        for (json, role) in [
            (
                r#"{"hosts": [], "hops": ["r1"], "transfers_are_tests": true}"#,
                Some(Role::Transfers),
            ),
            (
                r#"{"hosts": [], "transfers_are_tests": true}"#,
                Some(Role::Transfers),
            ),
            (r#"{"hosts": [], "transfers_are_tests": false}"#, None),
            (
                r#"{"hosts": [], "hops": ["transfers"], "transfers_are_tests": false}"#,
                Some(Role::Declared),
            ),
        ] {
            assert_eq!(read(json).role_of("transfers"), role, "{json}");
        }
    }

    #[test]
    fn a_path_says_which_mode_its_transfers_have() {
        for (mode, rule) in [
            ("thesis", ModeRule::Thesis),
            ("background", ModeRule::Background),
            ("rate", ModeRule::Rate),
        ] {
            let path = read(&format!(
                r#"{{"name": "a", "hosts": [], "mode": "{mode}"}}"#
            ));
            assert_eq!(path.settings().unwrap().mode_rule, rule);
        }
        // A store that an earlier version reads again.
        let path = read(r#"{"name": "a", "hosts": [], "mode": "thesis"}"#);
        assert!(!serde_json::to_string(&path).unwrap().contains("\"mode\""));
        let older = read(r#"{"name": "a", "hosts": [], "controls": {"off": "nocc"}}"#);
        assert_eq!(older.settings().unwrap().controls, Controls::default());
    }

    #[test]
    fn a_wrong_value_is_named() {
        for (json, expected) in [
            (r#"{"name": "a b", "hosts": []}"#, "name"),
            (
                r#"{"name": "a", "hosts": [], "time_zone": "Mars"}"#,
                "time_zone",
            ),
            (
                r#"{"name": "a", "hosts": [], "threshold_mbps": -1}"#,
                "threshold_mbps",
            ),
            (r#"{"name": "a", "hosts": [], "hops": ["x", "x"]}"#, "hops"),
            (
                r#"{"name": "a", "hosts": [], "hops": ["x\u001b[2J"]}"#,
                "hops",
            ),
            (r#"{"name": "a\u0007", "hosts": []}"#, "name"),
            (
                r#"{"name": "a", "hosts": [], "history": {"last_days": 0}}"#,
                "history: last_days: 1 at least",
            ),
            (
                r#"{"name": "a", "hosts": [], "ping": {"host": "b\r\nc"}}"#,
                "ping",
            ),
            (
                r#"{"name": "a", "hosts": [], "controls": {"on": "", "off": "nocc"}}"#,
                "controls",
            ),
            (
                r#"{"name": "a", "hosts": [], "controls": {"background": "a b"}}"#,
                "controls",
            ),
        ] {
            let error = read(json).settings().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
