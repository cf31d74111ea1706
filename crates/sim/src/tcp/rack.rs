//! Time-based loss detection: RACK (RFC 8985, `tcp_recovery.c`).
//!
//! | Linux 6.x | here |
//! |---|---|
//! | transmission times in microseconds, so that segments of the same microsecond count as sent in sequence order: above one packet per microsecond a retransmission may be considered lost | the same |
//! | a list of segments in order of their latest transmission | first transmissions are in queue order, retransmissions in a queue of their own |

use std::collections::VecDeque;

use super::retransmit_queue::{
    EVER_RETRANSMITTED, LOST, RACK_LOST, RETRANSMITTED, RetransmitQueue, SACKED, Segment,
    sent_after,
};
use super::sender::{Sender, Timer};
use fairwind_cc::native::ca_state;
use fairwind_path::units::Duration;

/// `TCP_TIMEOUT_MIN_US`: slack added to timeouts that may be shorter than a jiffy or two.
pub const TIMEOUT_MIN_US: u64 = 2_000;
/// `TCP_RACK_RECOVERY_THRESH`: number of recoveries for which a widened reordering window is kept.
pub const RECOVERY_THRESHOLD: u8 = 16;

/// RACK's state.
#[derive(Debug)]
pub struct Rack {
    /// When the most recently sent of the delivered segments was sent, microseconds.
    pub mstamp: u64,
    /// One past that segment's last byte.
    pub end: u64,
    /// Round-trip time of the latest delivery, microseconds.
    pub rtt_us: u32,
    /// Losses must be looked for again.
    pub advanced: bool,
    /// A duplicate has been reported since the reordering window was last adapted.
    pub duplicate_seen: bool,
    /// The reordering window in quarters of the minimum round-trip time.
    pub window_steps: u8,
    /// Recoveries left until the window shrinks again.
    pub window_persist: u8,
    /// `delivered` when the window was last adapted.
    pub last_delivered: u32,
    /// Every first transmission below this number is delivered, lost or retransmitted.
    pub scan: u64,
    /// Retransmissions in the order of sending.
    resent: VecDeque<Resent>,
}

/// One retransmission.
#[derive(Clone, Copy, Debug)]
struct Resent {
    number: u64,
    /// When it was sent, microseconds.
    tx_us: u64,
    /// `snd_nxt` at that time.
    snd_nxt: u64,
}

impl Rack {
    /// The state before the first delivery.
    pub fn new() -> Self {
        Rack {
            mstamp: 0,
            end: 0,
            rtt_us: 0,
            advanced: false,
            duplicate_seen: false,
            window_steps: 1,
            window_persist: 0,
            last_delivered: 0,
            scan: 0,
            resent: VecDeque::new(),
        }
    }

