//! The segments sent and not yet acknowledged, in the order of their sequence numbers, with a mark
//! for what has become of each.
//!
//! A ring: acknowledgements remove from its front, transmissions add at its back. A segment keeps
//! its number for as long as it is in the queue, so that hints stay valid. The numbers of segments
//! with each mark (`sacked_out` and so on) are in the [`TcpSock`] for the congestion control to
//! read; this module alone changes them.

use std::collections::VecDeque;

use fairwind_cc::native::TcpSock;

use super::rate::{RateStamp, Sample};

mod marks;
mod retransmissions;

use retransmissions::Retransmission;

/// Acknowledged selectively (`TCPCB_SACKED_ACKED`).
const SACKED: u8 = 1;
/// Considered lost (`TCPCB_LOST`).
const LOST: u8 = 2;
/// Retransmitted, and that copy is not yet acknowledged or lost (`TCPCB_SACKED_RETRANS`).
const RETRANSMITTED: u8 = 4;
/// Retransmitted at least once (`TCPCB_EVER_RETRANS`).
const EVER_RETRANSMITTED: u8 = 8;
/// RACK has considered it lost since it was last sent, and ignores it until it is sent again, even
/// if the loss mark is removed.
const RACK_LOST: u8 = 16;

/// A segment in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    seq: u64,
    tx_us: u64,
    stamp: RateStamp,
    len: u32,
    /// [`SACKED`] and the other marks.
    marks: u8,
}

impl Segment {
    /// First byte.
    #[inline]
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// One past the last byte.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }

    /// When it was last sent, microseconds.
    #[inline]
    pub(super) fn tx_us(&self) -> u64 {
        self.tx_us
    }

    /// Orders segments by their latest transmission: by its time, and those of the same microsecond
    /// by their place in the data (`tcp_skb_sent_after`).
    #[inline]
    pub(super) fn sent(&self) -> (u64, u64) {
        (self.tx_us, self.end())
    }

    /// Whether it has been acknowledged selectively.
    #[inline]
    pub(super) fn is_sacked(&self) -> bool {
        self.has(SACKED)
    }

    /// Whether it has been retransmitted at least once.
    #[inline]
    pub(super) fn was_retransmitted(&self) -> bool {
        self.has(EVER_RETRANSMITTED)
    }

    /// Whether it has been sent once and RACK has not made up its mind about it.
    #[inline]
    pub(super) fn is_original_in_doubt(&self) -> bool {
        !self.has(SACKED | LOST | EVER_RETRANSMITTED | RACK_LOST)
    }

    /// Adds its delivery to a rate sample (`tcp_rate_skb_delivered`).
    #[inline]
    pub(super) fn add_to(&self, tp: &mut TcpSock, sample: &mut Sample) {
        sample.on_delivered(tp, &self.stamp, self.sent(), self.was_retransmitted());
    }

    /// Whether it has any of these marks.
    #[inline]
    fn has(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }
}

/// Segments neither delivered nor lost, and retransmissions (`tcp_packets_in_flight`).
#[inline]
pub(super) fn in_flight(tp: &TcpSock) -> u32 {
    (tp.packets_out + tp.retrans_out).saturating_sub(tp.sacked_out + tp.lost_out)
}

/// The queue. It holds the segment numbers `first()..end()`.
#[derive(Debug)]
pub(super) struct RetransmitQueue {
    ring: Vec<Segment>,
    first: u64,
    end: u64,
    /// No segment below this number is waiting for retransmission (`retransmit_skb_hint`).
    retransmit_hint: u64,
    /// Every first transmission below this number is delivered, lost or retransmitted
    /// (`lost_skb_hint`).
    loss_hint: u64,
    /// Number of the highest segment acknowledged selectively (`highest_sack`).
    highest_sacked: Option<u64>,
    /// In the order of sending.
    retransmissions: VecDeque<Retransmission>,
}

impl RetransmitQueue {
    /// An empty queue.
    pub(super) fn new() -> Self {
        RetransmitQueue {
            ring: vec![Segment::default(); 64],
            first: 0,
            end: 0,
            retransmit_hint: 0,
            loss_hint: 0,
            highest_sacked: None,
            retransmissions: VecDeque::new(),
        }
    }

