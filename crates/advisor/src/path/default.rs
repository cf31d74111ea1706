//! Defaults of a declaration, taken from the models' settings.

use std::time::Duration;

use fairwind_advice::{Change, HistorySet, ModelKind, Settings};

fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

pub fn model() -> ModelKind {
    Settings::default().model
}

pub fn time_zone() -> String {
    "UTC".to_owned()
}

pub fn window_s() -> u32 {
    seconds(Settings::default().window)
}

pub fn confidence() -> f64 {
    Settings::default().confidence
}

pub fn change() -> Change {
    Settings::default().change
}

pub fn shortest_interval_s() -> u32 {
    seconds(Settings::default().shortest_interval)
}

pub fn longest_interval_s() -> u32 {
    seconds(Settings::default().longest_interval)
}

pub fn stale_after_s() -> u32 {
    seconds(Settings::default().stale_after)
}

pub fn history() -> HistorySet {
    Settings::default().history_set
}

pub fn ping_interval_s() -> u32 {
    60
}
