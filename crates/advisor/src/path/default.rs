//! Defaults of a declaration, taken from the models' settings.

use std::time::Duration;

use fairwind_advice::{Change, HistorySet, ModelKind, Settings};

fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

pub(super) fn model() -> ModelKind {
    Settings::default().model
}

pub(super) fn time_zone() -> String {
    "UTC".to_owned()
}

pub(super) fn window_s() -> u32 {
    seconds(Settings::default().window)
}

pub(super) fn confidence() -> f64 {
    Settings::default().confidence
}

pub(super) fn change() -> Change {
    Settings::default().change
}

pub(super) fn shortest_interval_s() -> u32 {
    seconds(Settings::default().shortest_interval)
}

pub(super) fn longest_interval_s() -> u32 {
    seconds(Settings::default().longest_interval)
}

pub(super) fn stale_after_s() -> u32 {
    seconds(Settings::default().stale_after)
}

pub(super) fn history() -> HistorySet {
    Settings::default().history_set
}

pub(super) fn ping_interval_s() -> u32 {
    60
}
