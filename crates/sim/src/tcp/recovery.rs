//! Congestion states and the window during recovery: `tcp_fastretrans_alert`, F-RTO (RFC 5682),
//! proportional rate reduction (RFC 6937), undo (RFC 3522 and duplicate reports).
//!
//! | Linux | here |
//! |---|---|
//! | 6.x reduces the window by PRR | the same for `Stack::Linux` |
//! | 2.4 takes one packet off the window with every second ACK (rate halving) | the same for `Stack::Classic2005` |
//! | 2.4 limits the window to three packets more than are in flight while data is out of order, which keeps it small on paths that reorder much | the same for `Stack::Classic2005` |
//! | reneging on selective acknowledgements is handled | receivers here never renege |

use fairwind_cc::native::{TCP_INFINITE_SSTHRESH, ca_event, ca_state};

use super::ack::{Retransmit, flag};
use super::rack::RECOVERY_THRESHOLD;
use super::retransmit_queue::LOST;
#[cfg(test)]
use super::retransmit_queue::{RETRANSMITTED, SACKED};
use super::sender::{DUPLICATE_THRESHOLD, Sender};

/// Linux 2.4's `tcp_max_burst`: how many packets one acknowledgement may release.
const MAX_BURST: u32 = 3;

impl Sender {
    /// Handles every acknowledgement other than plain progress in the open state. Returns what to
    /// send afterwards (`tcp_fastretrans_alert`).
    pub(super) fn alert(&mut self, prior_una: u64, duplicate: bool, flags: &mut u32) -> Retransmit {
        if self.queue.is_empty() {
            self.tp.sacked_out = 0;
        }
        if self.tp.icsk_ca_state == ca_state::OPEN {
            self.retrans_stamp = None;
        } else if self.snd_una >= self.high_seq {
            match self.tp.icsk_ca_state {
                ca_state::CWR if self.snd_una != self.high_seq => {
                    self.end_cwnd_reduction();
                    self.set_state(ca_state::OPEN);
                }
                ca_state::RECOVERY => {
                    self.try_undo_recovery();
                    self.end_cwnd_reduction();
                }
                _ => {}
            }
        }
        match self.tp.icsk_ca_state {
            ca_state::RECOVERY => self.process_recovery(prior_una, flags),
            ca_state::LOSS => self.process_loss(duplicate, flags),
            _ => self.process_disorder(flags),
        }
    }

    fn process_recovery(&mut self, prior_una: u64, flags: &mut u32) -> Retransmit {
        if *flags & flag::SND_UNA_ADVANCED != 0 && self.try_undo_partial(prior_una) {
            return Retransmit::Nothing;
        }
        if self.try_undo_by_duplicates() {
            self.try_to_open();
        }
        self.identify_losses(flags);
        if self.tp.icsk_ca_state != ca_state::RECOVERY {
            if self.tp.lost_out == 0 {
                return Retransmit::Nothing;
            }
            self.enter_recovery();
        }
        Retransmit::Lost
    }

    fn process_loss(&mut self, duplicate: bool, flags: &mut u32) -> Retransmit {
        let next = self.step_loss_state(duplicate, *flags);
        if !self.linux && next == Retransmit::Lost {
            self.moderate_cwnd();
        }
        self.identify_losses(flags);
        let state = self.tp.icsk_ca_state;
        if state == ca_state::OPEN || *flags & flag::LOST_RETRANS != 0 {
            return self.process_disorder(flags);
        }
        next
    }

