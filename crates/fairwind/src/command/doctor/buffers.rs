//! Compares buffers with a path's bandwidth-delay product.
//!
//! A socket's buffer is twice what a program requests; half of it is for bookkeeping (socket(7)). So the
//! kernel's autotuning fills a path whose product is half of `net.ipv4.tcp_rmem[2]` and `tcp_wmem[2]`. A
//! program gets what it requests up to `net.core.rmem_max` and `wmem_max`, and beyond that with
//! `CAP_NET_ADMIN`. Dynamic right-sizing requests twice the product, or leaves the buffer to autotuning where
//! that reaches further than what it may request.

use fairwind_kernel::NET_ADMIN;

use super::Goal;
use super::check::{Finding, State};
use super::facts::{Facts, SWITCHES};

/// One direction's buffer.
struct Side {
    what: &'static str,
    adapted: u64,
    settable: u64,
    setting: &'static str,
    /// The first two numbers of the setting, by the kernel's defaults.
    first: &'static str,
    limit: &'static str,
}

fn sides(facts: &Facts) -> [Side; 2] {
    [
        Side {
            what: "receive buffer",
            adapted: facts.adapted.receive,
            settable: facts.settable.receive,
            setting: "net.ipv4.tcp_rmem",
            first: "4096 131072",
            limit: "net.core.rmem_max",
        },
        Side {
            what: "send buffer",
            adapted: facts.adapted.send,
            settable: facts.settable.send,
            setting: "net.ipv4.tcp_wmem",
            first: "4096 16384",
            limit: "net.core.wmem_max",
        },
    ]
}

/// Whether the kernel's autotuning fills the path.
pub(crate) fn autotuned(facts: &Facts, goal: Goal) -> Vec<Finding> {
    let needed = goal.product().saturating_mul(2);
    let finding = |side: Side| {
        let found = format!("autotuned to {}", mib(side.adapted / 2));
        let lacking = format!("{found}, the path holds {}", mib(goal.product()));
        Finding::fine(side.what, found).if_so(
            side.adapted >= needed,
            State::Limited,
            lacking,
            format!("sysctl -w {}='{} {needed}'", side.setting, side.first),
        )
    };
    let [receive, send] = sides(facts).map(finding);
    let [.., autotuning] = SWITCHES;
    vec![receive, send, autotuning.check(facts)]
}

/// Whether a program that sizes buffers itself fills the path.
pub(crate) fn sized(facts: &Facts, goal: Goal) -> Vec<Finding> {
    let needed = goal.product().saturating_mul(2);
    let findings = sides(facts).map(|side| {
        if facts.has(NET_ADMIN) {
            return Finding::fine(side.what, "any size, with CAP_NET_ADMIN");
        }
        let reached = side.settable.max(side.adapted / 2);
        let found = format!("up to {}", mib(reached));
        let otherwise = match reached >= goal.product() {
            true => State::Limited,
            false => State::Missing,
        };
        let holds = format!("{found}, the path holds {}", mib(goal.product()));
        let fix = format!("sysctl -w {}={needed}", side.limit);
        Finding::fine(side.what, found).if_so(reached >= needed, otherwise, holds, fix)
    });
    findings.into()
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use fairwind_path::units::{Bandwidth, Duration};

    use super::*;
    use crate::command::doctor::facts::Sides;

    /// 1,250,000 bytes.
    const GOAL: Goal = Goal {
        bandwidth: Bandwidth::from_mbps(100),
        rtt: Duration::from_millis(100),
    };

    fn sides_of(receive: u64, send: u64) -> Sides {
        Sides { receive, send }
    }

    #[test]
    fn autotuning_needs_twice_the_product() {
        let facts = Facts {
            adapted: sides_of(2_500_000, 2_499_999),
            ..Facts::fit()
        };
        let findings = autotuned(&facts, GOAL);
        assert_eq!(findings[0].state, State::Fine);
        assert_eq!(findings[1].state, State::Limited);
        assert_eq!(
            findings[1].fix.as_deref(),
            Some("sysctl -w net.ipv4.tcp_wmem='4096 16384 2500000'")
        );
    }

    #[test]
    fn sizing_needs_the_limit_the_kernels_own_reach_or_the_capability() {
        let mut facts = Facts {
            adapted: sides_of(3_000_000, 1_000_000),
            settable: sides_of(212_992, 212_992),
            lacking: vec!["CAP_NET_ADMIN"],
            ..Facts::fit()
        };
        let findings = sized(&facts, GOAL);
        assert_eq!(findings[0].state, State::Limited, "1.5 MB of 2.5 MB");
        assert_eq!(findings[1].state, State::Missing, "0.5 MB of 1.25 MB");
        assert_eq!(
            findings[1].fix.as_deref(),
            Some("sysctl -w net.core.wmem_max=2500000")
        );
        facts.settable = sides_of(2_500_000, 2_500_000);
        assert_eq!(sized(&facts, GOAL)[1].state, State::Fine);
        facts.settable = sides_of(212_992, 212_992);
        facts.lacking.clear();
        assert_eq!(sized(&facts, GOAL)[1].state, State::Fine);
    }
}
