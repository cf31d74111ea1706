//! Decides which hops and samples become history.

use std::collections::{BTreeMap, BTreeSet};

use fairwind_advice::{Refusal, Refusals, Sample};
use jiff::Timestamp;

use super::Order;
use crate::path::{HOPS_AT_MOST, TRANSFERS_HOP};

/// Whether a path with the hops `known` may get samples of the hops `wanted`.
pub(super) fn has_room(known: &BTreeSet<&str>, wanted: &BTreeSet<&str>) -> bool {
    let new = wanted.difference(known);
    let new = new.filter(|name| **name != TRANSFERS_HOP).count();
    new == 0 || known.len() + new <= HOPS_AT_MOST
}

/// The samples of a hop in a span of time, and those being added.
#[derive(Debug)]
pub(super) struct Admission {
    order: Order,
    now: Timestamp,
    /// The newest sample that is not later than the clock.
    newest: Option<Timestamp>,
    /// Values by Unix time in microseconds, the precision of the history.
    by_time: BTreeMap<i64, f64>,
    kept: Vec<Sample>,
    refused: Refusals,
}

impl Admission {
    /// `existing` must have every sample of the hop from the oldest sample to be added onwards. `newest` is
    /// the time of the hop's newest sample.
    pub(super) fn new(
        existing: &[Sample],
        newest: Option<Timestamp>,
        order: Order,
        now: Timestamp,
    ) -> Admission {
        // Samples later than the clock come from a clock that was fast; they must not keep others out.
        let newest = newest.filter(|&newest| newest <= now).or_else(|| {
            let past = existing.iter().rev().find(|sample| sample.time <= now);
            past.map(|sample| sample.time)
        });
        let pairs = existing
            .iter()
            .map(|s| (s.time.as_microsecond(), s.available_mbps));
        Admission {
            order,
            now,
            newest,
            by_time: pairs.collect(),
            kept: Vec::new(),
            refused: Refusals::default(),
        }
    }

    /// Adds a sample, or counts the reason why not.
    pub(super) fn ask(&mut self, sample: Sample) {
        match self.judge(sample) {
            Ok(()) => self.keep(sample),
            Err(refusal) => self.refused.count(refusal),
        }
    }

    fn judge(&self, sample: Sample) -> Result<(), Refusal> {
        sample.check(self.now)?;
        if self.by_time.contains_key(&sample.time.as_microsecond()) {
            return Err(Refusal::Duplicate);
        }
        let behind = self.newest.is_none_or(|newest| sample.time > newest);
        // Keys of blocks start in 1970; nothing was measured before.
        let fits = sample.time >= Timestamp::UNIX_EPOCH && (behind || self.order == Order::Fill);
        fits.then_some(()).ok_or(Refusal::OutOfOrder)
    }

    fn keep(&mut self, sample: Sample) {
        let time_us = sample.time.as_microsecond();
        let time = Timestamp::from_microsecond(time_us).expect("it came from a timestamp");
        // Adding 0 turns a negative zero into a positive one.
        let available_mbps = sample.available_mbps + 0.0;
        self.by_time.insert(time_us, available_mbps);
        self.newest = self.newest.max(Some(time));
        self.kept.push(Sample {
            time,
            available_mbps,
        });
    }

    /// All samples ascending in time, the new ones ascending in time, and the refusals.
    pub(super) fn finish(mut self) -> (Vec<Sample>, Vec<Sample>, Refusals) {
        let all = self
            .by_time
            .into_iter()
            .map(|(time_us, available_mbps)| Sample {
                time: Timestamp::from_microsecond(time_us).expect("it came from a timestamp"),
                available_mbps,
            });
        self.kept.sort_by_key(|sample| sample.time);
        (all.collect(), self.kept, self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64, available_mbps: f64) -> Sample {
        Sample {
            time: Timestamp::from_second(second).unwrap(),
            available_mbps,
        }
    }

    fn admit(order: Order, now: i64, samples: &[Sample]) -> (Vec<Sample>, Refusals) {
        let existing = [at(100, 1.0), at(200, 2.0)];
        let newest = Some(existing[1].time);
        let now = Timestamp::from_second(now).unwrap();
        let mut admission = Admission::new(&existing, newest, order, now);
        samples.iter().for_each(|&sample| admission.ask(sample));
        let (_, kept, refused) = admission.finish();
        (kept, refused)
    }

    #[test]
    fn each_reason_is_counted() {
        let samples = [
            at(150, 5.0),
            at(100, 5.0),
            at(300, 5.0),
            at(300, 6.0),
            at(400, -1.0),
            at(410, f64::NAN),
            at(420, f64::INFINITY),
            at(430, 1e10),
            at(1_001, 5.0),
        ];
        let (kept, refused) = admit(Order::Append, 1_000, &samples);
        assert_eq!(kept, [at(300, 5.0)]);
        let expected = Refusals {
            out_of_order: 1,
            duplicate: 2,
            negative: 1,
            not_a_number: 3,
            future: 1,
        };
        assert_eq!(refused, expected);
    }

    #[test]
    fn an_old_recording_fills_the_gaps() {
        let (kept, refused) = admit(
            Order::Fill,
            1_000,
            &[at(150, 5.0), at(50, 6.0), at(100, 7.0)],
        );
        assert_eq!(kept, [at(50, 6.0), at(150, 5.0)]);
        assert_eq!(refused.duplicate, 1);
    }

    #[test]
    fn samples_of_a_clock_that_ran_ahead_keep_nobody_out() {
        let (kept, refused) = admit(Order::Append, 180, &[at(170, 5.0), at(160, 5.0)]);
        assert_eq!(kept, [at(170, 5.0)]);
        assert_eq!(refused.out_of_order, 1);
    }

    #[test]
    fn times_before_1970_are_refused() {
        let (kept, refused) = admit(Order::Fill, 1_000, &[at(-5, 5.0)]);
        assert_eq!((kept.len(), refused.out_of_order), (0, 1));
    }
}
