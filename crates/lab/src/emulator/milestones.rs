//! Scheduled actions of a part of the network: samples, and the beginning and end of the totals.

use std::sync::mpsc::{SyncSender, TrySendError};

use fairwind_path::units::{Duration, Time};

use super::statistics::PipeSample;

/// The times, and the channel for the samples.
pub(super) struct Milestones {
    next: Time,
    warmup: Option<Time>,
    end: Option<Time>,
    sampling: Option<Sampling>,
    lost: u64,
}

struct Sampling {
    interval: Duration,
    next: Time,
    to: SyncSender<PipeSample>,
}

/// The actions due at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Milestone {
    pub time: Time,
    pub warmup_ends: bool,
    pub sample: bool,
    /// The totals end; this is the last milestone.
    pub ends: bool,
}

impl Milestones {
    /// Milestones at the end of the warm-up, at the end of the totals, and, from time 0 on, every
    /// `interval` for a sample to `to`.
    pub(super) fn new(
        warmup: Duration,
        end: Option<Duration>,
        interval: Option<Duration>,
        to: SyncSender<PipeSample>,
    ) -> Milestones {
        let interval = interval.map(|interval| interval.max(Duration::from_nanos(1)));
        let sampling = interval.map(|interval| Sampling {
            interval,
            next: Time::ZERO,
            to,
        });
        let mut milestones = Milestones {
            next: Time::MAX,
            warmup: (warmup > Duration::ZERO).then(|| Time::ZERO + warmup),
            end: end.map(|end| Time::ZERO + end),
            sampling,
            lost: 0,
        };
        milestones.look_ahead();
        milestones
    }

    /// Time of the next milestone; [`Time::MAX`] if there is none.
    #[inline]
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Takes the next milestone.
    pub(super) fn take(&mut self) -> Milestone {
        let time = self.next;
        let warmup_ends = self.warmup.take_if(|&mut end| end == time).is_some();
        let sampling = self.sampling.as_mut().filter(|s| s.next == time);
        let sample = sampling.map(|s| s.next += s.interval).is_some();
        let ends = self.end == Some(time);
        self.look_ahead();
        if ends {
            self.next = Time::MAX;
        }
        Milestone {
            time,
            warmup_ends,
            sample,
            ends,
        }
    }

    /// Sends a sample if the channel has room; never blocks.
    pub(super) fn send_sample(&mut self, sample: PipeSample) {
        let Some(sampling) = &self.sampling else {
            return;
        };
        if let Err(TrySendError::Full(_)) = sampling.to.try_send(sample) {
            self.lost += 1;
        }
    }

    /// Samples dropped because the channel was full.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    fn look_ahead(&mut self) {
        let sample = self.sampling.as_ref().map_or(Time::MAX, |s| s.next);
        let [warmup, end] = [self.warmup, self.end].map(|time| time.unwrap_or(Time::MAX));
        self.next = sample.min(warmup).min(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn the_warm_up_ends_before_the_sample_of_the_same_time() {
        let ms = Duration::from_millis;
        let (to, _samples) = mpsc::sync_channel(1);
        let mut milestones = Milestones::new(ms(20), None, Some(ms(10)), to);
        let taken = [(); 4].map(|()| milestones.take());
        let times = taken.map(|m| (m.time.as_millis(), m.warmup_ends, m.sample));
        assert_eq!(
            times,
            [
                (0, false, true),
                (10, false, true),
                (20, true, true),
                (30, false, true)
            ]
        );
    }

    #[test]
    fn nothing_comes_after_the_end() {
        let ms = Duration::from_millis;
        let (to, _samples) = mpsc::sync_channel(1);
        let mut milestones = Milestones::new(ms(0), Some(ms(15)), Some(ms(10)), to);
        let taken = [(); 3].map(|()| milestones.take());
        let times = taken.map(|m| (m.time.as_millis(), m.sample, m.ends));
        assert_eq!(
            times,
            [(0, true, false), (10, true, false), (15, false, true)]
        );
        assert_eq!(milestones.next(), Time::MAX);
    }

    #[test]
    fn samples_without_room_are_counted() {
        let (to, samples) = mpsc::sync_channel(1);
        let mut milestones =
            Milestones::new(Duration::ZERO, None, Some(Duration::from_secs(1)), to);
        let sample = PipeSample {
            pipe: 3,
            time: Time::ZERO,
            queue_packets: 0,
            queue_bytes: 0,
            drops: 0,
            bytes: 0,
        };
        milestones.send_sample(sample);
        milestones.send_sample(sample);
        assert_eq!(milestones.lost(), 1);
        assert_eq!(samples.recv(), Ok(sample));
    }
}
