//! What a pipe did: counts, and the time that its queue spent at each length.
//!
//! The queue is never sampled: each change of its length adds the time since the change before, so
//! mean and percentile are exact (of queues above 65536 packets, to within 0.4 %).

use crate::accounting::Accounting;
use crate::units::{Duration, Time};

/// What a pipe did between the start, or the reset of its statistics, and the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeStatistics {
    /// Length of the time that is told of.
    pub length: Duration,
    /// Share of the time, 0 to 1, in which a packet was being sent or waiting; with a bandwidth that
    /// follows a trace, the share of what the trace offered that was used.
    pub utilization: f64,
    /// Mean number of packets waiting or being sent, weighted by time.
    pub queue_mean_pkts: f64,
    /// Smallest number of packets that the queue did not exceed for 99 % of the time.
    pub queue_p99_pkts: u64,
    /// Largest number of packets that the queue held for some time.
    pub queue_max_pkts: u64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets whose transmission ended.
    pub packets: u64,
    /// Their IP bytes.
    pub bytes: u64,
    /// Packets dropped by the queue: full, RED or CoDel.
    pub drops: u64,
    /// Packets lost at random.
    pub random_losses: u64,
    /// Packets of which a second copy reached the far end.
    pub duplicates: u64,
    /// Packets taken out of their order on purpose.
    pub reordered: u64,
}

/// Counts since the start of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) arrived: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) wire_bytes: u64,
    pub(crate) drops: u64,
    pub(crate) random_losses: u64,
    pub(crate) duplicates: u64,
    pub(crate) reordered: u64,
}

/// Collects a pipe's statistics in constant time a packet.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) counts: Counts,
    accounting: Accounting,
    /// The counts at the reset.
    before: Counts,
    reset_at: Time,
    /// The queue's length is accounted for until here.
    since: Time,
    /// Nanoseconds spent at each length; lengths fall into buckets.
    time_at: Vec<u64>,
}

impl Record {
    pub(crate) fn new(accounting: Accounting) -> Record {
        Record {
            counts: Counts::default(),
            accounting,
            before: Counts::default(),
            reset_at: Time::ZERO,
            since: Time::ZERO,
            time_at: vec![0; 64],
        }
    }

    /// The queue has held `packets` since the last call.
    #[inline]
    pub(crate) fn held(&mut self, packets: usize, until: Time) {
        let nanos = (until - self.since).as_nanos();
        let bucket = bucket(packets);
        if bucket >= self.time_at.len() {
            self.grow(bucket);
        }
        self.time_at[bucket] += nanos;
        self.since = until;
    }

    /// One of `packets` has left.
    #[inline]
    pub(crate) fn left(&mut self, packets: usize, departure: Time, size: u32) {
        self.held(packets, departure);
        self.counts.packets += 1;
        self.counts.bytes += u64::from(size);
        self.counts.wire_bytes += self.accounting.wire_bytes(size);
    }

    #[cold]
    fn grow(&mut self, bucket: usize) {
        self.time_at.resize((bucket + 1).next_power_of_two(), 0);
    }

    /// Forgets what was before `now`, at which the queue holds `packets`. Counts go on.
    pub(crate) fn reset(&mut self, packets: usize, now: Time) {
        self.held(packets, now);
        self.before = self.counts;
        self.reset_at = now;
        self.time_at.fill(0);
    }

    /// What happened since the reset. The queue holds `packets` at `end`. `offered` says what a
    /// bandwidth that follows a trace offered in between, in bits.
    pub(crate) fn statistics(
        &mut self,
        packets: usize,
        end: Time,
        offered: impl FnOnce(Time, Time) -> Option<f64>,
    ) -> PipeStatistics {
        self.held(packets, end);
        let length = end - self.reset_at;
        let nanos = length.as_nanos();
        let share = |part: f64| if nanos == 0 { 0.0 } else { part / nanos as f64 };
        let (now, before) = (self.counts, self.before);
        let utilization = match offered(self.reset_at, end) {
            None => share(nanos.saturating_sub(self.time_at[0]) as f64),
            Some(bits) if bits > 0.0 => {
                ((now.wire_bytes - before.wire_bytes) as f64 * 8.0 / bits).min(1.0)
            }
            Some(_) => 0.0,
        };
        PipeStatistics {
            length,
            utilization,
            queue_mean_pkts: share(self.packet_nanos() as f64),
            queue_p99_pkts: self.percentile_99(nanos),
            queue_max_pkts: self.longest(),
            arrived: now.arrived - before.arrived,
            packets: now.packets - before.packets,
            bytes: now.bytes - before.bytes,
            drops: now.drops - before.drops,
            random_losses: now.random_losses - before.random_losses,
            duplicates: now.duplicates - before.duplicates,
            reordered: now.reordered - before.reordered,
        }
    }

