//! Congestion states: `tcp_fastretrans_alert`, F-RTO (RFC 5682), undo (RFC 3522 and duplicate
//! reports).
//!
//! | Linux | here |
//! |---|---|
//! | reneging on selective acknowledgements is handled | receivers here never renege |

use fairwind_cc::native::ca_state;

use super::Sender;
use super::effects::{Effects, flag};
use super::loss::forward_ack;
use super::retransmit_queue::in_flight;
use super::retransmit_timer::TimerUse;
use super::window::in_cwnd_reduction;
use crate::tcp::constants::DUPLICATE_THRESHOLD;

/// What to send after an acknowledgement, besides new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retransmit {
    /// Nothing.
    Nothing,
    /// The segments marked lost.
    Lost,
    /// New data first, to find out whether the timeout was spurious (F-RTO).
    New,
}

impl Sender {
    /// Handles every acknowledgement other than plain progress in the open state. Returns what to
    /// send afterwards (`tcp_fastretrans_alert`).
    pub(super) fn alert(
        &mut self,
        prior_una: u64,
        duplicate: bool,
        effects: &mut Effects,
    ) -> Retransmit {
        if effects.any(flag::ECE) {
            // The reduction is required.
            self.window.forget_ssthresh();
        }
        let (una, high_seq) = (self.sequence.una(), self.episode.high_seq());
        match self.tp.icsk_ca_state {
            ca_state::OPEN => self.episode.forget_retransmissions(),
            ca_state::CWR if una > high_seq => {
                self.end_cwnd_reduction();
                self.window.set_state(&mut self.tp, ca_state::OPEN);
            }
            ca_state::RECOVERY if una >= high_seq => {
                self.try_undo_recovery();
                self.end_cwnd_reduction();
            }
            _ => {}
        }
        match self.tp.icsk_ca_state {
            ca_state::RECOVERY => self.process_recovery(prior_una, effects),
            ca_state::LOSS => self.process_loss(duplicate, effects),
            _ => self.process_disorder(effects),
        }
    }

    fn process_recovery(&mut self, prior_una: u64, effects: &mut Effects) -> Retransmit {
        if effects.any(flag::SND_UNA_ADVANCED) && self.try_undo_partial(prior_una) {
            return Retransmit::Nothing;
        }
        if self.try_undo_by_duplicates() {
            self.try_to_open(effects);
        }
        self.identify_losses(effects);
        if self.tp.icsk_ca_state != ca_state::RECOVERY {
            if self.tp.lost_out == 0 {
                return Retransmit::Nothing;
            }
            self.recover(effects);
        }
        Retransmit::Lost
    }

    fn process_loss(&mut self, duplicate: bool, effects: &mut Effects) -> Retransmit {
        let next = self.step_loss_state(duplicate, effects);
        if next == Retransmit::Lost {
            self.window.moderate(&mut self.tp);
        }
        self.identify_losses(effects);
        if self.tp.icsk_ca_state == ca_state::OPEN || effects.any(flag::LOST_RETRANS) {
            return self.process_disorder(effects);
        }
        next
    }

    /// F-RTO and the exit from the loss state (`tcp_process_loss`).
    fn step_loss_state(&mut self, duplicate: bool, effects: &Effects) -> Retransmit {
        let advanced = effects.any(flag::SND_UNA_ADVANCED);
        let recovered = self.sequence.una() >= self.episode.high_seq();
        if advanced && self.episode.may_undo(self.ts_ecr) {
            self.undo_loss();
            return Retransmit::Nothing;
        }
        if self.episode.frto() {
            if effects.any(flag::ORIG_SACK_ACKED) {
                self.undo_loss();
                return Retransmit::Nothing;
            }
            if self.sequence.nxt() > self.episode.high_seq() {
                if effects.any(flag::DATA_SACKED) || duplicate {
                    self.episode.set_frto(false);
                }
            } else if advanced && !recovered {
                self.set_high_seq();
                if self.sequence.has_unsent() && self.sequence.fits_window(1) {
                    return Retransmit::New;
                }
                self.episode.set_frto(false);
            }
        }
        if recovered {
            self.try_undo_recovery();
            return Retransmit::Nothing;
        }
        Retransmit::Lost
    }

    fn process_disorder(&mut self, effects: &mut Effects) -> Retransmit {
        if self.tp.icsk_ca_state <= ca_state::DISORDER {
            self.try_undo_by_duplicates();
        }
        self.identify_losses(effects);
        if self.tp.lost_out == 0 {
            self.try_to_open(effects);
            return Retransmit::Nothing;
        }
        self.recover(effects);
        Retransmit::Lost
    }

