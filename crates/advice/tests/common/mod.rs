//! Samples for tests; not every test file uses all functions.
#![allow(dead_code)]

use fairwind_advice::{Sample, Samples};
use jiff::{SignedDuration, Timestamp};

pub(crate) fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn sample(text: &str, available_mbps: f64) -> Sample {
    Sample {
        time: time(text),
        available_mbps,
    }
}

pub(crate) fn samples(list: &[(&str, f64)]) -> Samples {
    let listed = list.iter().map(|&(text, value)| sample(text, value));
    let (samples, refusals) = Samples::from_unordered(listed, Timestamp::MAX);
    assert_eq!(refusals.total(), 0);
    samples
}

/// A sample every five minutes from `from` on, `count` of them.
pub(crate) fn five_minutes(
    from: Timestamp,
    count: i64,
    value: impl Fn(Timestamp) -> f64,
) -> Samples {
    let series = (0..count).map(|i| {
        let time = from + SignedDuration::from_secs(300 * i);
        Sample {
            time,
            available_mbps: value(time),
        }
    });
    Samples::from_unordered(series, Timestamp::MAX).0
}