    /// F-RTO and the exit from the loss state (`tcp_process_loss`).
    fn step_loss_state(&mut self, duplicate: bool, flags: u32) -> Retransmit {
        let advanced = flags & flag::SND_UNA_ADVANCED != 0;
        let recovered = self.snd_una >= self.high_seq;
        if advanced && self.try_undo_loss(false) {
            return Retransmit::Nothing;
        }
        if self.frto {
            if flags & flag::ORIG_SACK_ACKED != 0 && self.try_undo_loss(true) {
                return Retransmit::Nothing;
            }
            if self.snd_nxt > self.high_seq {
                if flags & flag::DATA_SACKED != 0 || duplicate {
                    self.frto = false;
                }
            } else if advanced && !recovered {
                self.set_high_seq(self.snd_nxt);
                if self.has_unsent() && self.window_end > self.snd_nxt {
                    return Retransmit::New;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery();
            return Retransmit::Nothing;
        }
        Retransmit::Lost
    }

    fn process_disorder(&mut self, flags: &mut u32) -> Retransmit {
        if self.tp.icsk_ca_state <= ca_state::DISORDER {
            self.try_undo_by_duplicates();
        }
        self.identify_losses(flags);
        if self.tp.lost_out == 0 {
            self.try_to_open();
            return Retransmit::Nothing;
        }
        self.enter_recovery();
        Retransmit::Lost
    }

    fn identify_losses(&mut self, flags: &mut u32) {
        if self.queue.is_empty() {
            return;
        }
        if !self.linux {
            self.mark_lost_retransmissions();
            let reach = self
                .highest_sacked
                .map_or(0, |h| (h + 1).saturating_sub(self.queue.first()));
            let recovering = self.tp.icsk_ca_state >= ca_state::RECOVERY;
            if recovering || reach > u64::from(self.reordering) {
                if !recovering {
                    self.set_high_seq(self.snd_nxt);
                }
                self.mark_lost_by_count();
            }
            return;
        }
        let retransmitted = self.tp.retrans_out;
        if self.rack_mark_lost() {
            *flags &= !flag::SET_XMIT_TIMER;
        }
        if retransmitted > self.tp.retrans_out {
            *flags |= flag::LOST_RETRANS;
        }
    }

    /// Enters fast recovery (`tcp_enter_recovery`).
    pub(super) fn enter_recovery(&mut self) {
        if !self.any_retransmitted() {
            self.retrans_stamp = None;
        }
        self.prior_ssthresh = 0;
        self.init_undo();
        if !self.in_cwnd_reduction() {
            self.prior_ssthresh = self.current_ssthresh();
            self.init_cwnd_reduction();
        }
        self.statistics.congestion_signals += 1;
        self.set_state(ca_state::RECOVERY);
    }

    /// Enters the loss state after a retransmission timeout (`tcp_enter_loss`).
    pub(super) fn enter_loss(&mut self) {
        let state = self.tp.icsk_ca_state;
        self.mark_lost_by_timeout();
        if state <= ca_state::DISORDER
            || self.high_seq <= self.snd_una
            || (state == ca_state::LOSS && self.tp.icsk_retransmits == 0)
        {
            self.prior_ssthresh = self.current_ssthresh();
            self.tp.prior_cwnd = self.tp.snd_cwnd;
            self.tp.snd_ssthresh = self.control.ssthresh(&mut self.tp);
            self.control.cwnd_event(&mut self.tp, ca_event::LOSS);
            self.init_undo();
        }
        self.tp.snd_cwnd = if self.linux { self.in_flight() + 1 } else { 1 };
        self.tp.snd_cwnd_cnt = 0;
        self.tp.snd_cwnd_stamp = self.tp.jiffies;
        if state <= ca_state::DISORDER && self.tp.sacked_out >= DUPLICATE_THRESHOLD {
            self.reordering = self.reordering.min(DUPLICATE_THRESHOLD);
        }
        self.statistics.congestion_signals += 1;
        self.set_state(ca_state::LOSS);
        self.set_high_seq(self.snd_nxt);
        self.tlp_high_seq = None;
        let new_recovery = state < ca_state::RECOVERY;
        self.frto = self.linux && (new_recovery || self.tp.icsk_retransmits > 0);
    }

    fn mark_lost_by_timeout(&mut self) {
        let first = self.queue.first();
        for number in first..self.queue.end() {
            let segment = *self.queue.get(number);
            let waited_us = self.tp.tcp_mstamp.saturating_sub(segment.tx_us);
            let recent = self.linux && waited_us < u64::from(self.rack.rtt_us);
            if number == first || !recent {
                self.mark_lost(number);
            }
        }
        self.retransmit_hint = first;
        self.rack.scan = first;
    }

    fn init_undo(&mut self) {
        self.undo_marker = Some(self.snd_una);
        self.undo_retrans = match self.tp.retrans_out {
            0 => -1,
            retransmitted => retransmitted as i32,
        };
        if self.tlp_high_seq.is_some() && self.tlp_retransmitted {
            self.undo_retrans = self.undo_retrans.max(0) + 1;
        }
    }

    /// Whether the window is being reduced (`tcp_in_cwnd_reduction`).
    pub(super) fn in_cwnd_reduction(&self) -> bool {
        matches!(self.tp.icsk_ca_state, ca_state::CWR | ca_state::RECOVERY)
    }

    /// The threshold to remember: at least three quarters of the window; during a reduction, the
    /// one in force (`tcp_current_ssthresh`).
    pub(super) fn current_ssthresh(&self) -> u32 {
        if self.in_cwnd_reduction() {
            return self.tp.snd_ssthresh;
        }
        let cwnd = self.tp.snd_cwnd;
        self.tp.snd_ssthresh.max((cwnd >> 1) + (cwnd >> 2))
    }

    pub(super) fn init_cwnd_reduction(&mut self) {
        self.set_high_seq(self.snd_nxt);
        self.tlp_high_seq = None;
        self.tp.snd_cwnd_cnt = 0;
        self.tp.prior_cwnd = self.tp.snd_cwnd;
        self.tp.prr_delivered = 0;
        self.tp.prr_out = 0;
        self.tp.snd_ssthresh = self.control.ssthresh(&mut self.tp);
    }

    /// Sets the window during a reduction: PRR, or rate halving in `Stack::Classic2005`.
    pub(super) fn reduce_cwnd(&mut self, delivered: u32, newly_lost: u32, advanced: bool) {
        if !self.linux {
            self.halve_rate();
            return;
        }
        if delivered == 0 || self.tp.prior_cwnd == 0 {
            return;
        }
        self.tp.prr_delivered += delivered;
        let in_flight = self.in_flight();
        let ssthresh = self.tp.snd_ssthresh;
        let room = i64::from(ssthresh) - i64::from(in_flight);
        let (prr_delivered, prr_out) =
            (i64::from(self.tp.prr_delivered), i64::from(self.tp.prr_out));
        let mut count = if room < 0 {
            let prior = u64::from(self.tp.prior_cwnd);
            let share = (u64::from(ssthresh) * prr_delivered as u64).div_ceil(prior);
            share as i64 - prr_out
        } else {
            let mut count = (prr_delivered - prr_out).max(i64::from(delivered));
            if advanced && newly_lost == 0 {
                count += 1;
            }
            count.min(room)
        };
        // The first retransmission is sent at once.
        count = count.max(i64::from(self.tp.prr_out == 0));
        self.tp.snd_cwnd = (i64::from(in_flight) + count).max(1) as u32;
    }

    fn halve_rate(&mut self) {
        let count = self.tp.snd_cwnd_cnt + 1;
        self.tp.snd_cwnd_cnt = count & 1;
        // The congestion control reduces by less than half, a case that the patches of Westwood and
        // SF-SACK added.
        let gentle = 2 * u64::from(self.tp.snd_ssthresh) > u64::from(self.tp.prior_cwnd);
        let limit = self.tp.snd_ssthresh / if gentle { 1 } else { 2 };
        if count >> 1 != 0 && self.tp.snd_cwnd > limit {
            self.tp.snd_cwnd -= 1;
        }
        self.tp.snd_cwnd = self.tp.snd_cwnd.min(self.in_flight() + 1).max(1);
        self.tp.snd_cwnd_stamp = self.tp.jiffies;
    }

    /// `tcp_end_cwnd_reduction`; `tcp_complete_cwr` in Linux 2.4.
    pub(super) fn end_cwnd_reduction(&mut self) {
        if self.control.has_cong_control() {
            return;
        }
        let ssthresh = self.tp.snd_ssthresh;
        let not_undone = self.tp.icsk_ca_state == ca_state::CWR || self.undo_marker.is_some();
        if ssthresh < TCP_INFINITE_SSTHRESH && not_undone {
            self.tp.snd_cwnd = if self.linux {
                ssthresh
            } else {
                self.tp.snd_cwnd.min(ssthresh)
            };
            self.tp.snd_cwnd_stamp = self.tp.jiffies;
        }
        self.control
            .cwnd_event(&mut self.tp, ca_event::COMPLETE_CWR);
    }

    /// Whether every retransmission was unnecessary (`tcp_may_undo`).
    fn may_undo(&self) -> bool {
        self.undo_marker.is_some() && (self.undo_retrans == 0 || self.is_ack_of_original())
    }

    /// Whether the echoed time stamp is older than the first retransmission (Eifel, RFC 3522;
    /// `tcp_packet_delayed`).
    fn is_ack_of_original(&self) -> bool {
        match self.retrans_stamp {
            Some(stamp) => (self.ts_ecr.wrapping_sub(stamp) as i32) < 0,
            // Nothing was retransmitted, yet the hole has been filled.
            None => true,
        }
    }

    fn try_undo_recovery(&mut self) {
        if self.may_undo() {
            self.undo_cwnd_reduction(false);
        } else if self.rack.window_persist > 0 {
            self.rack.window_persist -= 1;
        }
        self.set_state(ca_state::OPEN);
    }

    /// Handles a partial acknowledgement of an original. Returns true if nothing more may be sent yet.
    fn try_undo_partial(&mut self, prior_una: u64) -> bool {
        if self.undo_marker.is_none() || !self.is_ack_of_original() {
            return false;
        }
        self.note_reordering(prior_una);
        if self.tp.retrans_out > 0 {
            return true;
        }
        if !self.any_retransmitted() {
            self.retrans_stamp = None;
        }
        self.undo_cwnd_reduction(true);
        self.try_keep_open();
        false
    }

    fn try_undo_by_duplicates(&mut self) -> bool {
        if self.undo_marker.is_none() || self.undo_retrans != 0 {
            return false;
        }
        self.rack.window_persist = (self.rack.window_persist + 1).min(RECOVERY_THRESHOLD);
        self.undo_cwnd_reduction(false);
        true
    }

    fn try_undo_loss(&mut self, by_frto: bool) -> bool {
        if !by_frto && !self.may_undo() {
            return false;
        }
        self.undo_cwnd_reduction(true);
        self.tp.icsk_retransmits = 0;
        self.set_state(ca_state::OPEN);
        true
    }

    fn undo_cwnd_reduction(&mut self, unmark: bool) {
        if unmark {
            for number in self.queue.first()..self.queue.end() {
                self.queue.get_mut(number).flags &= !LOST;
            }
            self.tp.lost_out = 0;
            self.retransmit_hint = self.queue.end();
            self.rack.rescan(&self.queue);
        }
        if self.prior_ssthresh != 0 {
            self.tp.snd_cwnd = self.control.undo_cwnd(&mut self.tp);
            self.tp.snd_ssthresh = self.tp.snd_ssthresh.max(self.prior_ssthresh);
        }
        self.tp.snd_cwnd_stamp = self.tp.jiffies;
        self.undo_marker = None;
        self.rack.advanced = true;
    }

    fn any_retransmitted(&self) -> bool {
        self.tp.retrans_out > 0
            || self
                .queue
                .head()
                .is_some_and(|head| head.is(super::retransmit_queue::EVER_RETRANSMITTED))
    }

    fn try_to_open(&mut self) {
        if !self.any_retransmitted() {
            self.retrans_stamp = None;
        }
        if self.tp.icsk_ca_state != ca_state::CWR {
            self.try_keep_open();
            if !self.linux {
                self.moderate_cwnd();
            }
        }
    }

    /// Linux 2.4's guard against bursts (`tcp_moderate_cwnd`).
    fn moderate_cwnd(&mut self) {
        let most = self.in_flight() + MAX_BURST;
        self.tp.snd_cwnd = self.tp.snd_cwnd.min(most);
    }

    pub(super) fn try_keep_open(&mut self) {
        let left_out = self.tp.sacked_out + self.tp.lost_out;
        let state = if left_out > 0 || self.any_retransmitted() {
            ca_state::DISORDER
        } else {
            ca_state::OPEN
        };
        if self.tp.icsk_ca_state != state {
            self.set_state(state);
            self.set_high_seq(self.snd_nxt);
        }
    }

    /// Handles an acknowledgement after a tail loss probe, which may reveal the loss that the probe
    /// repaired (`tcp_process_tlp_ack`).
    pub(super) fn process_probe_ack(&mut self, ack: u64, flags: u32) {
        let Some(high) = self.tlp_high_seq else {
            return;
        };
        if ack < high {
            return;
        }
        if !self.tlp_retransmitted || self.tlp_duplicate {
            self.tlp_high_seq = None;
        } else if ack > high {
            // The probe repaired a loss that nothing else has detected.
            self.init_cwnd_reduction();
            self.statistics.congestion_signals += 1;
            self.set_state(ca_state::CWR);
            self.end_cwnd_reduction();
            self.try_keep_open();
        } else if flags & (flag::SND_UNA_ADVANCED | flag::NOT_DUP | flag::DATA_SACKED) == 0 {
            self.tlp_high_seq = None;
        }
    }

    /// Segments neither delivered nor lost, and retransmissions (`tcp_packets_in_flight`).
    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        (self.tp.packets_out + self.tp.retrans_out)
            .saturating_sub(self.tp.sacked_out + self.tp.lost_out)
    }

    pub(super) fn set_state(&mut self, state: u8) {
        self.control.set_state(&mut self.tp, state);
        self.tp.icsk_ca_state = state;
    }

    pub(super) fn set_high_seq(&mut self, seq: u64) {
        self.high_seq = seq;
        self.tp.high_seq = seq as u32;
    }

    /// Checks that the counters agree with the queue.
    #[cfg(test)]
    pub(super) fn check_counters(&self) {
        let count = |flag| {
            (self.queue.first()..self.queue.end())
                .filter(|&number| self.queue.get(number).is(flag))
                .count() as u32
        };
        assert_eq!(self.tp.sacked_out, count(SACKED), "sacked_out");
        assert_eq!(self.tp.lost_out, count(LOST), "lost_out");
        assert_eq!(self.tp.retrans_out, count(RETRANSMITTED), "retrans_out");
        assert_eq!(
            u64::from(self.tp.packets_out),
            self.queue.end() - self.queue.first()
        );
        let mut next = self.queue.head().map_or(self.snd_nxt, |head| head.seq);
        assert!(next <= self.snd_una || self.queue.is_empty() || next == self.snd_una);
        for number in self.queue.first()..self.queue.end() {
            let segment = self.queue.get(number);
            assert_eq!(segment.seq, next, "the queue has no gaps");
            next = segment.end();
            assert!(
                !(segment.is(SACKED) && segment.is(LOST)),
                "delivered or lost"
            );
            let waits = segment.is(LOST) && !segment.is(RETRANSMITTED);
            assert!(
                !waits || number >= self.retransmit_hint,
                "will be sent again"
            );
        }
        assert_eq!(next, self.snd_nxt);
        assert!(self.tp.snd_cwnd >= 1);
        assert!(
            self.queue.is_empty() || self.due() != crate::agenda::NEVER,
            "something will wake a sender that waits"
        );
    }
}
