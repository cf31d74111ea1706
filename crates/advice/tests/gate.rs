//! Which samples enter the history and which are refused.

use crate::common::{sample, samples, time};
use fairwind_advice::{Refusal, Refusals, Samples};

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let now = time("2026-03-04T14:00:00Z");
    let mut history = samples(&[
        ("2026-03-04T13:00:00Z", 40.0),
        ("2026-03-04T13:10:00Z", 41.0),
    ]);
    let before = history.clone();
    for (bad, refusal) in [
        (
            sample("2026-03-04T13:20:00Z", f64::NAN),
            Refusal::NotANumber,
        ),
        (
            sample("2026-03-04T13:20:00Z", f64::INFINITY),
            Refusal::NotANumber,
        ),
        (sample("2026-03-04T13:20:00Z", 1.1e9), Refusal::NotANumber),
        (sample("2026-03-04T13:20:00Z", -0.1), Refusal::Negative),
        (sample("2026-03-04T14:00:01Z", 40.0), Refusal::Future),
        (sample("2026-03-04T13:10:00Z", 41.0), Refusal::Duplicate),
        (sample("2026-03-04T13:00:00Z", 39.0), Refusal::Duplicate),
        (sample("2026-03-04T13:05:00Z", 40.0), Refusal::OutOfOrder),
        (sample("2026-03-04T12:00:00Z", 40.0), Refusal::OutOfOrder),
    ] {
        assert_eq!(history.insert(bad, now), Err(refusal), "{bad:?}");
        assert_eq!(history, before);
    }
    assert_eq!(
        history.insert(sample("2026-03-04T14:00:00Z", 0.0), now),
        Ok(())
    );
    assert_eq!(history.len(), 3);
}

#[test]
fn a_file_in_any_order_becomes_history_and_its_refusals_are_counted() {
    let now = time("2026-03-04T14:00:00Z");
    let (history, refusals) = Samples::from_unordered(
        [
            sample("2026-03-04T13:10:00Z", 41.0),
            sample("2026-03-04T13:00:00Z", 40.0),
            sample("2026-03-04T13:10:00Z", 43.0),
            sample("2026-03-04T13:20:00Z", f64::NAN),
            sample("2026-03-04T13:20:00Z", -1.0),
            sample("2026-03-05T13:20:00Z", 40.0),
        ],
        now,
    );
    let values: Vec<f64> = history.all().iter().map(|s| s.available_mbps).collect();
    assert_eq!(values, [40.0, 41.0]);
    let expected = Refusals {
        not_a_number: 1,
        negative: 1,
        future: 1,
        duplicate: 1,
        out_of_order: 0,
    };
    assert_eq!(refusals, expected);
    assert_eq!(refusals.total(), 4);
}

#[test]
fn numbers_that_are_none_do_not_upset_the_order_of_a_file() {
    let now = time("2026-03-04T14:00:00Z");
    let mixed = (0..200).map(|i| {
        let value = if i % 3 == 0 { f64::NAN } else { f64::from(i) };
        sample("2026-03-04T13:00:00Z", value)
    });
    let (history, refusals) = Samples::from_unordered(mixed, now);
    assert_eq!(history, samples(&[("2026-03-04T13:00:00Z", 1.0)]));
    assert_eq!((refusals.not_a_number, refusals.duplicate), (67, 132));
}

#[test]
fn old_samples_can_be_forgotten() {
    let mut history = samples(&[
        ("2026-03-04T13:00:00Z", 40.0),
        ("2026-03-04T13:10:00Z", 41.0),
    ]);
    assert_eq!(history.forget_before(time("2026-03-04T13:10:00Z")), 1);
    assert_eq!(history, samples(&[("2026-03-04T13:10:00Z", 41.0)]));
}
