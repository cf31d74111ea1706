//! The packets that have left a pipe's transmitter and not yet arrived at its far end, by arrival
//! time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fairwind_path::units::Time;

use super::arena::PacketId;

/// Packets with the same time keep their order of insertion.
pub(super) enum Departures {
    /// For times that never decrease.
    InOrder(VecDeque<(Time, PacketId)>),
    /// For any times; the number keeps packets with the same time in order.
    AnyOrder(BinaryHeap<Reverse<(Time, u64, PacketId)>>, u64),
}

impl Departures {
    /// For a pipe that keeps its packets in order, or not.
    pub(super) fn new(keeps_order: bool) -> Departures {
        if keeps_order {
            Departures::InOrder(VecDeque::new())
        } else {
            Departures::AnyOrder(BinaryHeap::new(), 0)
        }
    }

    #[inline]
    pub(super) fn push(&mut self, time: Time, packet: PacketId) {
        match self {
            Departures::InOrder(ring) => ring.push_back((time, packet)),
            Departures::AnyOrder(heap, number) => {
                *number += 1;
                heap.push(Reverse((time, *number, packet)));
            }
        }
    }

    /// Arrival time of the next packet.
    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        match self {
            Departures::InOrder(ring) => ring.front().map(|&(time, _)| time),
            Departures::AnyOrder(heap, _) => heap.peek().map(|&Reverse((time, ..))| time),
        }
    }

    /// The next packet and its arrival time.
    #[inline]
    pub(super) fn peek(&self) -> Option<(Time, PacketId)> {
        match self {
            Departures::InOrder(ring) => ring.front().copied(),
            Departures::AnyOrder(heap, _) => heap
                .peek()
                .map(|&Reverse((time, _, packet))| (time, packet)),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Time, PacketId)> {
        match self {
            Departures::InOrder(ring) => ring.pop_front(),
            Departures::AnyOrder(heap, _) => {
                heap.pop().map(|Reverse((time, _, packet))| (time, packet))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::arena::Arena;

    #[test]
    fn packets_that_may_overtake_come_out_by_time_and_else_as_they_came() {
        let mut arena = Arena::new(1, 1 << 20);
        let [a, b, c] = [(); 3].map(|()| arena.take().unwrap());
        let mut departures = Departures::new(false);
        departures.push(Time::from_micros(9), a);
        departures.push(Time::from_micros(5), c);
        departures.push(Time::from_micros(5), b);
        assert_eq!(departures.next(), Some(Time::from_micros(5)));
        let order: Vec<PacketId> =
            std::iter::from_fn(|| departures.pop().map(|(_, id)| id)).collect();
        assert_eq!(order, [c, b, a]);
    }
}
