//! Time-based loss detection: RACK (RFC 8985, `tcp_recovery.c`).
//!
//! | Linux 6.x | here |
//! |---|---|
//! | transmission times in microseconds, so that segments of the same microsecond count as sent in sequence order: above one packet per microsecond a retransmission may be considered lost | the same |
//! | a list of segments in order of their latest transmission | first transmissions are in queue order, retransmissions in a queue of their own |

use fairwind_cc::native::{TcpSock, ca_state};
use fairwind_path::units::Duration;

use super::Reordering;
use crate::scenario::Stack;
use crate::tcp::sender::retransmit_queue::{RetransmitQueue, Segment};
use crate::tcp::sender::retransmit_timer::TIMEOUT_MIN_US;

/// `TCP_RACK_RECOVERY_THRESH`: number of recoveries for which a widened reordering window is kept.
const RECOVERY_THRESHOLD: u8 = 16;

/// RACK's state.
#[derive(Debug)]
pub(crate) struct Rack {
    /// The most recently sent of the delivered segments: when it was sent, microseconds, and its
    /// end (`rack.mstamp`, `rack.end_seq`).
    latest: (u64, u64),
    /// Round-trip time of the latest delivery, microseconds.
    rtt_us: u64,
    /// Losses must be looked for again.
    advanced: bool,
    /// A duplicate has been reported since the reordering window was last adapted.
    duplicate_seen: bool,
    /// The reordering window in quarters of the minimum round-trip time.
    window_steps: u8,
    /// Recoveries left until the window shrinks again.
    window_persist: u8,
    /// `delivered` when the window was last adapted.
    last_delivered: u32,
}

impl Rack {
    /// The state before the first delivery.
    pub(crate) fn new() -> Self {
        Rack {
            latest: (0, 0),
            rtt_us: 0,
            advanced: false,
            duplicate_seen: false,
            window_steps: 1,
            window_persist: 0,
            last_delivered: 0,
        }
    }

