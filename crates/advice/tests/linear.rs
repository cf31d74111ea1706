//! The thesis' model on examples worked by hand.

use std::time::Duration;

use crate::common::{samples, time};
use fairwind_advice::{Change, Forecast, HistorySet, NoForecast, Samples, Settings, linear};
use jiff::tz::TimeZone;

fn forecast(samples: &Samples, now: &str, settings: &Settings) -> Result<Forecast, NoForecast> {
    linear::forecast(samples, time(now), Duration::ZERO, settings)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// Three days at 14:00: on Monday b = 10 + 4 t exactly; on Tuesday 20, 18, 19 at 0, 15 and 30
/// minutes, so 19.5 - 2 t with R² = 0.0625 / (0.125 * 2) = 0.25; today is Wednesday.
fn two_days() -> Samples {
    samples(&[
        ("2026-03-02T13:55:00Z", 99.0),
        ("2026-03-02T14:00:00Z", 10.0),
        ("2026-03-02T14:30:00Z", 12.0),
        ("2026-03-02T15:00:00Z", 14.0),
        ("2026-03-02T15:05:00Z", 99.0),
        ("2026-03-03T14:00:00Z", 20.0),
        ("2026-03-03T14:15:00Z", 18.0),
        ("2026-03-03T14:30:00Z", 19.0),
        ("2026-03-04T13:59:00Z", 55.0),
    ])
}

#[test]
fn bandwidth_is_the_mean_of_the_days_intercepts() {
    let forecast = forecast(&two_days(), "2026-03-04T14:00:00Z", &Settings::default()).unwrap();
    assert!(near(forecast.available_mbps, 14.75));
    assert!(near(forecast.r_squared.unwrap(), 0.625));
    assert_eq!(forecast.days_used, 2);
}

#[test]
fn the_slopes_mean_and_deviation_bound_the_change() {
    let forecast = forecast(&two_days(), "2026-03-04T14:00:00Z", &Settings::default()).unwrap();
    // b = (4 - 2) / 2 = 1, s = sqrt(9 + 9), S = 1 + 1.959964 * 4.242641
    let bound = forecast.slope_bound_mbps_per_hour.unwrap();
    assert!(near(bound, 9.315_422_946), "{bound}");
    // delta / S = 0.05 * 14.75 / 9.315423 h
    let wait = forecast.next_change_after.as_secs_f64();
    assert!(near(wait, 285.011_214), "{wait}");
}

#[test]
fn a_falling_mean_slope_is_bounded_on_its_own_side() {
    // Slopes -1 and -3: b = -2, s = sqrt(2), S = 2 + 1.959964 * 1.414214 = 4.771808
    let falling = samples(&[
        ("2026-03-02T14:00:00Z", 30.0),
        ("2026-03-02T15:00:00Z", 29.0),
        ("2026-03-03T14:00:00Z", 30.0),
        ("2026-03-03T15:00:00Z", 27.0),
    ]);
    let settings = Settings {
        change: Change::AbsoluteMbps(2.0),
        ..Settings::default()
    };
    let forecast = forecast(&falling, "2026-03-04T14:00:00Z", &settings).unwrap();
    assert!(near(
        forecast.slope_bound_mbps_per_hour.unwrap(),
        4.771_807_649
    ));
    // 2 / 4.771808 h
    assert!(near(
        forecast.next_change_after.as_secs_f64(),
        1_508.862_161
    ));
}

#[test]
fn the_next_advice_stays_between_its_bounds() {
    let with_bounds = |shortest, longest| {
        let settings = Settings {
            shortest_interval: Duration::from_secs(shortest),
            longest_interval: Duration::from_secs(longest),
            ..Settings::default()
        };
        let now = "2026-03-04T14:00:00Z";
        forecast(&two_days(), now, &settings)
            .unwrap()
            .next_change_after
    };
    assert_eq!(with_bounds(10, 120), Duration::from_secs(120));
    assert_eq!(with_bounds(300, 900), Duration::from_secs(300));
}

#[test]
fn a_bandwidth_that_never_changes_waits_as_long_as_allowed_and_has_no_r_squared() {
    let flat = samples(&[
        ("2026-03-02T14:00:00Z", 30.0),
        ("2026-03-02T14:30:00Z", 30.0),
    ]);
    let forecast = forecast(&flat, "2026-03-04T14:00:00Z", &Settings::default()).unwrap();
    assert_eq!(forecast.next_change_after, Duration::from_secs(3600));
    assert_eq!(forecast.r_squared, None);
}

#[test]
fn an_hour_ahead_is_further_along_the_mean_line() {
    let ahead = Duration::from_secs(3600);
    let now = time("2026-03-04T14:00:00Z");
    let settings = Settings::default();
    let forecast = linear::forecast(&two_days(), now, ahead, &settings).unwrap();
    // 14.75 + 1 * 1
    assert!(near(forecast.available_mbps, 15.75));
}

#[test]
fn the_history_set_chooses_the_days() {
    // The same hour on five days: two Wednesdays ago, a Wednesday ago, and the last three days.
    let list = [
        ("2026-02-18", 10.0),
        ("2026-02-25", 20.0),
        ("2026-03-01", 30.0),
        ("2026-03-02", 40.0),
        ("2026-03-03", 50.0),
    ];
    let texts = list.map(|(day, value)| {
        (
            format!("{day}T14:00:00Z"),
            format!("{day}T14:30:00Z"),
            value,
        )
    });
    let listed: Vec<(&str, f64)> = texts
        .iter()
        .flat_map(|(a, b, value)| [(a.as_str(), *value), (b.as_str(), *value)])
        .collect();
    let history = samples(&listed);
    for (history_set, mean, days) in [
        (HistorySet::All, 30.0, 5),
        (HistorySet::LastDays(2), 45.0, 2),
        (HistorySet::LastDays(7), 35.0, 4),
        (HistorySet::SameWeekday, 15.0, 2),
    ] {
        let settings = Settings {
            history_set,
            ..Settings::default()
        };
        let forecast = forecast(&history, "2026-03-04T14:00:00Z", &settings).unwrap();
        assert!(
            near(forecast.available_mbps, mean),
            "{history_set:?}: {forecast:?}"
        );
        assert_eq!(forecast.days_used, days, "{history_set:?}");
    }
}

#[test]
fn a_day_begins_and_a_time_of_day_is_that_of_the_time_zone() {
    // 10:00 in Berlin: 09:00 UTC before the clock went forward on 29 March, 08:00 after.
    let history = samples(&[
        ("2026-03-28T08:00:00Z", 99.0),
        ("2026-03-28T09:00:00Z", 40.0),
        ("2026-03-28T09:30:00Z", 40.0),
        ("2026-03-29T08:00:00Z", 20.0),
        ("2026-03-29T08:30:00Z", 20.0),
        ("2026-03-29T09:30:00Z", 99.0),
    ]);
    let settings = Settings {
        time_zone: TimeZone::get("Europe/Berlin").unwrap(),
        ..Settings::default()
    };
    let forecast = forecast(&history, "2026-03-30T08:00:00Z", &settings).unwrap();
    assert!(near(forecast.available_mbps, 30.0), "{forecast:?}");
    assert_eq!(forecast.days_used, 2);
}

#[test]
fn a_sample_of_long_ago_does_not_make_the_answer_slow() {
    let history = samples(&[
        ("0001-01-01T14:00:00Z", 99.0),
        ("0001-01-01T14:30:00Z", 99.0),
        ("2026-03-03T14:00:00Z", 20.0),
        ("2026-03-03T14:30:00Z", 20.0),
    ]);
    let ask = |_| {
        let begin = std::time::Instant::now();
        let forecast = forecast(&history, "2026-03-04T14:00:00Z", &Settings::default()).unwrap();
        assert!(near(forecast.available_mbps, 20.0));
        assert_eq!(forecast.days_used, 1);
        begin.elapsed()
    };
    // Other load may delay some of them.
    let fastest = (0..10).map(ask).min().unwrap();
    assert!(fastest < Duration::from_millis(50), "{fastest:?}");
}

#[test]
fn days_without_two_tests_do_not_count() {
    let now = "2026-03-04T14:00:00Z";
    let settings = Settings::default();
    let one_test = samples(&[("2026-03-03T14:00:00Z", 20.0)]);
    assert_eq!(
        forecast(&one_test, now, &settings),
        Err(NoForecast::NoEarlierDay)
    );
    assert_eq!(
        forecast(&Samples::new(), now, &settings),
        Err(NoForecast::NoSamples)
    );
}
