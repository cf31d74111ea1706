//! What is advised of a path, for a start by Careful Resume (RFC 9959): `struct advised_start` of
//! `cc/include/fairwind/tcp.h`.

/// A forecast of a path, by which a new connection may start.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdvisedStart {
    rate: u64,
    until_ns: u64,
    held_until_ns: u64,
    rtt_us: u32,
    padding: u32,
}

/// A forecast that no path can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdvisedStartError {
    /// The rate is out of range.
    #[error("a rate of {}; it must be 8 bit/s to {}", bit_per_s(*.0), bit_per_s(MAX_RATE))]
    Rate(u64),
    /// The round-trip time is out of range.
    #[error("a round-trip time of {0} us; it must be 2 us to {MAX_RTT_US} us")]
    Rtt(u64),
}

/// The highest rate, bytes per second: 8 Tbit/s.
const MAX_RATE: u64 = 1_000_000_000_000;
/// The longest round-trip time, microseconds.
const MAX_RTT_US: u64 = 10_000_000;

/// In the unit in which rates of paths are given.
fn bit_per_s(rate: u64) -> String {
    let bits = 8 * u128::from(rate);
    match bits {
        0..1_000 => format!("{bits} bit/s"),
        _ => format!("{} Mbit/s", bits as f64 / 1e6),
    }
}

impl AdvisedStart {
    /// The path carries `rate` bytes per second, packets' headers included, at a minimum round-trip time of
    /// `rtt_us` microseconds; this holds before `until_ns`, nanoseconds of `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    ///
    /// If the rate is not 1 to 10^12 bytes/s, or the round-trip time is not 2 us to 10 s.
    pub fn new(rate: u64, rtt_us: u64, until_ns: u64) -> Result<AdvisedStart, AdvisedStartError> {
        if !(1..=MAX_RATE).contains(&rate) {
            return Err(AdvisedStartError::Rate(rate));
        }
        if !(2..=MAX_RTT_US).contains(&rtt_us) {
            return Err(AdvisedStartError::Rtt(rtt_us));
        }
        Ok(AdvisedStart {
            rate,
            until_ns,
            rtt_us: rtt_us as u32,
            ..AdvisedStart::default()
        })
    }

    /// The rate that is promised, bytes per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// The minimum round-trip time of the path, microseconds.
    pub fn rtt_us(&self) -> u32 {
        self.rtt_us
    }

    /// Until when it holds, nanoseconds of `CLOCK_MONOTONIC`; `None`: a connection has found it wrong.
    pub fn until_ns(&self) -> Option<u64> {
        Some(self.until_ns).filter(|until| *until != 0)
    }

    /// Until when a connection has it for itself, nanoseconds of `CLOCK_MONOTONIC`; 0: none yet.
    pub fn held_until_ns(&self) -> u64 {
        self.held_until_ns
    }

    /// The same forecast, holding until another time.
    #[must_use]
    pub fn until(self, until_ns: u64) -> AdvisedStart {
        AdvisedStart { until_ns, ..self }
    }

    /// The same forecast, which a connection has for itself until this time.
    #[must_use]
    pub fn held_until(self, held_until_ns: u64) -> AdvisedStart {
        AdvisedStart {
            held_until_ns,
            ..self
        }
    }

    /// As the structure lies in the kernel's memory.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let times = [self.rate, self.until_ns, self.held_until_ns];
        let times = times.iter().flat_map(|word| word.to_ne_bytes());
        let rtt = [self.rtt_us, self.padding];
        times
            .chain(rtt.iter().flat_map(|word| word.to_ne_bytes()))
            .collect()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<AdvisedStart> {
        let (words, _) = bytes.as_chunks::<8>();
        let [rate, until, held, rtt] = <[[u8; 8]; 4]>::try_from(words).ok()?;
        let [a, b, c, d, ..] = rtt;
        Some(AdvisedStart {
            rate: u64::from_ne_bytes(rate),
            until_ns: u64::from_ne_bytes(until),
            held_until_ns: u64::from_ne_bytes(held),
            rtt_us: u32::from_ne_bytes([a, b, c, d]),
            padding: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_from_its_bytes() {
        let start = AdvisedStart {
            held_until_ns: 5,
            ..AdvisedStart::new(125_000_000, 100_000, 7).unwrap()
        };
        assert_eq!(start.to_bytes().len(), size_of::<AdvisedStart>());
        assert_eq!(AdvisedStart::from_bytes(&start.to_bytes()), Some(start));
        assert_eq!(AdvisedStart::from_bytes(&[0; 31]), None);
    }

    #[test]
    fn a_forecast_that_no_path_can_have_is_refused() {
        assert!(AdvisedStart::new(125_000_000, 100_000, 1).is_ok());
        for rate in [0, 1_000_000_000_001] {
            let error = AdvisedStart::new(rate, 100_000, 1).unwrap_err();
            assert_eq!(error, AdvisedStartError::Rate(rate));
        }
        for rtt in [0, 1, 10_000_001] {
            let error = AdvisedStart::new(1000, rtt, 1).unwrap_err();
            assert_eq!(error, AdvisedStartError::Rtt(rtt));
        }
    }
}