    /// Records that a segment was delivered (`tcp_rack_advance`).
    #[inline]
    pub(in crate::tcp::sender) fn advance(&mut self, tp: &TcpSock, segment: &Segment) {
        let rtt_us = tp.tcp_mstamp.saturating_sub(segment.tx_us());
        if rtt_us < u64::from(tp.rtt_min_us) && segment.was_retransmitted() {
            // Faster than any round trip: the acknowledgement is for the original.
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        if segment.sent() > self.latest {
            self.latest = segment.sent();
        }
    }

    /// A duplicate that is not a probe has been reported, and reordering has been seen.
    pub(crate) fn note_duplicate(&mut self) {
        self.duplicate_seen = true;
    }

    /// Losses must be looked for again at the next acknowledgement.
    pub(crate) fn search_again(&mut self) {
        self.advanced = true;
    }

    /// Adapts the reordering window to duplicate reports (`tcp_rack_update_reo_wnd`).
    #[inline]
    pub(crate) fn adapt_window(&mut self, prior_delivered: u32, delivered: u32) {
        if prior_delivered == 0 {
            return;
        }
        if (prior_delivered.wrapping_sub(self.last_delivered) as i32) < 0 {
            self.duplicate_seen = false;
        }
        if self.duplicate_seen {
            self.window_steps = self.window_steps.saturating_add(1);
            self.duplicate_seen = false;
            self.last_delivered = delivered;
            self.window_persist = RECOVERY_THRESHOLD;
        } else if self.window_persist == 0 {
            self.window_steps = 1;
        }
    }

    /// Duplicate reports have shown a whole recovery to be unnecessary: keeps a widened window for one
    /// recovery more.
    pub(crate) fn persist(&mut self) {
        self.window_persist = (self.window_persist + 1).min(RECOVERY_THRESHOLD);
    }

    /// A recovery was necessary: keeps it for one fewer.
    pub(crate) fn on_necessary_recovery(&mut self) {
        self.window_persist = self.window_persist.saturating_sub(1);
    }

    /// How long RACK waits for reordered segments, microseconds (`tcp_rack_reo_wnd`).
    fn reordering_window_us(&self, tp: &TcpSock, reordering: &Reordering) -> u64 {
        if tp.reord_seen == 0 {
            if tp.icsk_ca_state >= ca_state::RECOVERY {
                return 0;
            }
            if tp.sacked_out >= reordering.degree() {
                return 0;
            }
        }
        let quarter = u64::from(tp.rtt_min_us >> 2);
        (quarter * u64::from(self.window_steps)).min(u64::from(tp.srtt_us >> 3))
    }

    /// Looks for losses after an acknowledgement, if it has delivered anything. Returns when the
    /// reordering timer must expire, if it must be set (`tcp_rack_mark_lost`).
    pub(in crate::tcp::sender) fn mark_lost(
        &mut self,
        tp: &mut TcpSock,
        queue: &mut RetransmitQueue,
        reordering: &Reordering,
    ) -> Option<Duration> {
        if !self.advanced {
            return None;
        }
        self.advanced = false;
        let wait_us = self.detect_loss(tp, queue, reordering);
        (wait_us > 0).then(|| Duration::from_micros(wait_us + TIMEOUT_MIN_US))
    }

    /// Marks segments that were sent long enough before something that has been delivered. Returns
    /// how long to wait for the others, microseconds; 0 if there is nothing to wait for
    /// (`tcp_rack_detect_loss`).
    pub(in crate::tcp::sender) fn detect_loss(
        &self,
        tp: &mut TcpSock,
        queue: &mut RetransmitQueue,
        reordering: &Reordering,
    ) -> u64 {
        let window_us = self.reordering_window_us(tp, reordering);
        let patience_us = self.rtt_us + window_us;
        let of_originals_us = self.detect_lost_originals(tp, queue, patience_us);
        let of_others_us = self.detect_lost_retransmissions(tp, queue, patience_us);
        of_originals_us.max(of_others_us)
    }

    /// Marks losses when the retransmission timer has expired: everything but, if losses are found
    /// by time, what was sent within the latest round trip (`tcp_timeout_mark_lost`).
    pub(in crate::tcp::sender) fn mark_lost_by_timeout(
        &self,
        tp: &mut TcpSock,
        queue: &mut RetransmitQueue,
        stack: Stack,
    ) {
        let spared_us = if stack.detects_losses_by_time() {
            self.rtt_us
        } else {
            0
        };
        for number in queue.first()..queue.end() {
            let waited_us = tp.tcp_mstamp.saturating_sub(queue.get(number).tx_us());
            if number == queue.first() || waited_us >= spared_us {
                queue.mark_lost(tp, number);
            }
        }
        queue.rewind();
    }

    fn detect_lost_originals(
        &self,
        tp: &mut TcpSock,
        queue: &mut RetransmitQueue,
        patience_us: u64,
    ) -> u64 {
        let mut longest_us = 0;
        let mut settled = true;
        for number in queue.loss_hint()..queue.end() {
            let segment = queue.get(number);
            if segment.is_original_in_doubt() {
                if segment.sent() >= self.latest {
                    break;
                }
                let wait_us = mark_or_wait(tp, queue, number, patience_us);
                settled &= wait_us == 0;
                longest_us = longest_us.max(wait_us);
            }
            if settled {
                queue.set_loss_hint(number + 1);
            }
        }
        longest_us
    }

    fn detect_lost_retransmissions(
        &self,
        tp: &mut TcpSock,
        queue: &mut RetransmitQueue,
        patience_us: u64,
    ) -> u64 {
        let mut longest_us = 0;
        let mut at = 0;
        while let Some(retransmission) = queue.unsettled_retransmission(&mut at) {
            let number = retransmission.number();
            if queue.get(number).sent() >= self.latest {
                break;
            }
            let wait_us = mark_or_wait(tp, queue, number, patience_us);
            longest_us = longest_us.max(wait_us);
            at += 1;
        }
        longest_us
    }
}

/// Marks a segment lost if it was sent `patience_us` ago. Otherwise returns how long to wait for it,
/// microseconds.
fn mark_or_wait(
    tp: &mut TcpSock,
    queue: &mut RetransmitQueue,
    number: u64,
    patience_us: u64,
) -> u64 {
    let waited_us = tp.tcp_mstamp.saturating_sub(queue.get(number).tx_us());
    if waited_us >= patience_us {
        queue.mark_lost_by_rack(tp, number);
        return 0;
    }
    patience_us - waited_us
}

/// For the packet scripts.
#[cfg(test)]
impl Rack {
    pub(crate) fn mstamp(&self) -> u64 {
        self.latest.0
    }

    pub(crate) fn window_steps(&self) -> u8 {
        self.window_steps
    }

    pub(crate) fn set_rtt_us(&mut self, rtt_us: u64) {
        self.rtt_us = rtt_us;
    }
}