    fn packet_nanos(&self) -> u128 {
        let times = self.time_at.iter().enumerate();
        let areas = times.map(|(bucket, &time)| u128::from(smallest_in(bucket)) * u128::from(time));
        areas.sum()
    }

    fn longest(&self) -> u64 {
        let bucket = self.time_at.iter().rposition(|&time| time > 0);
        bucket.map_or(0, smallest_in)
    }

    fn percentile_99(&self, nanos: u64) -> u64 {
        let wanted = (u128::from(nanos) * 99).div_ceil(100);
        let mut sum = 0;
        for (bucket, &time) in self.time_at.iter().enumerate() {
            sum += u128::from(time);
            if sum >= wanted {
                return smallest_in(bucket);
            }
        }
        0
    }
}

/// Lengths below this have a bucket each; above, 256 buckets share each doubling.
const EXACT: u64 = 65536;

#[inline]
fn bucket(packets: usize) -> usize {
    if (packets as u64) < EXACT {
        packets
    } else {
        shared_bucket(packets as u64)
    }
}

#[cold]
fn shared_bucket(packets: u64) -> usize {
    let doublings = packets.ilog2() - EXACT.ilog2();
    let fraction = (packets >> (packets.ilog2() - 8)) & 255;
    (EXACT + 256 * u64::from(doublings) + fraction) as usize
}

fn smallest_in(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let (doublings, fraction) = ((bucket - EXACT) / 256, (bucket - EXACT) % 256);
    (256 + fraction) << (doublings + u64::from(EXACT.ilog2()) - 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_lengths_in_order_to_within_a_256th() {
        let lengths =
            (0..200_000).chain((18..40).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + 1]));
        let mut last = 0;
        for length in lengths {
            let bucket = bucket(length);
            assert!(bucket >= last, "{length}");
            last = bucket;
            let smallest = smallest_in(bucket);
            assert!(smallest <= length as u64, "{length}");
            assert!(length as u64 - smallest <= length as u64 / 256, "{length}");
        }
        assert_eq!(smallest_in(bucket(65_535)), 65_535);
        assert_eq!(smallest_in(bucket(65_536)), 65_536);
    }

    #[test]
    fn mean_and_percentile_weigh_by_time() {
        let mut record = Record::new(Accounting::Ip);
        record.held(0, Time::from_secs(50));
        record.held(10, Time::from_secs(98));
        record.held(30, Time::from_secs(100));
        let statistics = record.statistics(30, Time::from_secs(100), |_, _| None);
        // (10 * 48 + 30 * 2) / 100; at most 10 for 98 s, at most 30 for 100 s.
        assert_eq!(statistics.queue_mean_pkts, 5.4);
        assert_eq!(statistics.queue_p99_pkts, 30);
        assert_eq!(statistics.utilization, 0.5);
        assert_eq!(statistics.queue_max_pkts, 30);
    }

    #[test]
    fn a_reset_forgets_what_was_before() {
        let mut record = Record::new(Accounting::Ip);
        record.counts.drops = 3;
        record.held(8, Time::from_secs(4));
        record.reset(2, Time::from_secs(5));
        record.counts.drops += 1;
        let statistics = record.statistics(2, Time::from_secs(7), |_, _| None);
        assert_eq!(statistics.length, Duration::from_secs(2));
        assert_eq!(statistics.queue_mean_pkts, 2.0);
        assert_eq!(statistics.queue_max_pkts, 2);
        assert_eq!(statistics.drops, 1);
        assert_eq!(record.counts.drops, 4);
    }

    #[test]
    fn no_time_gives_zeros() {
        let mut record = Record::new(Accounting::Ip);
        let statistics = record.statistics(0, Time::ZERO, |_, _| None);
        assert_eq!(statistics, PipeStatistics::default());
    }
}
