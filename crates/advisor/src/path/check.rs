//! Validation of declarations.

use fairwind_advice::{Change, HistorySet};

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
        let check = |key, sound: bool, right| sound.then_some(()).ok_or(self.error(key, right));
        let name = "1 to 64 letters, digits, '.', '_' and '-'";
        check("name", is_name(&self.name), name)?;
        check("hosts", self.hosts.len() <= 1_000, "1,000 at most")?;
        let hops =
            "up to 32 different names of 1 to 64 characters, none of them a control character";
        check("hops", self.hops_are_sound(), hops)?;
        let ping = "host must be an address or a name";
        check("ping", self.ping_is_sound(), ping)?;
        for (key, value) in [
            ("threshold_mbps", self.threshold_mbps),
            ("capacity_mbps", self.capacity_mbps),
            ("pace_at", self.pace_at),
        ] {
            check(key, value.is_none_or(is_positive), "a number above 0")?;
        }
        let window = (1..=86_400).contains(&self.window_s);
        check("window_s", window, "1 to 86400")?;
        let confidence = self.confidence > 0.0 && self.confidence < 1.0;
        check("confidence", confidence, "a number between 0 and 1")?;
        let (Change::Relative(change) | Change::AbsoluteMbps(change)) = self.change;
        check("change", is_positive(change), "a number above 0")?;
        let (shortest, longest) = (self.shortest_interval_s, self.longest_interval_s);
        check("shortest_interval_s", shortest > 0, "1 at least")?;
        let right = "not below shortest_interval_s";
        check("longest_interval_s", longest >= shortest, right)?;
        check("stale_after_s", self.stale_after_s > 0, "1 at least")?;
        let some_days = self.history != HistorySet::LastDays(0);
        check("history", some_days, "last_days: 1 at least")?;
        let buffers = self.buffers.smallest_bytes <= self.buffers.largest_bytes;
        let right = "smallest_bytes must not be above largest_bytes";
        check("buffers", buffers, right)?;
        let controls = self.controls_are_sound();
        check("controls", controls, "names of 1 to 15 characters")
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
        let controls = &self.controls;
        controls.on.as_ref().is_none_or(sound)
            && sound(&controls.off)
            && sound(&controls.background)
    }
}

/// Whether a hop may have this name: without control characters, which must not reach terminals and logs.
pub(crate) fn is_hop(name: &str) -> bool {
    (1..=64).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(allowed) && name != "." && name != ".."
}
