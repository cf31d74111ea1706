//! Backtests on series whose results can be worked out by hand.

use std::time::Duration;

use crate::common::{five_minutes, time};
use fairwind_advice::backtest::Baseline;
use fairwind_advice::{ModelKind, Settings, backtest};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Four days; 30 Mbit/s in the first half of every hour, 50 in the second.
#[test]
fn linear_advice_on_a_square_wave_is_wrong_between_its_calls() {
    let start = time("2026-03-02T00:00:00Z");
    let square = |time: Timestamp| {
        if TimeZone::UTC.to_datetime(time).minute() < 30 {
            30.0
        } else {
            50.0
        }
    };
    let samples = five_minutes(start, 4 * 288, square);
    let settings = Settings {
        model: ModelKind::Linear,
        threshold_mbps: Some(42.0),
        shortest_interval: Duration::from_secs(3600),
        ..Settings::default()
    };
    let from = time("2026-03-05T00:00:00Z");
    let report = backtest(&samples, from, Duration::ZERO, &settings);
    assert_eq!((report.judged, report.not_forecast), (288, 0));
    assert_eq!(report.interval_coverage, None);
    let following = report.following.unwrap();
    // Called at every full hour of 23 hours and 55 minutes, always told that the path is congested;
    // wrong in the second half of every hour, the last of which is five minutes short.
    assert_eq!((following.calls, following.redundant_calls), (24, 23));
    assert!((following.hours - 23.916_667).abs() < 1e-6);
    assert!((following.wrong_hours - 11.916_667).abs() < 1e-6);
    assert!((following.calls_per_hour() - 1.003_484).abs() < 1e-6);
}

#[test]
fn a_forecast_is_made_from_what_was_known_an_hour_before() {
    let start = time("2026-03-02T00:00:00Z");
    // 1 Mbit/s more every five minutes, on the first day: without a profile, the level at the time
    // of the forecast is the forecast.
    let rising = |time: Timestamp| time.duration_since(start).as_secs() as f64 / 300.0;
    let samples = five_minutes(start, 100, rising);
    let from = time("2026-03-02T06:00:00Z");
    let settings = Settings::default();
    let report = backtest(&samples, from, Duration::from_secs(3600), &settings);
    assert_eq!(report.judged, 28);
    assert_eq!(report.following, None);
    // 12 behind, plus the lag of the medians: 1 (last three samples) to 3 (half an hour, seven samples).
    assert!(
        (13.0..=15.0).contains(&report.mean_absolute_error_mbps),
        "{report:?}"
    );
}

#[test]
fn intervals_are_as_wide_as_the_errors_before_them_ask_for() {
    let start = time("2026-03-02T00:00:00Z");
    let hour = Duration::from_secs(3600);
    let judged = |value: fn(i64) -> f64, model| {
        let samples = five_minutes(start, 100, |time| {
            value(time.duration_since(start).as_secs())
        });
        let settings = Settings {
            model,
            ..Settings::default()
        };
        backtest(&samples, time("2026-03-02T06:00:00Z"), hour, &settings)
    };
    let constant = judged(|_| 50.0, ModelKind::Profile);
    assert_eq!(constant.interval_coverage, Some(1.0));
    assert_eq!(constant.interval_width_mbps, Some(0.0));
    // 1 Mbit/s more every five minutes: every forecast is the same 13 to 14 Mbit/s too low, as above. The
    // margin to each side is stepped up by four parts below that error, and down by one part above it, so
    // four of five intervals reach it; a part is a fortieth of the error after six hours.
    let rising = judged(|seconds| seconds as f64 / 300.0, ModelKind::Profile);
    let error = rising.mean_absolute_error_mbps;
    let width = rising.interval_width_mbps.unwrap();
    assert!((2.0 * error..2.2 * error).contains(&width), "{rising:?}");
    let coverage = rising.interval_coverage.unwrap();
    assert!((0.7..0.9).contains(&coverage), "{rising:?}");
    let linear = judged(|_| 50.0, ModelKind::Linear);
    assert_eq!(linear.interval_width_mbps, None);
}

#[test]
fn baselines_are_samples_of_before() {
    let start = time("2026-03-02T00:00:00Z");
    // 1 Mbit/s more every day, and 0.01 more every five minutes.
    let rising = |time: Timestamp| {
        let seconds = time.duration_since(start).as_secs();
        (seconds / 86_400) as f64 + 0.01 * (seconds % 86_400 / 300) as f64
    };
    let samples = five_minutes(start, 9 * 288, rising);
    let from = time("2026-03-10T12:00:00Z");
    let error = |baseline: Baseline, from: Timestamp| {
        let hour = Duration::from_secs(3600);
        let report = baseline.judge(&samples, from, hour, &Settings::default());
        assert_eq!(report.interval_coverage, None);
        assert_eq!(report.interval_width_mbps, None);
        (
            report.judged,
            report.not_forecast,
            report.mean_absolute_error_mbps,
        )
    };
    for (baseline, expected) in [
        (Baseline::LastValue, 0.12),
        (Baseline::Yesterday, 1.0),
        (Baseline::LastWeek, 7.0),
    ] {
        let (judged, not_forecast, error) = error(baseline, from);
        assert_eq!((judged, not_forecast), (144, 0), "{baseline:?}");
        assert!((error - expected).abs() < 1e-9, "{baseline:?}: {error}");
    }
    // The first seven of the nine days have no sample a week earlier.
    assert_eq!(error(Baseline::LastWeek, start).0, 2 * 288);
    assert_eq!(error(Baseline::LastWeek, start).1, 7 * 288);
}

#[test]
fn gaps_are_not_followed() {
    let start = time("2026-03-02T00:00:00Z");
    let samples = five_minutes(start, 100, |_| 30.0);
    let settings = Settings {
        threshold_mbps: Some(42.0),
        stale_after: Duration::from_secs(299),
        ..Settings::default()
    };
    let report = backtest(&samples, start, Duration::ZERO, &settings);
    let following = report.following.unwrap();
    assert_eq!((following.calls, following.hours), (0, 0.0));
}