    /// `tcp_identify_packet_loss`.
    fn identify_losses(&mut self, effects: &mut Effects) {
        if self.queue.is_empty() {
            return;
        }
        if !self.stack.detects_losses_by_time() {
            self.identify_losses_by_count();
            return;
        }
        let retransmitted = self.tp.retrans_out;
        let reordering_timer = self
            .rack
            .mark_lost(&mut self.tp, &mut self.queue, &self.reordering);
        if let Some(after) = reordering_timer {
            self.timer.set(TimerUse::Reordering, after);
            effects.remove(flag::SET_XMIT_TIMER);
        }
        if retransmitted > self.tp.retrans_out {
            effects.add(flag::LOST_RETRANS);
        }
    }

    fn identify_losses_by_count(&mut self) {
        let una = self.sequence.una();
        let highest = self.queue.highest_sacked_seq(&self.tp, una);
        forward_ack::mark_lost_retransmissions(&mut self.tp, &mut self.queue, highest);
        let recovering = self.tp.icsk_ca_state >= ca_state::RECOVERY;
        if !recovering {
            if !forward_ack::is_hole_a_loss(&self.queue, &self.reordering) {
                return;
            }
            self.set_high_seq();
        }
        let high_seq = self.episode.high_seq();
        let (tp, queue) = (&mut self.tp, &mut self.queue);
        forward_ack::mark_lost_by_count(tp, queue, &self.reordering, high_seq);
    }

    /// Handles the reordering timer (`tcp_rack_reo_timeout`). Returns true if something was lost.
    pub(super) fn recover_from_overdue(&mut self) -> bool {
        let before = in_flight(&self.tp);
        let lost = self.tp.lost;
        self.rack
            .detect_loss(&mut self.tp, &mut self.queue, &self.reordering);
        if before == in_flight(&self.tp) {
            return false;
        }
        if self.tp.icsk_ca_state != ca_state::RECOVERY {
            self.enter_recovery();
            if !self.window.has_cong_control() {
                let newly_lost = self.tp.lost.wrapping_sub(lost);
                self.window.reduce(&mut self.tp, 1, newly_lost, false);
            }
        }
        true
    }

    /// Enters fast recovery after an acknowledgement; no undo if that echoes a mark.
    fn recover(&mut self, effects: &Effects) {
        self.enter_recovery();
        if effects.any(flag::ECE) {
            self.window.forget_ssthresh();
        }
    }

    /// Enters fast recovery (`tcp_enter_recovery`).
    fn enter_recovery(&mut self) {
        self.forget_settled_retransmissions();
        self.window.forget_ssthresh();
        self.init_undo();
        if !in_cwnd_reduction(&self.tp) {
            self.window.keep_ssthresh(&self.tp);
            self.init_cwnd_reduction();
        }
        self.counters.count_congestion_signal();
        self.window.set_state(&mut self.tp, ca_state::RECOVERY);
    }

    /// Enters the loss state after a retransmission timeout (`tcp_enter_loss`).
    pub(super) fn enter_loss(&mut self) {
        let state = self.tp.icsk_ca_state;
        self.rack
            .mark_lost_by_timeout(&mut self.tp, &mut self.queue, self.stack);
        if state <= ca_state::DISORDER
            || self.episode.high_seq() <= self.sequence.una()
            || (state == ca_state::LOSS && self.tp.icsk_retransmits == 0)
        {
            self.window.lower_ssthresh(&mut self.tp);
            self.init_undo();
        }
        self.window.collapse(&mut self.tp);
        if state <= ca_state::DISORDER && self.tp.sacked_out >= DUPLICATE_THRESHOLD {
            self.reordering.reset();
        }
        self.counters.count_congestion_signal();
        self.window.set_state(&mut self.tp, ca_state::LOSS);
        self.set_high_seq();
        self.probe.forget();
        let new_recovery = state < ca_state::RECOVERY;
        let frto = self.stack.has_frto() && (new_recovery || self.tp.icsk_retransmits > 0);
        self.episode.set_frto(frto);
        self.ecn.owe_cwr();
    }

    /// `tcp_init_undo`.
    fn init_undo(&mut self) {
        let with_probe = self.probe.is_retransmission_in_flight();
        let una = self.sequence.una();
        self.episode.init_undo(&self.tp, una, with_probe);
    }

