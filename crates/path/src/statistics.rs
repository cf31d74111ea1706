//! Statistics of a pipe: counts, and the time that its queue spent at each length.
//!
//! The queue is not sampled: each change of its length accounts for the time since the previous change,
//! so mean and percentile are exact (above 65536 packets, to within 0.4 %).

use crate::units::{Duration, Time};

/// Statistics of a pipe from the start, or the last reset, to the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeStatistics {
    /// Duration that the statistics cover.
    pub length: Duration,
    /// Share of the time, 0 to 1, in which a packet was being sent or waiting; for a recorded bandwidth,
    /// the share of the offered bytes that was used.
    pub utilization: f64,
    /// Mean number of packets waiting or being sent, weighted by time.
    pub queue_mean_pkts: f64,
    /// Smallest number of packets that the queue did not exceed in 99 % of the time.
    pub queue_p99_pkts: u64,
    /// Largest number of packets that the queue held for any length of time.
    pub queue_max_pkts: u64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets whose transmission ended.
    pub packets: u64,
    /// Their IP bytes.
    pub bytes: u64,
    /// Packets dropped by the queue: full, or by its AQM.
    pub drops: u64,
    /// Packets that arrived ECN-capable and that the queue marked (CE) instead of dropping them.
    pub marks: u64,
    /// Packets lost at random.
    pub random_losses: u64,
    /// Packets dropped by the policer.
    pub policed: u64,
    /// Packets delivered twice.
    pub duplicates: u64,
    /// Packets deliberately reordered.
    pub reordered: u64,
}

/// Counts since the start of a run, as in [`PipeStatistics`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) arrived: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Bytes of bandwidth consumed; see `accounting`.
    pub(crate) wire_bytes: u64,
    pub(crate) drops: u64,
    pub(crate) marks: u64,
    pub(crate) random_losses: u64,
    pub(crate) policed: u64,
    pub(crate) duplicates: u64,
    pub(crate) reordered: u64,
}

impl Counts {
    pub(crate) fn losses(&self) -> u64 {
        self.drops + self.random_losses + self.policed
    }
}

/// The time that a queue spent at each length.
#[derive(Clone, Debug)]
pub(crate) struct Lengths {
    /// Start of the account.
    from: Time,
    /// The queue's length is accounted for up to here.
    since: Time,
    /// Nanoseconds at each length below `EXACT`.
    exact: Vec<u64>,
    /// The same for longer queues, in 256 buckets for each doubling of the length.
    long: Vec<u64>,
}

/// Queues shorter than this are accounted for exactly.
const EXACT: usize = 65_536;

impl Lengths {
    pub(crate) fn new() -> Lengths {
        Lengths {
            from: Time::ZERO,
            since: Time::ZERO,
            exact: vec![0; 64],
            long: Vec::new(),
        }
    }

    /// Accounts for the time since the last call, in which the queue held `packets`.
    #[inline]
    pub(crate) fn held(&mut self, packets: usize, until: Time) {
        let nanos = (until - self.since).as_nanos();
        self.since = until;
        match self.exact.get_mut(packets) {
            Some(time) => *time += nanos,
            None => self.held_longer_than_ever(packets, nanos),
        }
    }

    #[cold]
    #[inline(never)]
    fn held_longer_than_ever(&mut self, packets: usize, nanos: u64) {
        if packets < EXACT {
            self.exact.resize((packets + 1).next_power_of_two(), 0);
            self.exact[packets] = nanos;
            return;
        }
        let bucket = long_bucket(packets as u64);
        if bucket >= self.long.len() {
            self.long.resize(bucket + 1, 0);
        }
        self.long[bucket] += nanos;
    }

    /// Restarts the account at `now`, up to which the queue held `packets`.
    pub(crate) fn reset(&mut self, packets: usize, now: Time) {
        self.held(packets, now);
        self.from = now;
        self.exact.fill(0);
        self.long.fill(0);
    }

    /// Start of the account.
    pub(crate) fn from(&self) -> Time {
        self.from
    }

    /// (length, nanoseconds), in order of length.
    fn times(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let exact = self.exact.iter().enumerate();
        let exact = exact.map(|(packets, &nanos)| (packets as u64, nanos));
        let long = self.long.iter().enumerate();
        exact.chain(long.map(|(bucket, &nanos)| (smallest_in_long(bucket), nanos)))
    }

    fn mean(&self, nanos: u64) -> f64 {
        let area = |(packets, nanos)| u128::from(packets) * u128::from(nanos);
        share(self.times().map(area).sum::<u128>() as f64, nanos)
    }

    fn busy(&self, nanos: u64) -> f64 {
        share(nanos.saturating_sub(self.exact[0]) as f64, nanos)
    }

    fn longest(&self) -> u64 {
        let held = self.times().rfind(|&(_, nanos)| nanos > 0);
        held.map_or(0, |(packets, _)| packets)
    }