    /// Records that a segment was delivered at `now_us` (`tcp_rack_advance`).
    #[inline]
    pub fn advance(&mut self, segment: &Segment, now_us: u64, min_rtt_us: u32) {
        let rtt_us = now_us.saturating_sub(segment.tx_us) as u32;
        if rtt_us < min_rtt_us && segment.is(RETRANSMITTED | EVER_RETRANSMITTED) {
            // Faster than any round trip: the acknowledgement is for the original.
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        if sent_after(segment.tx_us, segment.end(), self.mstamp, self.end) {
            self.mstamp = segment.tx_us;
            self.end = segment.end();
        }
    }

    /// Records a retransmission.
    pub fn on_resent(&mut self, number: u64, tx_us: u64, snd_nxt: u64) {
        self.resent.push_back(Resent {
            number,
            tx_us,
            snd_nxt,
        });
    }

    /// Restarts the scan at the first segment, as loss marks were removed.
    pub fn rescan(&mut self, queue: &RetransmitQueue) {
        self.scan = queue.first();
    }

    /// Adapts the reordering window to duplicate reports (`tcp_rack_update_reo_wnd`).
    #[inline]
    pub fn update_window(&mut self, prior_delivered: u32, delivered: u32) {
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
}

impl Default for Rack {
    fn default() -> Self {
        Self::new()
    }
}

impl Sender {
    /// How long RACK waits for reordered segments, microseconds (`tcp_rack_reo_wnd`).
    fn reordering_window_us(&self) -> u64 {
        if !self.reordering_seen {
            if self.tp.icsk_ca_state >= ca_state::RECOVERY {
                return 0;
            }
            if self.tp.sacked_out >= self.reordering {
                return 0;
            }
        }
        let quarter = u64::from(self.min_rtt_us() >> 2);
        (quarter * u64::from(self.rack.window_steps)).min(u64::from(self.tp.srtt_us >> 3))
    }

    /// Marks segments that were sent long enough before something that has been delivered. Returns
    /// how long to wait for the others, microseconds; 0 if there is nothing to wait for
    /// (`tcp_rack_detect_loss`).
    fn rack_detect_loss(&mut self) -> u64 {
        let patience_us = u64::from(self.rack.rtt_us) + self.reordering_window_us();
        let mut wait_us = 0;
        self.rack.scan = self.rack.scan.max(self.queue.first());
        let mut number = self.rack.scan;
        let mut settled = true;
        while number < self.queue.end() {
            let segment = *self.queue.get(number);
            if !segment.is(SACKED | LOST | EVER_RETRANSMITTED | RACK_LOST) {
                if !self.sent_before_latest_delivery(&segment) {
                    break;
                }
                if !self.mark_or_wait(number, &segment, patience_us, &mut wait_us) {
                    settled = false;
                }
            }
            number += 1;
            if settled {
                self.rack.scan = number;
            }
        }
        self.rack_detect_lost_retransmissions(patience_us, &mut wait_us);
        wait_us
    }

    fn rack_detect_lost_retransmissions(&mut self, patience_us: u64, wait_us: &mut u64) {
        let mut at = 0;
        while at < self.rack.resent.len() {
            let resent = self.rack.resent[at];
            let number = resent.number;
            if self.is_settled(resent) {
                if at == 0 {
                    self.rack.resent.pop_front();
                } else {
                    at += 1;
                }
                continue;
            }
            let segment = *self.queue.get(number);
            if !self.sent_before_latest_delivery(&segment) {
                break;
            }
            self.mark_or_wait(number, &segment, patience_us, wait_us);
            at += 1;
        }
    }

    /// Whether the retransmission has been acknowledged, considered lost or repeated.
    fn is_settled(&self, resent: Resent) -> bool {
        if resent.number < self.queue.first() {
            return true;
        }
        let segment = self.queue.get(resent.number);
        segment.tx_us != resent.tx_us
            || segment.is(SACKED | RACK_LOST)
            || (segment.is(LOST) && !segment.is(RETRANSMITTED))
    }

    /// Linux 2.4: a retransmission is lost if data first sent after it has arrived.
    pub(super) fn mark_lost_retransmissions(&mut self) {
        let highest = self.highest_sacked_seq();
        while let Some(&resent) = self.rack.resent.front() {
            if !self.is_settled(resent) {
                let recovering = self.tp.icsk_ca_state == ca_state::RECOVERY;
                if !recovering || highest <= resent.snd_nxt {
                    break;
                }
                self.mark_lost(resent.number);
            }
            self.rack.resent.pop_front();
        }
    }

    fn sent_before_latest_delivery(&self, segment: &Segment) -> bool {
        sent_after(
            self.rack.mstamp,
            self.rack.end,
            segment.tx_us,
            segment.end(),
        )
    }

    fn mark_or_wait(
        &mut self,
        number: u64,
        segment: &Segment,
        patience_us: u64,
        wait_us: &mut u64,
    ) -> bool {
        let waited_us = self.tp.tcp_mstamp.saturating_sub(segment.tx_us);
        if waited_us >= patience_us {
            self.mark_lost(number);
            self.queue.get_mut(number).flags |= RACK_LOST;
            return true;
        }
        *wait_us = (*wait_us).max(patience_us - waited_us);
        false
    }

    /// Looks for losses after an acknowledgement. Returns true if the reordering timer has been set
    /// (`tcp_rack_mark_lost`).
    pub(super) fn rack_mark_lost(&mut self) -> bool {
        if !self.rack.advanced {
            return false;
        }
        self.rack.advanced = false;
        let wait_us = self.rack_detect_loss();
        if wait_us > 0 {
            let after = Duration::from_micros(wait_us + TIMEOUT_MIN_US);
            self.set_timer(Timer::Reordering, after);
        }
        wait_us > 0
    }

    /// Handles the reordering timer (`tcp_rack_reo_timeout`). Returns true if something was lost.
    pub(super) fn on_reordering_timeout(&mut self) -> bool {
        let before = self.in_flight();
        let lost = self.tp.lost;
        self.rack_detect_loss();
        if before == self.in_flight() {
            return false;
        }
        if self.tp.icsk_ca_state != ca_state::RECOVERY {
            self.enter_recovery();
            if !self.control.has_cong_control() {
                let newly_lost = self.tp.lost.wrapping_sub(lost);
                self.reduce_cwnd(1, newly_lost, false);
            }
        }
        true
    }
}
