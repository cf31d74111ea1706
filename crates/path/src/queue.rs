//! Drop-tail queues, limited in packets or bytes.
//!
//! | original | here |
//! |---|---|
//! | Linux, ns and Dummynet since 2010 count only the packets behind the one being sent | as in Dummynet before 2010, the packet being sent counts: a queue of n packets never holds more than n |
//! | Dummynet's limit in bytes may be exceeded by up to a packet | a packet that does not fit whole is dropped |
//! | a Dummynet queue has 50 slots by default, 100 at most | unlimited by default |

use crate::ecn::Ecn;
use crate::statistics::Lengths;
use crate::units::{Duration, Time};

/// Limit of a queue, including the packet being sent. With several scheduler classes, the limit
/// applies to each class's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capacity {
    /// No limit.
    #[default]
    Unlimited,
    /// Maximum number of packets; at least 1.
    Packets(u32),
    /// Maximum number of IP bytes. A packet that does not fit whole is dropped.
    Bytes(u64),
}

impl Capacity {
    /// Whether a packet of `size` IP bytes fits beside those already held.
    #[inline]
    pub(crate) fn admits(self, packets: usize, bytes: impl FnOnce() -> u64, size: u32) -> bool {
        match self {
            Capacity::Packets(limit) => packets < limit as usize,
            Capacity::Unlimited => true,
            Capacity::Bytes(limit) => bytes() + u64::from(size) <= limit,
        }
    }

    /// Whether so many packets and bytes fit.
    pub(crate) fn holds(self, packets: usize, bytes: u64) -> bool {
        match self {
            Capacity::Packets(limit) => packets <= limit as usize,
            Capacity::Unlimited => true,
            Capacity::Bytes(limit) => bytes <= limit,
        }
    }
}

/// The packets waiting or being sent at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Number of packets.
    pub packets: u64,
    /// Their IP bytes.
    pub bytes: u64,
}

/// A packet in a queue. `size` is in IP bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) packet: T,
    pub(crate) size: u32,
    pub(crate) wire_bytes: u64,
    pub(crate) arrived: Time,
    /// The codepoint with which it arrived.
    pub(crate) ecn: Ecn,
    /// Whether it leaves with CE.
    pub(crate) marked: bool,
}

/// A FIFO queue whose departures are known at arrival: it stores the departure time of each packet
/// rather than the packet.
#[derive(Clone, Debug)]
pub(crate) struct Backlog {
    /// A ring buffer; its length is a power of two.
    ring: Vec<QueuedDeparture>,
    /// Packets departed and arrived since the start; modulo the length of the ring, they are the places
    /// of the oldest packet and of the next one.
    out: usize,
    come: usize,
    /// IP bytes of the packets arrived since the start.
    bytes_come: u64,
    /// Departure time of the newest packet.
    latest: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct QueuedDeparture {
    time: Time,
    /// IP bytes that arrived up to and including this packet.
    bytes_come: u64,
}

impl Backlog {
    pub(crate) fn new() -> Backlog {
        Backlog {
            ring: vec![QueuedDeparture::default(); 16],
            out: 0,
            come: 0,
            bytes_come: 0,
            latest: Time::ZERO,
        }
    }

    /// Removes the packets that have departed by `now`.
    #[inline]
    pub(crate) fn advance(&mut self, now: Time, lengths: &mut Lengths) {
        while self.out != self.come {
            let departure = self.at(self.out).time;
            if departure > now {
                break;
            }
            lengths.held(self.packets(), departure);
            self.out += 1;
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, now: Time, departure: Time, size: u32, lengths: &mut Lengths) {
        lengths.held(self.packets(), now);
        // The latest packet to depart keeps its place: see `bytes_out`.
        if self.packets() + 1 == self.ring.len() {
            self.grow();
        }
        self.bytes_come += u64::from(size);
        let place = self.come & (self.ring.len() - 1);
        self.ring[place] = QueuedDeparture {
            time: departure,
            bytes_come: self.bytes_come,
        };
        self.come += 1;
        self.latest = departure;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let mut ring = vec![QueuedDeparture::default(); self.ring.len() * 2];
        for number in self.out.saturating_sub(1)..self.come {
            let place = number & (ring.len() - 1);
            ring[place] = self.at(number);
        }
        self.ring = ring;
    }

    #[inline]
    fn at(&self, number: usize) -> QueuedDeparture {
        self.ring[number & (self.ring.len() - 1)]
    }

    /// How long the queue has been empty at `now`; `None` if it is not.
    pub(crate) fn idle(&self, now: Time) -> Option<Duration> {
        (self.packets() == 0).then(|| now - self.latest)
    }

    /// When the newest packet has departed.
    #[inline]
    pub(crate) fn free_at(&self) -> Time {
        self.latest
    }

    /// Packets waiting or being sent.
    #[inline]
    pub(crate) fn packets(&self) -> usize {
        self.come - self.out
    }

    /// Their IP bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_come - self.bytes_out()
    }

    /// Packets departed since the start.
    pub(crate) fn packets_out(&self) -> u64 {
        self.out as u64
    }

    /// Their IP bytes.
    pub(crate) fn bytes_out(&self) -> u64 {
        match self.out {
            0 => 0,
            out => self.at(out - 1).bytes_come,
        }
    }

    /// Sizes in IP bytes of the packets waiting or being sent.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u32> {
        let mut before = self.bytes_out();
        (self.out..self.come).map(move |number| {
            let come = self.at(number).bytes_come;
            let size = (come - before) as u32;
            before = come;
            size
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_keeps_its_packets_in_order_while_it_grows() {
        let (mut backlog, mut lengths) = (Backlog::new(), Lengths::new());
        let mut come = 0;
        for now in 0..1_000 {
            // Two arrive for each that departs.
            for _ in 0..2 {
                let departure = Time::from_nanos(come);
                backlog.push(Time::from_nanos(now), departure, come as u32, &mut lengths);
                come += 1;
            }
            backlog.advance(Time::from_nanos(now), &mut lengths);
            assert_eq!(backlog.packets_out(), now + 1);
            assert_eq!(backlog.packets() as u64, now + 1);
            assert_eq!(backlog.bytes_out(), (0..=now).sum::<u64>());
            assert!(backlog.sizes().eq(now as u32 + 1..come as u32));
        }
        assert_eq!(backlog.bytes(), (1_000..2_000).sum::<u64>());
    }
}
