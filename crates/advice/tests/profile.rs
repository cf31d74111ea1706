//! The daily and weekly profile on series whose next hour is known.

use std::time::{Duration, Instant};

use crate::common::{five_minutes, sample, time};
use fairwind_advice::{
    Forecast, History, HistorySet, Hop, Request, Sample, Samples, Settings, advise,
};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

const HOUR: Duration = Duration::from_secs(3600);

fn forecast(samples: &Samples, now: Timestamp, settings: &Settings) -> Forecast {
    Hop::new("kscy", samples.clone())
        .forecast(now, HOUR, settings)
        .unwrap()
}

/// 40 Mbit/s from 08:00 to 20:00 local time, else 10.
fn office_hours(zone: &TimeZone) -> impl Fn(Timestamp) -> f64 {
    move |time| {
        let hour = zone.to_datetime(time).hour();
        if (8..20).contains(&hour) { 40.0 } else { 10.0 }
    }
}

#[test]
fn one_sample_is_forecast_to_stay() {
    let samples = crate::common::samples(&[("2026-03-04T13:00:00Z", 40.0)]);
    let forecast = forecast(&samples, time("2026-03-04T13:00:00Z"), &Settings::default());
    assert_eq!(forecast.available_mbps, 40.0);
    assert_eq!(forecast.interval_mbps, None);
    assert_eq!(forecast.days_used, 0);
}

#[test]
fn the_step_of_every_day_is_seen_an_hour_before() {
    let start = time("2026-03-02T00:00:00Z");
    // Until 07:25 on the fourteenth day; an hour later it is 25 minutes after the step.
    let samples = five_minutes(start, 13 * 288 + 90, office_hours(&TimeZone::UTC));
    let now = samples.all().last().unwrap().time;
    assert_eq!(now, time("2026-03-15T07:25:00Z"));
    let early = forecast(&samples, now, &Settings::default());
    assert!((25.0..45.0).contains(&early.available_mbps), "{early:?}");
    assert_eq!(early.days_used, 13);
}

#[test]
fn a_clock_change_does_not_move_the_day() {
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    let settings = Settings {
        time_zone: zone.clone(),
        ..Settings::default()
    };
    // Sunday 29 March: the clock goes forward at 02:00, so 08:00 comes after 23 hours.
    for (from, now) in [
        ("2026-03-01T23:00:00Z", "2026-03-29T05:55:00Z"),
        // Sunday 25 October: it goes back at 03:00, so 08:00 comes after 25 hours.
        ("2026-09-27T22:00:00Z", "2026-10-25T06:55:00Z"),
    ] {
        let (from, now) = (time(from), time(now));
        let count = now.duration_since(from).as_secs() / 300 + 1;
        let samples = five_minutes(from, count, office_hours(&zone));
        let newest = samples.all().last().unwrap();
        assert_eq!((newest.time, newest.available_mbps), (now, 10.0));
        let forecast = forecast(&samples, now, &settings);
        assert!(forecast.available_mbps > 34.0, "{forecast:?}");
    }
}

#[test]
fn a_weekend_differs_from_working_days() {
    let start = time("2026-03-02T00:00:00Z");
    let weekly = |time: Timestamp| {
        let day = TimeZone::UTC.to_datetime(time).weekday();
        if day.to_monday_zero_offset() >= 5 {
            50.0
        } else {
            20.0
        }
    };
    // Friday 23:25 of the third week.
    let samples = five_minutes(start, 19 * 288 - 6, weekly);
    let now = samples.all().last().unwrap().time;
    let forecast = Hop::new("kscy", samples)
        .forecast(now, Duration::from_secs(5_400), &Settings::default())
        .unwrap();
    assert!(forecast.available_mbps > 40.0, "{forecast:?}");
}

#[test]
fn a_spike_in_the_newest_sample_does_not_move_the_forecast() {
    let start = time("2026-03-02T00:00:00Z");
    let mut samples = five_minutes(start, 10 * 288, |_| 40.0);
    let last = samples.all().last().unwrap().time;
    let now = last + SignedDuration::from_secs(300);
    samples
        .insert(sample(&now.to_string(), 4_000.0), now)
        .unwrap();
    let forecast = forecast(&samples, now, &Settings::default());
    assert!(
        (forecast.available_mbps - 40.0).abs() < 1e-9,
        "{forecast:?}"
    );
}

