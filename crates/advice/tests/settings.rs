//! Validation of settings.

use std::time::Duration;

use fairwind_advice::{Buffers, Change, HistorySet, Settings, SettingsError};

type Spoil = fn(&mut Settings);

#[test]
fn the_defaults_can_be() {
    assert_eq!(Settings::default().check(), Ok(()));
}

#[test]
fn what_cannot_be_is_said_with_what_would_be_right() {
    let second = Duration::from_secs(1);
    let cases: [(Spoil, SettingsError); 8] = [
        (
            |s| s.window = Duration::ZERO,
            SettingsError::Window(Duration::ZERO),
        ),
        (|s| s.confidence = 1.0, SettingsError::Confidence(1.0)),
        (
            |s| s.change = Change::Relative(0.0),
            SettingsError::Change(0.0),
        ),
        (
            |s| s.longest_interval = Duration::from_secs(1),
            SettingsError::Intervals(60 * second, second),
        ),
        (
            |s| s.threshold_mbps = Some(-1.0),
            SettingsError::Threshold(-1.0),
        ),
        (
            |s| s.history_set = HistorySet::LastDays(0),
            SettingsError::NoDays,
        ),
        (
            |s| s.capacity_mbps = Some(0.0),
            SettingsError::Capacity(0.0),
        ),
        (
            |s| {
                s.buffers = Buffers {
                    smallest_bytes: 2,
                    largest_bytes: 1,
                }
            },
            SettingsError::Buffers(2, 1),
        ),
    ];
    for (change, error) in cases {
        let mut settings = Settings::default();
        change(&mut settings);
        assert_eq!(settings.check(), Err(error));
    }
    assert_eq!(
        SettingsError::Confidence(1.5).to_string(),
        "confidence is 1.5; it must be between 0 and 1"
    );
}
