//! Finds fields that have no effect on the path they are given for.

use fairwind_path::delay::{Delay, Displacement, ReorderConfig};
use fairwind_path::rate::Rate;
use fairwind_path::units::Duration;

use crate::diagnostic::Located;
use crate::file::decode::Findings;
use crate::file::link::{Direction, Link};
use crate::file::value::{Table, Value};

/// Fields that need a bandwidth: without one, no packet ever waits.
const OF_BANDWIDTH: [&str; 4] = ["queue", "aqm", "scheduler", "accounting"];

/// Reports each field that has no effect in any of the directions it applies to.
pub fn check(table: &Table, link: &Link, findings: &mut Findings) {
    let reverse = match table.get("reverse").map(|node| &node.value) {
        Some(Value::Table(reverse)) => Some(reverse),
        _ => None,
    };
    for (key, _) in &table.entries {
        let of_both = reverse.is_none_or(|reverse| reverse.get(&key.value).is_none());
        let directions = [&link.forward, &link.reverse];
        let directions = if of_both {
            &directions[..]
        } else {
            &directions[..1]
        };
        note(key, directions, findings);
    }
    for (key, _) in reverse.iter().flat_map(|reverse| &reverse.entries) {
        note(key, &[&link.reverse], findings);
    }
}

fn note(key: &Located<String>, directions: &[&Direction], findings: &mut Findings) {
    let name = key.value.as_str();
    let all = |is: fn(&Direction) -> bool| directions.iter().all(|direction| is(direction));
    if OF_BANDWIDTH.contains(&name) && all(is_unlimited) {
        findings.add(
            key.span,
            format!("`{name}` has no effect without a bandwidth"),
            "write --bandwidth RATE, too",
        );
    }
    if name == "reorder" && all(has_no_delay_to_skip) {
        findings.add(
            key.span,
            "`reorder` has no effect without a delay that packets could skip",
            "write --delay TIME, too, or reorder={probability=…, delay=\"10ms\"}",
        );
    }
}

fn is_unlimited(direction: &Direction) -> bool {
    direction.bandwidth == Rate::Unlimited
}

fn has_no_delay_to_skip(direction: &Direction) -> bool {
    let skips_delay = |reorder: ReorderConfig| reorder.displacement == Displacement::SkipsDelay;
    direction.reorder.is_none_or(skips_delay)
        && direction.jitter.is_none()
        && direction.delay == Delay::Constant(Duration::ZERO)
}
