//! Synthetic histories have the requested shape.

use std::time::Duration;

use crate::common::time;
use fairwind_advice::Curve;
use jiff::civil::Weekday;
use jiff::civil::time as clock;
use jiff::tz::{TimeZone, offset};

/// Available bandwidth without noise: 40 at midnight, 48 at noon.
fn plain() -> Curve {
    Curve {
        day: vec![(0.0, 40.0), (12.0, 48.0)],
        weekend_mbps: 2.0,
        days_mbps: 0.0,
        slow_mbps: 0.0,
        fast_mbps: 0.0,
        ..Curve::default()
    }
}

#[test]
fn a_day_goes_from_hour_to_hour_as_half_a_cosine_and_round_midnight() {
    let curve = plain();
    let at = |hour, minute| curve.usual_mbps(Weekday::Monday, clock(hour, minute, 0, 0));
    assert_eq!(at(0, 0), 40.0);
    assert!((at(3, 0) - (44.0 - 4.0 * 0.5_f64.sqrt())).abs() < 1e-12);
    assert!((at(6, 0) - 44.0).abs() < 1e-12);
    assert_eq!(at(12, 0), 48.0);
    assert!((at(18, 0) - 44.0).abs() < 1e-12);
}

#[test]
fn an_evening_goes_on_to_the_first_hour_of_the_next_day() {
    let curve = Curve {
        day: vec![(2.0, 40.0), (22.0, 48.0)],
        ..plain()
    };
    let midnight = curve.usual_mbps(Weekday::Monday, clock(0, 0, 0, 0));
    assert!((midnight - 44.0).abs() < 1e-12);
}

#[test]
fn days_are_those_of_the_time_zone() {
    let curve = Curve {
        time_zone: TimeZone::fixed(offset(-6)),
        step: Duration::from_secs(3600),
        ..plain()
    };
    // Friday, 1 March 2002, noon in Kansas, and Saturday's first sample at midnight.
    let samples = curve.samples(time("2002-03-01T18:00:00Z"), time("2002-03-02T07:00:00Z"));
    assert_eq!(samples.len(), 13);
    assert_eq!(samples[0].available_mbps, 48.0);
    assert_eq!(samples[12].time, time("2002-03-02T06:00:00Z"));
    assert_eq!(samples[12].available_mbps, 42.0);
}

#[test]
fn the_same_seed_gives_the_same_samples_and_another_gives_others() {
    let (from, to) = (time("2002-03-01T00:00:00Z"), time("2002-03-03T00:00:00Z"));
    let curve = Curve::default();
    let samples = curve.samples(from, to);
    assert_eq!(samples.len(), 576);
    assert_eq!(samples, curve.samples(from, to));
    assert_ne!(samples, Curve { seed: 2, ..curve }.samples(from, to));
}

#[test]
fn noise_has_the_deviation_that_was_asked_for() {
    let (from, to) = (time("2002-01-01T00:00:00Z"), time("2003-01-01T00:00:00Z"));
    let flat = Curve {
        day: vec![(0.0, 30.0)],
        weekend_mbps: 0.0,
        ..plain()
    };
    for curve in [
        Curve {
            days_mbps: 2.0,
            ..flat.clone()
        },
        Curve {
            slow_mbps: 2.0,
            ..flat.clone()
        },
        Curve {
            fast_mbps: 2.0,
            ..flat
        },
    ] {
        let samples = curve.samples(from, to);
        let squares = samples.iter().map(|s| (s.available_mbps - 30.0).powi(2));
        let deviation = (squares.sum::<f64>() / samples.len() as f64).sqrt();
        assert!((1.85..2.15).contains(&deviation), "{deviation}");
    }
}

#[test]
fn no_sample_is_above_the_capacity_or_below_nothing() {
    let wild = Curve {
        fast_mbps: 100.0,
        ..Curve::default()
    };
    let samples = wild.samples(time("2002-01-01T00:00:00Z"), time("2002-01-08T00:00:00Z"));
    assert!(samples.iter().any(|s| s.available_mbps == 0.0));
    assert!(samples.iter().any(|s| s.available_mbps == 55.0));
    assert!(
        samples
            .iter()
            .all(|s| (0.0..=55.0).contains(&s.available_mbps))
    );
}
