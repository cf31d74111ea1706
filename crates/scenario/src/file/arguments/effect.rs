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
pub(super) fn check(table: &Table, link: &Link, findings: &mut Findings) {
    let nothing = Table::default();
    let reverse = match table.get("reverse").map(|node| &node.value) {
        Some(Value::Table(reverse)) => reverse,
        _ => &nothing,
    };
    for (key, _) in &table.entries {
        let both = [&link.forward, &link.reverse];
        let own_reverse = reverse.get(&key.value).is_some();
        note(key, if own_reverse { &both[..1] } else { &both }, findings);
    }
    for (key, _) in &reverse.entries {
        note(key, &[&link.reverse], findings);
    }
}

fn note(key: &Located<String>, directions: &[&Direction], findings: &mut Findings) {
    let name = key.value.as_str();
    let all = |is: fn(&Direction) -> bool| directions.iter().all(|direction| is(direction));
    let is_policed = name == "accounting" && !all(|direction| direction.policer.is_none());
    if OF_BANDWIDTH.contains(&name) && all(is_unlimited) && !is_policed {
        let message = format!("`{name}` has no effect without a bandwidth");
        findings.add(key.span, message, "write --bandwidth RATE, too");
    }
    if name == "reorder" && all(has_no_delay_to_skip) {
        let message = "`reorder` has no effect without a delay that packets could skip";
        let help = "write --delay TIME, too, or reorder={probability=…, delay=\"10ms\"}";
        findings.add(key.span, message, help);
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
