//! Validation of declarations.

use fairwind_advice::Change;

use super::{PathConfig, PathError};
use crate::host;

impl PathConfig {
    pub(super) fn error(&self, key: &'static str, problem: &str) -> PathError {
        PathError {
            path: self.name.clone(),
            key,
            problem: problem.to_owned(),
        }
    }

    pub(super) fn check(&self) -> Result<(), PathError> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let optional = |value: Option<f64>| value.is_none_or(positive);
        let change = match self.change {
            Change::Relative(value) | Change::AbsoluteMbps(value) => value,
        };
        let rules = [
            (
                "name",
                is_name(&self.name),
                "1 to 64 letters, digits, '.', '_' and '-'",
            ),
            ("hosts", self.hosts.len() <= 1_000, "1,000 at most"),
            (
                "hops",
                self.hops_are_sound(),
                "up to 32 different names of 1 to 64 characters, none of them a control character",
            ),
            (
                "ping",
                self.ping_is_sound(),
                "host must be an address or a name",
            ),
            (
                "threshold_mbps",
                optional(self.threshold_mbps),
                "a number above 0",
            ),
            (
                "capacity_mbps",
                optional(self.capacity_mbps),
                "a number above 0",
            ),
            ("pace_at", optional(self.pace_at), "a number above 0"),
            (
                "window_s",
                (1..=86_400).contains(&self.window_s),
                "1 to 86400",
            ),
            (
                "confidence",
                self.confidence > 0.0 && self.confidence < 1.0,
                "a number between 0 and 1",
            ),
            ("change", positive(change), "a number above 0"),
            (
                "shortest_interval_s",
                self.shortest_interval_s > 0,
                "1 at least",
            ),
            (
                "longest_interval_s",
                self.longest_interval_s >= self.shortest_interval_s,
                "not below shortest_interval_s",
            ),
            ("stale_after_s", self.stale_after_s > 0, "1 at least"),
            (
                "buffers",
                self.buffers.smallest_bytes <= self.buffers.largest_bytes,
                "smallest_bytes must not be above largest_bytes",
            ),
            (
                "controls",
                self.controls_are_sound(),
                "names of 1 to 15 characters",
            ),
        ];
        match rules.into_iter().find(|(_, sound, _)| !sound) {
            Some((key, _, right)) => Err(self.error(key, right)),
            None => Ok(()),
        }
    }

    fn hops_are_sound(&self) -> bool {
        let different = |(at, hop)| !self.hops[..at].contains(hop);
        self.hops.len() <= 32
            && self.hops.iter().all(|hop| is_hop(hop))
            && self.hops.iter().enumerate().all(different)
    }

    fn ping_is_sound(&self) -> bool {
        let sound = |text: &String| host::address(text).is_some() || host::name(text).is_some();
        self.ping.host.as_ref().is_none_or(sound)
    }

    fn controls_are_sound(&self) -> bool {
        // The kernel's TCP_CA_NAME_MAX is 16, including the terminating zero.
        let sound = |name: &String| {
            (1..16).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
        };
        self.controls.on.as_ref().is_none_or(sound) && sound(&self.controls.off)
    }
}

/// Whether a hop may have this name: without control characters, which must not reach terminals and logs.
pub(crate) fn is_hop(name: &str) -> bool {
    (1..=64).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(allowed) && name != "." && name != ".."
}
