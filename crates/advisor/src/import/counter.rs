//! A router's counter of octets: ifInOctets (32 bits) or ifHCInOctets (64 bits) of RFC 2863.

/// Allowance for errors in the times of readings: rates up to this multiple of the capacity are accepted.
const TOLERANCE: f64 = 1.05;

/// A counter that wraps at its width.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    /// Number of octets after which it is 0 again.
    period: u128,
}

/// The result of comparing two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Growth {
    /// Traffic, Mbit/s.
    Mbps(f64),
    /// The counter was reset, or both readings have the same time.
    Reset,
    /// The counter may have wrapped more than once between the readings.
    Ambiguous,
}

impl Counter {
    /// A counter of 32 or 64 bits.
    pub(super) fn new(bits: u32) -> Result<Counter, String> {
        match bits {
            32 | 64 => Ok(Counter { period: 1 << bits }),
            _ => Err(format!("counters have 32 or 64 bits, not {bits}")),
        }
    }

    /// The longest unambiguous interval between two readings, seconds.
    pub(super) fn longest_interval_s(&self, capacity_mbps: f64) -> f64 {
        self.period as f64 * 8e-6 / capacity_mbps
    }

    /// Traffic between two readings.
    pub(super) fn growth(
        &self,
        before: u64,
        after: u64,
        seconds: f64,
        capacity_mbps: f64,
    ) -> Growth {
        if seconds <= 0.0 || u128::from(before.max(after)) >= self.period {
            return Growth::Reset;
        }
        if seconds > self.longest_interval_s(capacity_mbps) {
            return Growth::Ambiguous;
        }
        let (before, after) = (u128::from(before), u128::from(after));
        let octets = match after >= before {
            true => after - before,
            false => after + self.period - before,
        };
        let mbps = octets as f64 * 8e-6 / seconds;
        // Traffic cannot exceed the link's capacity: the counter was reset instead of wrapping.
        match mbps <= capacity_mbps * TOLERANCE {
            true => Growth::Mbps(mbps),
            false => Growth::Reset,
        }
    }
}
