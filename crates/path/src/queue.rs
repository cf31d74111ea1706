//! Drop-tail: how much may wait, in packets or bytes.
//!
//! | original | here |
//! |---|---|
//! | Linux, ns and Dummynet since 2010 count what waits behind the packet being sent | as in Dummynet before 2010, the packet being sent counts: a queue of n packets never holds more than n |
//! | Dummynet's limit in bytes is exceeded by up to a packet | a packet that does not fit whole is dropped |
//! | a Dummynet queue has 50 slots by default, 100 at most | unlimited by default |

use std::collections::VecDeque;

use crate::statistics::Record;
use crate::units::{Duration, Time};

/// How much a queue holds, the packet being sent included. With several scheduler classes, each
/// class has a queue of this size of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capacity {
    /// Everything.
    #[default]
    Unlimited,
    /// So many packets; at least 1.
    Packets(u32),
    /// So many IP bytes. A packet that does not fit whole is dropped.
    Bytes(u64),
}

impl Capacity {
    /// True if a packet of `size` IP bytes fits beside what is there.
    #[inline]
    pub(crate) fn admits(self, packets: usize, bytes: u64, size: u32) -> bool {
        match self {
            Capacity::Packets(limit) => packets < limit as usize,
            Capacity::Unlimited => true,
            Capacity::Bytes(limit) => bytes + u64::from(size) <= limit,
        }
    }
}

/// What waits or is being sent at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Packets.
    pub packets: u64,
    /// Their IP bytes.
    pub bytes: u64,
}

/// A first-in-first-out queue whose departures are known at arrival: it remembers when each packet
/// leaves rather than the packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backlog {
    leaving: VecDeque<(Time, u32)>,
    bytes: u64,
    /// When the newest packet leaves or has left.
    latest: Time,
}

impl Backlog {
    /// Lets leave what has left by `now`.
    #[inline]
    pub(crate) fn advance(&mut self, now: Time, record: &mut Record) {
        while let Some(&(departure, size)) = self.leaving.front() {
            if departure > now {
                break;
            }
            record.left(self.leaving.len(), departure, size);
            self.bytes -= u64::from(size);
            self.leaving.pop_front();
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, now: Time, departure: Time, size: u32, record: &mut Record) {
        record.held(self.leaving.len(), now);
        self.bytes += u64::from(size);
        self.leaving.push_back((departure, size));
        self.latest = departure;
    }

    /// How long the queue has been empty at `now`, if it is.
    pub(crate) fn idle(&self, now: Time) -> Option<Duration> {
        self.leaving.is_empty().then(|| now - self.latest)
    }

    #[inline]
    pub(crate) fn packets(&self) -> usize {
        self.leaving.len()
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
