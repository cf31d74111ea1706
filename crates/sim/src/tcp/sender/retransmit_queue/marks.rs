//! Marks on the segments: delivered, lost, retransmitted.

use fairwind_cc::native::TcpSock;

use super::retransmissions::Retransmission;
use super::{EVER_RETRANSMITTED, LOST, RACK_LOST, RETRANSMITTED, RetransmitQueue, SACKED};
use crate::tcp::sender::rate::{RateStamp, Sample};

impl RetransmitQueue {
    /// Marks a segment as acknowledged selectively and adds its delivery to a rate sample
    /// (`tcp_sacktag_one`).
    pub(crate) fn mark_sacked(&mut self, tp: &mut TcpSock, number: u64, sample: &mut Sample) {
        let segment = self.get_mut(number);
        // A retransmission of a segment not marked lost is considered still in flight.
        if segment.has(LOST) {
            tp.lost_out -= 1;
            if segment.has(RETRANSMITTED) {
                tp.retrans_out -= 1;
            }
            segment.marks &= !(LOST | RETRANSMITTED);
        }
        tp.sacked_out += 1;
        tp.delivered = tp.delivered.wrapping_add(1);
        segment.marks |= SACKED;
        segment.add_to(tp, sample);
        segment.stamp.use_up();
        self.highest_sacked = Some(self.highest_sacked.map_or(number, |h| h.max(number)));
    }

    /// Forgets which segment was the highest, once none is acknowledged selectively any more.
    pub(crate) fn forget_highest_sacked(&mut self) {
        self.highest_sacked = None;
    }

    /// Whether a segment beyond this one has been acknowledged selectively.
    pub(crate) fn is_below_highest_sacked(&self, number: u64) -> bool {
        self.highest_sacked.is_some_and(|highest| number < highest)
    }

    /// One past the highest byte acknowledged selectively; `una` if there is none.
    #[inline]
    pub(crate) fn highest_sacked_seq(&self, tp: &TcpSock, una: u64) -> u64 {
        match self.highest_sacked {
            Some(number) if number >= self.first && tp.sacked_out > 0 => self.get(number).end(),
            _ => una,
        }
    }

    /// Number of segments from the oldest to the highest one acknowledged selectively, if there has
    /// been one (Linux 2.4's `fackets_out`).
    pub(crate) fn fackets_out(&self) -> Option<u64> {
        let highest = self.highest_sacked?;
        Some((highest + 1).saturating_sub(self.first))
    }

    /// Marks a segment lost (`tcp_mark_skb_lost`).
    pub(crate) fn mark_lost(&mut self, tp: &mut TcpSock, number: u64) {
        let segment = self.get_mut(number);
        if segment.has(SACKED) {
            return;
        }
        if segment.has(LOST) {
            if !segment.has(RETRANSMITTED) {
                return;
            }
            segment.marks &= !RETRANSMITTED;
            tp.retrans_out -= 1;
        } else {
            segment.marks |= LOST;
            tp.lost_out += 1;
        }
        tp.lost = tp.lost.wrapping_add(1);
        self.retransmit_hint = self.retransmit_hint.min(number);
    }

    /// The same for RACK, which then ignores the segment until it is sent again.
    pub(crate) fn mark_lost_by_rack(&mut self, tp: &mut TcpSock, number: u64) {
        self.mark_lost(tp, number);
        self.get_mut(number).marks |= RACK_LOST;
    }

    /// Removes all loss marks, and searches for losses begin anew.
    pub(crate) fn unmark_lost(&mut self, tp: &mut TcpSock) {
        for number in self.first..self.end {
            self.get_mut(number).marks &= !LOST;
        }
        tp.lost_out = 0;
        self.retransmit_hint = self.end;
        self.loss_hint = self.first;
    }

    /// Lets searches, for losses and for what to retransmit, begin at the oldest segment.
    pub(crate) fn rewind(&mut self) {
        self.retransmit_hint = self.first;
        self.loss_hint = self.first;
    }

    /// Number of the first segment that may be a first transmission to be found lost.
    pub(crate) fn loss_hint(&mut self) -> u64 {
        self.loss_hint = self.loss_hint.max(self.first);
        self.loss_hint
    }

