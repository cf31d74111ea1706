//! What right-sizing did in one transfer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::estimator::Estimate;
use crate::Direction;

/// A new size of the local buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resize {
    /// Time since the data connection opened.
    pub time: Duration,
    /// The size requested from the kernel, bytes.
    pub bytes: u64,
    /// What it follows from.
    pub cause: Cause,
}

/// What a new size follows from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cause {
    /// The receiver's estimate.
    Estimate(Estimate),
    /// At a sender: what the receiver asks for.
    Asked,
    /// At a sender alone: bytes in flight, which are all that the buffer holds.
    AllInFlight(u64),
    /// At a sender alone: a rate, bit/s, at which it would be woken too often.
    Rate(f64),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Estimate(estimate) => estimate.fmt(f),
            Self::Asked => f.write_str("asked for by the receiver"),
            Self::AllInFlight(bytes) => {
                write!(f, "{bytes} bytes were in flight, all that the buffer held")
            }
            Self::Rate(bps) => write!(
                f,
                "{:.0} Mbit/s would empty a smaller one too often",
                bps / 1e6
            ),
        }
    }
}

impl fmt::Display for Resize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, bytes) = (self.time.as_secs_f64(), self.bytes);
        write!(f, "{seconds:.3} s: {bytes} bytes, {}", self.cause)
    }
}

/// Statistics of one transfer.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// When the data connection opened.
    pub begin: Timestamp,
    /// Whether this host sends or receives.
    pub direction: Option<Direction>,
    /// When the channel was established, since the data connection opened.
    pub paired: Option<Duration>,
    /// New sizes in chronological order: the first thousand, and the last one.
    pub resizes: Vec<Resize>,
    /// The receiver's last estimate, and when it was made.
    pub estimate: Option<(Duration, Estimate)>,
    /// Messages that the receiver sent, or that the sender echoed.
    pub messages: u64,
    /// Echoes that came back to the receiver.
    pub echoes: u64,
    /// Lines that were not messages, and echoes of no message.
    pub faults: u64,
    /// The shortest round trip of a message.
    pub shortest_round_trip: Option<Duration>,
    /// Integral of the buffer's size over time, byte seconds, up to the last update; the time of that
    /// update; the size since.
    area: (f64, Duration, u64),
    /// What the user should know.
    pub notes: Vec<String>,
}

/// A record that the right-sizing thread writes while others may read it.
pub type SharedRecord = Arc<Mutex<Record>>;

/// Most sizes kept.
const RESIZES: usize = 1_000;

impl Record {
    /// Records a new size.
    pub fn resized(&mut self, resize: Resize) {
        self.pass_time(resize.time);
        self.area.2 = resize.bytes;
        if self.resizes.len() > RESIZES {
            self.resizes.pop();
        }
        self.resizes.push(resize);
    }

    /// Integrates the current size up to `now`.
    pub fn pass_time(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.area.1).as_secs_f64();
        self.area.0 += passed * self.area.2 as f64;
        self.area.1 = now;
    }

    /// The buffer's size averaged over the time since it was first set, bytes.
    pub fn mean_buffer(&self) -> Option<f64> {
        let begin = self.resizes.first()?.time;
        let length = self.area.1.saturating_sub(begin).as_secs_f64();
        Some(if length > 0.0 {
            self.area.0 / length
        } else {
            self.area.2 as f64
        })
    }

    /// Records an estimate of the path, at most one per round trip.
    pub fn estimated(&mut self, now: Duration, estimate: Estimate) {
        let due = self
            .estimate
            .is_none_or(|(at, _)| now >= at + estimate.round_trip);
        if due {
            self.estimate = Some((now, estimate));
        }
    }

    /// Records the round-trip time of a message.
    pub fn echoed(&mut self, took: Duration) {
        self.echoes += 1;
        self.shortest_round_trip = Some(self.shortest_round_trip.map_or(took, |old| old.min(took)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resize(seconds: u64, bytes: u64) -> Resize {
        Resize {
            time: Duration::from_secs(seconds),
            bytes,
            cause: Cause::Asked,
        }
    }

    #[test]
    fn the_mean_buffer_is_weighted_by_time() {
        let mut record = Record::default();
        assert_eq!(record.mean_buffer(), None);
        record.resized(resize(1, 1_000));
        assert_eq!(record.mean_buffer(), Some(1_000.0));
        record.resized(resize(2, 4_000));
        record.pass_time(Duration::from_secs(4));
        // One second of 1,000 and two of 4,000.
        assert_eq!(record.mean_buffer(), Some(3_000.0));
    }
}