    /// Number of the oldest segment.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// One past the number of the newest segment.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Whether nothing is in flight.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// The oldest segment, if any.
    #[inline]
    pub(super) fn head(&self) -> Option<&Segment> {
        (!self.is_empty()).then(|| self.get(self.first))
    }

    /// The segment with this number, which must be in the queue.
    #[inline]
    pub(super) fn get(&self, number: u64) -> &Segment {
        debug_assert!((self.first..self.end).contains(&number));
        &self.ring[number as usize & (self.ring.len() - 1)]
    }

    /// Mutable access to the segment with this number, which must be in the queue.
    #[inline]
    fn get_mut(&mut self, number: u64) -> &mut Segment {
        debug_assert!((self.first..self.end).contains(&number));
        let mask = self.ring.len() - 1;
        &mut self.ring[number as usize & mask]
    }

    /// Adds a segment of `len` bytes that is sent for the first time, at `tx_us` microseconds.
    #[inline]
    pub(super) fn push(&mut self, tp: &mut TcpSock, seq: u64, len: u32, tx_us: u64) {
        if (self.end - self.first) as usize == self.ring.len() {
            self.grow();
        }
        if self.retransmit_hint == self.end {
            self.retransmit_hint += 1;
        }
        self.end += 1;
        *self.get_mut(self.end - 1) = Segment {
            seq,
            tx_us,
            stamp: RateStamp::new(tp, tx_us),
            len,
            marks: 0,
        };
        tp.packets_out += 1;
    }

    /// Removes the oldest segment if it ends by `una`. Returns it with the marks that it had.
    #[inline]
    pub(super) fn pop_acknowledged(&mut self, tp: &mut TcpSock, una: u64) -> Option<Segment> {
        let segment = *self.head()?;
        if segment.end() > una {
            return None;
        }
        if segment.has(SACKED) {
            tp.sacked_out -= 1;
        } else {
            tp.delivered = tp.delivered.wrapping_add(1);
        }
        if segment.has(RETRANSMITTED) {
            tp.retrans_out -= 1;
        }
        if segment.has(LOST) {
            tp.lost_out -= 1;
        }
        tp.packets_out -= 1;
        self.first += 1;
        self.retransmit_hint = self.retransmit_hint.max(self.first);
        Some(segment)
    }

    /// Number of the first segment that ends after `seq`; `end()` if there is none.
    pub(super) fn find(&self, seq: u64) -> u64 {
        let (mut low, mut high) = (self.first, self.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle).end() <= seq {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = vec![Segment::default(); 2 * self.ring.len()];
        let mask = larger.len() - 1;
        for number in self.first..self.end {
            larger[number as usize & mask] = *self.get(number);
        }
        self.ring = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of these segments of 100 bytes.
    fn queue(numbers: std::ops::Range<u64>) -> (RetransmitQueue, TcpSock) {
        let (mut queue, mut tp) = (RetransmitQueue::new(), TcpSock::default());
        push(&mut queue, &mut tp, numbers);
        (queue, tp)
    }

    fn push(queue: &mut RetransmitQueue, tp: &mut TcpSock, numbers: std::ops::Range<u64>) {
        for number in numbers {
            queue.push(tp, 100 * number, 100, 0);
        }
    }

    #[test]
    fn numbers_and_contents_survive_growth() {
        let (mut queue, mut tp) = queue(0..40);
        while queue.pop_acknowledged(&mut tp, 3000).is_some() {}
        push(&mut queue, &mut tp, 40..200);
        assert_eq!((queue.first(), queue.end()), (30, 200));
        assert!((30..200).all(|number| queue.get(number).seq == 100 * number));
    }

    #[test]
    fn find_gives_the_segment_that_holds_a_byte() {
        let (queue, _) = queue(0..5);
        assert_eq!(queue.find(0), 0);
        assert_eq!(queue.find(199), 1);
        assert_eq!(queue.find(200), 2);
        assert_eq!(queue.find(500), 5);
    }
}
