//! Histogram of how late packets were delivered.

use fairwind_path::units::Duration;
use serde::Serialize;

/// Buckets per power of two: percentiles are at most 1/32 too high.
const PARTS: u64 = 32;

/// Counts durations from 1 ns up in buckets of 3 % width. Adding one takes a few nanoseconds and
/// allocates nothing.
#[derive(Clone, Debug)]
pub struct Lateness {
    buckets: Vec<u64>,
    count: u64,
    max: Duration,
}

/// Summary of a [`Lateness`] histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatenessSummary {
    /// Packets counted.
    pub packets: u64,
    /// Median: half of the packets were at most this late, microseconds.
    pub lateness_p50_us: f64,
    /// 99 % of the packets were at most this late, microseconds.
    pub lateness_p99_us: f64,
    /// The greatest lateness, microseconds.
    pub lateness_max_us: f64,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness {
            buckets: vec![0; bucket(u64::MAX) + 1],
            count: 0,
            max: Duration::ZERO,
        }
    }
}

impl Lateness {
    /// Counts a packet that was late by `late`.
    #[inline]
    pub fn add(&mut self, late: Duration) {
        self.buckets[bucket(late.as_nanos())] += 1;
        self.count += 1;
        self.max = self.max.max(late);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Lateness) {
        for (mine, its) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += its;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// Packets counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The greatest lateness.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The lateness that a share (0 to 1) of the packets did not exceed: at most 3 % too high, zero
    /// without packets.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, &packets) in self.buckets.iter().enumerate() {
            seen += packets;
            if seen >= wanted {
                return Duration::from_nanos(highest(index)).min(self.max);
            }
        }
        Duration::ZERO
    }

    /// The number of packets, median, 99th percentile and maximum.
    pub fn summary(&self) -> LatenessSummary {
        let us = |late: Duration| late.as_nanos() as f64 / 1e3;
        LatenessSummary {
            packets: self.count,
            lateness_p50_us: us(self.quantile(0.5)),
            lateness_p99_us: us(self.quantile(0.99)),
            lateness_max_us: us(self.max),
        }
    }

    /// The buckets that are not empty: their greatest lateness, and the number of packets in them.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.buckets
            .iter()
            .enumerate()
            .filter(|(_, packets)| **packets > 0)
            .map(|(index, &packets)| (Duration::from_nanos(highest(index)), packets))
    }
}

/// Below `PARTS` each duration has its own bucket; above, the highest bits choose the bucket.
#[inline]
fn bucket(nanos: u64) -> usize {
    if nanos < PARTS {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - PARTS.ilog2();
    (u64::from(shift) * PARTS + (nanos >> shift)) as usize
}

/// The longest duration in a bucket, nanoseconds.
fn highest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PARTS {
        return bucket;
    }
    let shift = bucket / PARTS - 1;
    let first = bucket - shift * PARTS;
    (first << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_at_most_one_part_in_32_below_its_bucket() {
        for shift in 0..64 {
            for nanos in [1u64 << shift, (1 << shift) | (1 << shift) >> 1] {
                let shown = highest(bucket(nanos));
                assert!(shown >= nanos, "{nanos}");
                assert!(shown - nanos <= nanos / 32, "{nanos}");
            }
        }
        assert_eq!(highest(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn percentiles_come_from_the_packets_counted() {
        let mut lateness = Lateness::default();
        for us in 1..=100 {
            lateness.add(Duration::from_nanos(us));
        }
        assert_eq!(lateness.quantile(0.5), Duration::from_nanos(50));
        assert_eq!(lateness.quantile(1.0), Duration::from_nanos(100));
        assert_eq!(lateness.max(), Duration::from_nanos(100));
    }

    #[test]
    fn nothing_counted_is_nothing_late() {
        assert_eq!(Lateness::default().summary(), LatenessSummary::default());
    }

    #[test]
    fn merged_histograms_count_both() {
        let (mut a, mut b) = (Lateness::default(), Lateness::default());
        a.add(Duration::from_nanos(3));
        b.add(Duration::from_nanos(5));
        a.merge(&b);
        assert_eq!((a.count(), a.max()), (2, Duration::from_nanos(5)));
        assert_eq!(a.buckets().count(), 2);
    }
}