#[test]
fn a_new_level_is_believed_within_half_an_hour() {
    let start = time("2026-03-02T00:00:00Z");
    let change = time("2026-03-12T12:00:00Z");
    let level = |time: Timestamp| if time < change { 40.0 } else { 25.0 };
    let samples = five_minutes(start, 10 * 288 + 150, level);
    let now = samples.all().last().unwrap().time;
    assert_eq!(now, time("2026-03-12T12:25:00Z"));
    let soon = Hop::new("kscy", samples)
        .forecast(now, Duration::from_secs(300), &Settings::default())
        .unwrap();
    assert!(soon.available_mbps < 33.0, "{soon:?}");
}

#[test]
fn the_history_set_bounds_what_is_learned() {
    let start = time("2026-03-02T00:00:00Z");
    let change = time("2026-03-20T00:00:00Z");
    let level = |time: Timestamp| if time < change { 10.0 } else { 40.0 };
    let samples = five_minutes(start, 25 * 288, level);
    let now = samples.all().last().unwrap().time;
    let settings = Settings {
        history_set: HistorySet::LastDays(3),
        ..Settings::default()
    };
    let forecast = forecast(&samples, now, &settings);
    assert!(
        (forecast.available_mbps - 40.0).abs() < 1e-9,
        "{forecast:?}"
    );
    // The newest day has not joined the profile yet: three days, from the midnight of the first.
    assert_eq!(forecast.days_used, 3);
}

#[test]
fn what_was_learned_ahead_of_a_day_is_what_the_day_needs() {
    let start = time("2026-03-02T00:00:00Z");
    let value = |time: Timestamp| 40.0 + (time.as_second() / 300 % 97) as f64 / 10.0;
    // Until 23:55 of the tenth day, and an hour more.
    let samples = five_minutes(start, 10 * 288, value);
    let more = five_minutes(start, 10 * 288 + 12, value);
    let settings = Settings {
        history_set: HistorySet::LastDays(3),
        ..Settings::default()
    };
    let (now, later) = (time("2026-03-11T23:55:00Z"), time("2026-03-12T00:55:00Z"));
    let mut hop = Hop::new("kscy", samples.clone());
    hop.learn(now, &settings);
    assert!(!hop.is_learned(later, &settings));
    hop.learn_ahead(now, later, &settings);
    assert!(hop.is_learned(now, &settings) && hop.is_learned(later, &settings));
    assert_eq!(
        hop.forecast(now, HOUR, &settings),
        Hop::new("", samples.clone()).forecast(now, HOUR, &settings)
    );
    for sample in more.all().iter().skip(samples.len()) {
        hop.insert(sample, later).unwrap();
    }
    assert!(hop.is_learned(later, &settings) && !hop.is_learned(now, &settings));
    assert_eq!(
        hop.forecast(later, HOUR, &settings),
        Hop::new("", more).forecast(later, HOUR, &settings)
    );
}

#[test]
fn of_the_same_weekday_only_those_days_count() {
    let start = time("2026-03-02T00:00:00Z");
    // Wednesdays have 40 Mbit/s, other days 10; `now` is 11:55 on the fourth Wednesday.
    let wednesday = |time: Timestamp| {
        let day = TimeZone::UTC.to_datetime(time).weekday();
        if day.to_monday_zero_offset() == 2 {
            40.0
        } else {
            10.0
        }
    };
    let samples = five_minutes(start, 24 * 288 - 144, wednesday);
    let now = samples.all().last().unwrap().time;
    let settings = Settings {
        history_set: HistorySet::SameWeekday,
        ..Settings::default()
    };
    let forecast = forecast(&samples, now, &settings);
    assert!((forecast.available_mbps - 40.0).abs() < 1.0, "{forecast:?}");
    assert_eq!(forecast.days_used, 3);
}

