//! Retransmissions in the order of sending. With the queue, which has the first transmissions in
//! that order, they are the kernel's `tsorted_sent_queue`.

use super::{LOST, RACK_LOST, RETRANSMITTED, RetransmitQueue, SACKED};

/// One retransmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retransmission {
    number: u64,
    /// When it was sent, microseconds.
    tx_us: u64,
    /// `snd_nxt` at that time.
    snd_nxt: u64,
}

impl Retransmission {
    pub(super) fn new(number: u64, tx_us: u64, snd_nxt: u64) -> Self {
        Retransmission {
            number,
            tx_us,
            snd_nxt,
        }
    }

    /// Number of its segment.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// `snd_nxt` when it was sent.
    pub(crate) fn snd_nxt(&self) -> u64 {
        self.snd_nxt
    }
}

impl RetransmitQueue {
    /// The first retransmission, from index `at` on, that has not been acknowledged, considered lost
    /// or repeated; `at` becomes its index. Those before it are forgotten if they are the oldest.
    pub(crate) fn unsettled_retransmission(&mut self, at: &mut usize) -> Option<Retransmission> {
        while let Some(&retransmission) = self.retransmissions.get(*at) {
            if !self.is_settled(retransmission) {
                return Some(retransmission);
            }
            if *at == 0 {
                self.retransmissions.pop_front();
            } else {
                *at += 1;
            }
        }
        None
    }

    /// Forgets the oldest retransmission.
    pub(crate) fn forget_oldest_retransmission(&mut self) {
        self.retransmissions.pop_front();
    }

    fn is_settled(&self, retransmission: Retransmission) -> bool {
        if retransmission.number < self.first {
            return true;
        }
        let segment = self.get(retransmission.number);
        segment.tx_us != retransmission.tx_us
            || segment.has(SACKED | RACK_LOST)
            || (segment.has(LOST) && !segment.has(RETRANSMITTED))
    }
}
