//! Drop-tail: how much may wait, in packets or bytes.
//!
//! | original | here |
//! |---|---|
//! | Linux and ns count what waits behind the packet being sent | Dummynet's way: the packet being sent still counts |
//! | a Dummynet queue has at least one slot and 50 by default | unlimited by default |

use std::collections::VecDeque;

use crate::statistics::Record;
use crate::units::Time;

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
