//! The segments sent and not yet acknowledged, in the order of their sequence numbers.
//!
//! A ring: acknowledgements remove from its front, transmissions add at its back. A segment keeps
//! its number for as long as it is in the queue, so that hints stay valid.

/// Acknowledged selectively (`TCPCB_SACKED_ACKED`).
pub const SACKED: u8 = 1;
/// Considered lost (`TCPCB_LOST`).
pub const LOST: u8 = 2;
/// Retransmitted, and that copy is not yet acknowledged or lost (`TCPCB_SACKED_RETRANS`).
pub const RETRANSMITTED: u8 = 4;
/// Retransmitted at least once (`TCPCB_EVER_RETRANS`).
pub const EVER_RETRANSMITTED: u8 = 8;
/// Sent while the application limited the sender.
pub const APP_LIMITED: u8 = 16;
/// RACK has considered it lost since it was last sent, and ignores it until it is sent again, even
/// if the loss mark is removed.
pub const RACK_LOST: u8 = 32;

/// A segment in flight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// First byte.
    pub seq: u64,
    /// When it was last sent, microseconds.
    pub tx_us: u64,
    /// `first_tx_mstamp` when it was last sent.
    pub first_tx_us: u64,
    /// `delivered_mstamp` when it was last sent; 0 once it has been used for a rate sample.
    pub delivered_us: u64,
    /// `delivered` when it was last sent.
    pub delivered: u32,
    /// Payload, bytes.
    pub len: u32,
    /// [`SACKED`] and the other flags.
    pub flags: u8,
}

impl Segment {
    /// One past the last byte.
    #[inline]
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }

    /// Whether any of these flags is set.
    #[inline]
    pub fn is(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// Whether one segment was sent after another: later, or at the same time and further on.
#[inline]
pub fn sent_after(tx_us: u64, end: u64, than_tx_us: u64, than_end: u64) -> bool {
    tx_us > than_tx_us || (tx_us == than_tx_us && end > than_end)
}

/// The queue. It holds the segment numbers `first()..end()`.
#[derive(Debug)]
pub struct RetransmitQueue {
    ring: Vec<Segment>,
    first: u64,
    end: u64,
}

impl RetransmitQueue {
    /// An empty queue.
    pub fn new() -> Self {
        RetransmitQueue {
            ring: vec![Segment::default(); 64],
            first: 0,
            end: 0,
        }
    }

    /// Number of the oldest segment.
    #[inline]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// One past the number of the newest segment.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Whether nothing is in flight.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// The oldest segment, if any.
    #[inline]
    pub fn head(&self) -> Option<&Segment> {
        (!self.is_empty()).then(|| self.get(self.first))
    }

    /// The segment with this number, which must be in the queue.
    #[inline]
    pub fn get(&self, number: u64) -> &Segment {
        debug_assert!((self.first..self.end).contains(&number));
        &self.ring[number as usize & (self.ring.len() - 1)]
    }

    /// Mutable access to the segment with this number, which must be in the queue.
    #[inline]
    pub fn get_mut(&mut self, number: u64) -> &mut Segment {
        debug_assert!((self.first..self.end).contains(&number));
        let mask = self.ring.len() - 1;
        &mut self.ring[number as usize & mask]
    }

    /// Adds a segment behind the newest.
    #[inline]
    pub fn push(&mut self, segment: Segment) {
        if (self.end - self.first) as usize == self.ring.len() {
            self.grow();
        }
        self.end += 1;
        *self.get_mut(self.end - 1) = segment;
    }

    /// Removes the oldest segment.
    #[inline]
    pub fn pop(&mut self) {
        debug_assert!(!self.is_empty());
        self.first += 1;
    }

    /// Number of the first segment that ends after `seq`; `end()` if there is none.
    pub fn find(&self, seq: u64) -> u64 {
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

impl Default for RetransmitQueue {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(seq: u64) -> Segment {
        Segment {
            seq,
            len: 100,
            ..Segment::default()
        }
    }

    #[test]
    fn numbers_and_contents_survive_growth() {
        let mut queue = RetransmitQueue::new();
        for number in 0..40 {
            queue.push(segment(100 * number));
        }
        for _ in 0..30 {
            queue.pop();
        }
        for number in 40..200 {
            queue.push(segment(100 * number));
        }
        assert_eq!((queue.first(), queue.end()), (30, 200));
        assert!((30..200).all(|number| queue.get(number).seq == 100 * number));
    }

    #[test]
    fn find_gives_the_segment_that_holds_a_byte() {
        let mut queue = RetransmitQueue::new();
        for number in 0..5 {
            queue.push(segment(100 * number));
        }
        assert_eq!(queue.find(0), 0);
        assert_eq!(queue.find(199), 1);
        assert_eq!(queue.find(200), 2);
        assert_eq!(queue.find(500), 5);
    }
}