#[test]
fn advice_comes_before_the_forecast_reaches_the_threshold() {
    let start = time("2026-03-02T00:00:00Z");
    // A triangle of 24 hours: 20 at midnight, 44 at noon.
    let triangle = |time: Timestamp| {
        let local = TimeZone::UTC.to_datetime(time);
        let hour = f64::from(local.hour()) + f64::from(local.minute()) / 60.0;
        44.0 - 2.0 * (hour - 12.0).abs()
    };
    let wait = |count, threshold| {
        let samples = five_minutes(start, count, triangle);
        let now = samples.all().last().unwrap().time;
        let settings = Settings {
            threshold_mbps: Some(threshold),
            change: fairwind_advice::Change::AbsoluteMbps(100.0),
            ..Settings::default()
        };
        forecast(&samples, now, &settings)
            .next_change_after
            .as_secs()
    };
    // 05:55 on the fifteenth day, 31.8 Mbit/s: far from 42, and half an hour from 33.
    let morning = 14 * 288 + 72;
    assert_eq!(wait(morning, 42.0), 3_600);
    let near = wait(morning, 33.0);
    assert!((900..=2_700).contains(&near), "{near}");
}

#[test]
fn samples_an_hour_apart_have_an_interval_too() {
    let start = time("2026-03-02T00:00:00Z");
    let hourly = (0..240).map(|i| Sample {
        time: start + SignedDuration::from_hours(i),
        available_mbps: if i % 2 == 0 { 30.0 } else { 34.0 },
    });
    let (samples, _) = Samples::from_unordered(hourly, Timestamp::MAX);
    let now = samples.all().last().unwrap().time;
    let half_an_hour = Duration::from_secs(1_800);
    let forecast = Hop::new("kscy", samples)
        .forecast(now, half_an_hour, &Settings::default())
        .unwrap();
    let (low, high) = forecast.interval_mbps.unwrap();
    assert!(
        low < 32.0 && 32.0 < high && high - low < 12.0,
        "{forecast:?}"
    );
}

#[test]
fn advice_of_nine_weeks_takes_less_than_a_millisecond() {
    let start = time("2026-01-05T00:00:00Z");
    let all = five_minutes(start, 18_144, office_hours(&TimeZone::UTC));
    let now = all.all().last().unwrap().time;
    let settings = Settings {
        threshold_mbps: Some(42.0),
        ..Settings::default()
    };
    let mut hop = Hop::new("kscy", all);
    let begin = Instant::now();
    hop.learn(now, &settings);
    println!("learning nine weeks: {:?}", begin.elapsed());
    let mut history = History {
        hops: vec![hop],
        rtt: None,
    };
    let mut took: Vec<Duration> = (1..=201)
        .map(|i| {
            let now = now + SignedDuration::from_secs(300 * i);
            let begin = Instant::now();
            let new = sample(&now.to_string(), 20.0);
            history.hops[0].insert(new, now).unwrap();
            let advice = advise(&history, &Request::default(), now, &settings);
            assert!(advice.available_mbps.is_some());
            begin.elapsed()
        })
        .collect();
    took.sort_unstable();
    println!("a new sample and advice: {:?} (median)", took[100]);
    assert!(took[100] < Duration::from_millis(1), "{:?}", took[100]);
}

#[test]
fn what_a_copy_learned_is_taken_over_with_the_samples_since() {
    let start = time("2026-03-02T00:00:00Z");
    let all = five_minutes(start, 4_032, office_hours(&TimeZone::UTC));
    let now = all.all().last().unwrap().time;
    let settings = Settings::default();
    let hop = |count: usize| {
        let (samples, _) = Samples::from_unordered(all.all().iter().take(count), Timestamp::MAX);
        Hop::new("kscy", samples)
    };
    let mut copy = hop(4_000);
    copy.learn(now, &settings);
    let mut taught = hop(4_032);
    assert!(!taught.is_learned(now, &settings));
    assert!(taught.adopt(copy.clone()));
    assert!(taught.is_learned(now, &settings));
    let ahead = Duration::from_secs(3_600);
    assert_eq!(
        taught.forecast(now, ahead, &settings),
        hop(4_032).forecast(now, ahead, &settings)
    );
    let mut shorter = hop(3_999);
    assert!(!shorter.adopt(copy));
    assert!(!shorter.is_learned(now, &settings));
}
