//! A token-bucket policer in front of the queue: what exceeds a rate and a burst is dropped at once.
//!
//! Source: the token bucket of RFC 3290, appendix A: it fills at the rate, up to the burst. A packet that finds
//! fewer tokens than its bytes is dropped and takes none.
//!
//! | original | here |
//! |---|---|
//! | Linux counts tokens in nanoseconds at the rate, rounded | exact, in 10^-9 bit |
//! | Linux counts the bytes that the device sees | those of the link's accounting, as its bandwidth does |

use crate::units::{Bandwidth, Bytes, Time};

/// One byte in units of 10^-9 bit, of which 1 bit/s yields one a nanosecond.
const TOKENS_PER_BYTE: u128 = 8_000_000_000;

/// The parameters of a policer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Policer", deny_unknown_fields)
)]
pub struct PolicerConfig {
    /// Rate that passes in the long run, above 0; of the bytes that `accounting` counts.
    pub rate: Bandwidth,
    /// Bytes that pass at once after a pause; at least a packet of every flow.
    pub burst: Bytes,
}

/// A bucket and its tokens.
#[derive(Clone, Debug)]
pub(crate) struct Policer {
    bps: u128,
    /// What the bucket holds at most, and what it holds, in 10^-9 bit.
    burst: u128,
    tokens: u128,
    /// When the tokens were counted.
    since: Time,
}

impl Policer {
    /// A full bucket.
    pub(crate) fn new(config: &PolicerConfig) -> Policer {
        let burst = u128::from(config.burst.get()) * TOKENS_PER_BYTE;
        Policer {
            bps: config.rate.as_bps().into(),
            burst,
            tokens: burst,
            since: Time::ZERO,
        }
    }

    /// Whether a packet may pass, which then takes its tokens.
    pub(crate) fn passes(&mut self, now: Time, wire_bytes: u64) -> bool {
        let new = self.bps * u128::from((now - self.since).as_nanos());
        self.tokens = self.burst.min(self.tokens + new);
        self.since = now;
        let needed = u128::from(wire_bytes) * TOKENS_PER_BYTE;
        let enough = self.tokens >= needed;
        if enough {
            self.tokens -= needed;
        }
        enough
    }
}