    fn percentile_99(&self, nanos: u64) -> u64 {
        let wanted = (u128::from(nanos) * 99).div_ceil(100);
        let mut sum = 0;
        let reached = self.times().find(|&(_, nanos)| {
            sum += u128::from(nanos);
            sum >= wanted
        });
        reached.map_or(0, |(packets, _)| packets)
    }
}

fn share(part: f64, nanos: u64) -> f64 {
    if nanos == 0 { 0.0 } else { part / nanos as f64 }
}

fn long_bucket(packets: u64) -> usize {
    let doublings = packets.ilog2() - EXACT.ilog2();
    let fraction = (packets >> (packets.ilog2() - 8)) & 255;
    256 * doublings as usize + fraction as usize
}

fn smallest_in_long(bucket: usize) -> u64 {
    let (doublings, fraction) = (bucket / 256, bucket % 256);
    (256 + fraction as u64) << (doublings as u32 + EXACT.ilog2() - 8)
}

impl PipeStatistics {
    /// Statistics of the counts from `before` to `now`. The queue's lengths are accounted for up to
    /// `end`. `offered` is what a recorded bandwidth offered in that time, in bits.
    pub(crate) fn new(
        lengths: &Lengths,
        (before, now): (&Counts, &Counts),
        offered: Option<f64>,
        end: Time,
    ) -> PipeStatistics {
        let length = end - lengths.from;
        let nanos = length.as_nanos();
        let utilization = match offered {
            None => lengths.busy(nanos),
            Some(bits) if bits > 0.0 => {
                let used = (now.wire_bytes - before.wire_bytes) as f64 * 8.0;
                (used / bits).min(1.0)
            }
            Some(_) => 0.0,
        };
        PipeStatistics {
            length,
            utilization,
            queue_mean_pkts: lengths.mean(nanos),
            queue_p99_pkts: lengths.percentile_99(nanos),
            queue_max_pkts: lengths.longest(),
            arrived: now.arrived - before.arrived,
            packets: now.packets - before.packets,
            bytes: now.bytes - before.bytes,
            drops: now.drops - before.drops,
            marks: now.marks - before.marks,
            random_losses: now.random_losses - before.random_losses,
            policed: now.policed - before.policed,
            duplicates: now.duplicates - before.duplicates,
            reordered: now.reordered - before.reordered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(lengths: &Lengths, end: Time) -> PipeStatistics {
        PipeStatistics::new(lengths, (&Counts::default(), &Counts::default()), None, end)
    }

    #[test]
    fn long_buckets_hold_lengths_in_order_to_within_a_256th() {
        let lengths = (EXACT as u64..300_000)
            .chain((19..40).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + 1]));
        let mut last = 0;
        for length in lengths {
            let bucket = long_bucket(length);
            assert!(bucket >= last, "{length}");
            last = bucket;
            let smallest = smallest_in_long(bucket);
            assert!(smallest <= length, "{length}");
            assert!(length - smallest <= length / 256, "{length}");
        }
        assert_eq!(smallest_in_long(long_bucket(65_536)), 65_536);
    }

    #[test]
    fn mean_and_percentile_weigh_by_time() {
        let mut lengths = Lengths::new();
        lengths.held(0, Time::from_secs(50));
        lengths.held(10, Time::from_secs(98));
        lengths.held(30, Time::from_secs(100));
        let statistics = statistics(&lengths, Time::from_secs(100));
        // (10 * 48 + 30 * 2) / 100; at most 10 for 98 s, at most 30 for 100 s.
        assert_eq!(statistics.queue_mean_pkts, 5.4);
        assert_eq!(statistics.queue_p99_pkts, 30);
        assert_eq!(statistics.queue_max_pkts, 30);
        assert_eq!(statistics.utilization, 0.5);
    }

    #[test]
    fn very_long_queues_are_accounted_for_too() {
        let mut lengths = Lengths::new();
        lengths.held(100, Time::from_secs(1));
        lengths.held(1 << 20, Time::from_secs(4));
        let statistics = statistics(&lengths, Time::from_secs(4));
        // (100 + 3 * 1,048,576) / 4
        assert_eq!(statistics.queue_mean_pkts, 786_457.0);
        assert_eq!(statistics.queue_max_pkts, 1 << 20);
    }

    #[test]
    fn a_reset_forgets_what_was_before() {
        let mut lengths = Lengths::new();
        lengths.held(8, Time::from_secs(4));
        lengths.reset(2, Time::from_secs(5));
        lengths.held(2, Time::from_secs(7));
        let statistics = statistics(&lengths, Time::from_secs(7));
        assert_eq!(statistics.length, Duration::from_secs(2));
        assert_eq!(statistics.queue_mean_pkts, 2.0);
        assert_eq!(statistics.queue_max_pkts, 2);
    }

    #[test]
    fn no_time_gives_zeros() {
        assert_eq!(
            statistics(&Lengths::new(), Time::ZERO),
            PipeStatistics::default()
        );
    }
}
