//! A router's counter of octets: ifInOctets (32 bits) or ifHCInOctets (64 bits) of RFC 2863.

/// Noise of the readings' times: so much more than the capacity is still the capacity.
const TOLERANCE: f64 = 1.05;

/// A counter that turns over at its width.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// Octets after which it is 0 again.
    period: u128,
}

/// What two readings say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Growth {
    /// Traffic, Mbit/s.
    Mbps(f64),
    /// The counter began anew, or was read twice at a time.
    Reset,
    /// So much may have passed between the readings that the counter may have turned over twice.
    Ambiguous,
}

impl Counter {
    /// A counter of 32 or 64 bits.
    pub fn new(bits: u32) -> Result<Counter, String> {
        match bits {
            32 | 64 => Ok(Counter { period: 1 << bits }),
            _ => Err(format!("counters have 32 or 64 bits, not {bits}")),
        }
    }

    /// The longest time between two readings that leaves no doubt, seconds.
    pub fn longest_interval_s(&self, capacity_mbps: f64) -> f64 {
        self.period as f64 * 8e-6 / capacity_mbps
    }

    /// Traffic between two readings.
    pub fn growth(&self, before: u64, after: u64, seconds: f64, capacity_mbps: f64) -> Growth {
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
        // Nothing goes faster than the link: the counter was set to 0 instead of turning over.
        match mbps <= capacity_mbps * TOLERANCE {
            true => Growth::Mbps(mbps),
            false => Growth::Reset,
        }
    }
}