    /// Every first transmission below this number is delivered, lost or retransmitted.
    pub(crate) fn set_loss_hint(&mut self, number: u64) {
        self.loss_hint = number;
    }

    /// Whether it is neither delivered nor lost, and no retransmission of it is in flight.
    pub(crate) fn is_outstanding(&self, number: u64) -> bool {
        !self.get(number).has(LOST | SACKED | RETRANSMITTED)
    }

    /// Number of the first segment that may wait for retransmission.
    pub(crate) fn retransmit_hint(&self) -> u64 {
        self.retransmit_hint
    }

    /// No segment below this number waits for retransmission.
    pub(crate) fn set_retransmit_hint(&mut self, number: u64) {
        self.retransmit_hint = number;
    }

    /// Whether it is lost and has not been sent again.
    pub(crate) fn awaits_retransmission(&self, number: u64) -> bool {
        let segment = self.get(number);
        segment.has(LOST) && !segment.has(SACKED | RETRANSMITTED)
    }

    /// Whether something has been retransmitted that may still be lost (`tcp_any_retrans_done`).
    pub(crate) fn is_any_retransmitted(&self, tp: &TcpSock) -> bool {
        tp.retrans_out > 0 || self.head().is_some_and(|head| head.has(EVER_RETRANSMITTED))
    }

    /// Records that a segment is sent again, at `tx_us` microseconds. Returns its first byte and its
    /// length.
    pub(crate) fn resend(
        &mut self,
        tp: &mut TcpSock,
        number: u64,
        tx_us: u64,
        snd_nxt: u64,
    ) -> (u64, u32) {
        let segment = self.get_mut(number);
        segment.tx_us = tx_us;
        segment.marks |= EVER_RETRANSMITTED;
        segment.marks &= !RACK_LOST;
        segment.stamp = RateStamp::new(tp, tx_us);
        let sent = (segment.seq, segment.len);
        let retransmission = Retransmission::new(number, tx_us, snd_nxt);
        self.retransmissions.push_back(retransmission);
        sent
    }

    /// Counts a segment that was just sent again as retransmitted, which a probe is not. Returns
    /// when it was sent, microseconds.
    pub(crate) fn mark_retransmitted(&mut self, tp: &mut TcpSock, number: u64) -> u64 {
        let segment = self.get_mut(number);
        segment.marks |= RETRANSMITTED;
        tp.retrans_out += 1;
        segment.tx_us
    }

    /// The retransmission of the segment, if one is in flight, counts no longer.
    pub(crate) fn unmark_retransmitted(&mut self, tp: &mut TcpSock, number: u64) {
        let segment = self.get_mut(number);
        if segment.has(RETRANSMITTED) {
            segment.marks &= !RETRANSMITTED;
            tp.retrans_out -= 1;
        }
    }

    /// Checks that the counters agree with the marks, that the segments are those of the bytes
    /// `una..nxt`, and that the hint leaves nothing out.
    #[cfg(test)]
    pub(crate) fn check(&self, tp: &TcpSock, una: u64, nxt: u64) {
        let count = |marks| {
            let numbers = (self.first..self.end).filter(|&number| self.get(number).has(marks));
            numbers.count() as u32
        };
        assert_eq!(tp.sacked_out, count(SACKED), "sacked_out");
        assert_eq!(tp.lost_out, count(LOST), "lost_out");
        assert_eq!(tp.retrans_out, count(RETRANSMITTED), "retrans_out");
        assert_eq!(u64::from(tp.packets_out), self.end - self.first);
        let mut next = self.head().map_or(nxt, |head| head.seq);
        assert!(next <= una || self.is_empty());
        for number in self.first..self.end {
            let segment = self.get(number);
            assert_eq!(segment.seq, next, "the queue has no gaps");
            next = segment.end();
            assert!(
                !(segment.has(SACKED) && segment.has(LOST)),
                "delivered or lost"
            );
            let waits = segment.has(LOST) && !segment.has(RETRANSMITTED);
            assert!(
                !waits || number >= self.retransmit_hint,
                "will be sent again"
            );
        }
        assert_eq!(next, nxt);
    }
}