    /// `tcp_init_cwnd_reduction`.
    fn init_cwnd_reduction(&mut self) {
        self.set_high_seq();
        self.probe.forget();
        self.window.begin_reduction(&mut self.tp);
        self.ecn.owe_cwr();
    }

    /// Reduces the window once for the marks of a round trip (`tcp_enter_cwr`).
    fn enter_cwr(&mut self) {
        self.window.forget_ssthresh();
        if self.tp.icsk_ca_state < ca_state::CWR {
            self.episode.end_undo();
            self.init_cwnd_reduction();
            self.counters.count_congestion_signal();
            self.window.set_state(&mut self.tp, ca_state::CWR);
        }
    }

    /// `tcp_end_cwnd_reduction`.
    fn end_cwnd_reduction(&mut self) {
        let undone = !self.episode.is_undoable();
        self.window.end_reduction(&mut self.tp, undone);
    }

    /// An episode begins here, or goes on until here.
    fn set_high_seq(&mut self) {
        let nxt = self.sequence.nxt();
        self.episode.set_high_seq(&mut self.tp, nxt);
    }

    /// The time of the first retransmission is of use as long as one may be acknowledged.
    fn forget_settled_retransmissions(&mut self) {
        if !self.queue.is_any_retransmitted(&self.tp) {
            self.episode.forget_retransmissions();
        }
    }

    /// `tcp_try_undo_recovery`.
    fn try_undo_recovery(&mut self) {
        if self.episode.may_undo(self.ts_ecr) {
            self.undo_cwnd_reduction();
        } else {
            self.rack.on_necessary_recovery();
        }
        self.window.set_state(&mut self.tp, ca_state::OPEN);
    }

    /// Handles a partial acknowledgement of an original. Returns true if nothing more may be sent yet
    /// (`tcp_try_undo_partial`).
    fn try_undo_partial(&mut self, prior_una: u64) -> bool {
        if !self.episode.is_undoable() || !self.episode.is_ack_of_original(self.ts_ecr) {
            return false;
        }
        self.note_reordering(prior_una);
        if self.tp.retrans_out > 0 {
            return true;
        }
        self.forget_settled_retransmissions();
        self.queue.unmark_lost(&mut self.tp);
        self.undo_cwnd_reduction();
        self.try_keep_open();
        false
    }

    /// `tcp_try_undo_dsack`.
    fn try_undo_by_duplicates(&mut self) -> bool {
        if !self.episode.is_all_duplicates() {
            return false;
        }
        self.rack.persist();
        self.undo_cwnd_reduction();
        true
    }

    /// The timeout was spurious (`tcp_try_undo_loss`).
    fn undo_loss(&mut self) {
        self.queue.unmark_lost(&mut self.tp);
        self.undo_cwnd_reduction();
        self.tp.icsk_retransmits = 0;
        self.window.set_state(&mut self.tp, ca_state::OPEN);
    }

    /// `tcp_undo_cwnd_reduction`.
    fn undo_cwnd_reduction(&mut self) {
        if self.window.undo_reduction(&mut self.tp) {
            self.ecn.withdraw_cwr();
        }
        self.episode.end_undo();
        self.rack.search_again();
    }

    /// `tcp_try_to_open`.
    fn try_to_open(&mut self, effects: &Effects) {
        self.forget_settled_retransmissions();
        if effects.any(flag::ECE) {
            self.enter_cwr();
        }
        if self.tp.icsk_ca_state != ca_state::CWR {
            self.try_keep_open();
            self.window.moderate(&mut self.tp);
        }
    }

    /// `tcp_try_keep_open`.
    fn try_keep_open(&mut self) {
        let left_out = self.tp.sacked_out + self.tp.lost_out;
        let state = if left_out > 0 || self.queue.is_any_retransmitted(&self.tp) {
            ca_state::DISORDER
        } else {
            ca_state::OPEN
        };
        if self.tp.icsk_ca_state != state {
            self.window.set_state(&mut self.tp, state);
            self.set_high_seq();
        }
    }

    /// Handles an acknowledgement after a tail loss probe, which may reveal the loss that the probe
    /// repaired (`tcp_process_tlp_ack`).
    #[inline]
    pub(super) fn process_probe_ack(&mut self, ack: u64, effects: &Effects) {
        if self.probe.reveals_loss(ack, effects) {
            self.init_cwnd_reduction();
            self.counters.count_congestion_signal();
            self.window.set_state(&mut self.tp, ca_state::CWR);
            self.end_cwnd_reduction();
            self.try_keep_open();
        }
    }
}
