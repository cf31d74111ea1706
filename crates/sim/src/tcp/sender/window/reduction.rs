//! Reductions of the window, by proportional rate reduction (RFC 6937) or at once after a timeout,
//! and their undo.
//!
//! | Linux | here |
//! |---|---|
//! | 6.x reduces the window by PRR | the same for `Stack::Linux` |
//! | 2.4 takes one packet off the window with every second ACK (rate halving) | the same for `Stack::Classic2005` |
//! | 2.4 limits the window to three packets more than are in flight while data is out of order, which keeps it small on paths that reorder much | the same for `Stack::Classic2005` |

use fairwind_cc::native::{TCP_INFINITE_SSTHRESH, TcpSock, ca_event, ca_state};

use super::CongestionWindow;
use crate::tcp::sender::retransmit_queue::in_flight;

/// Linux 2.4's `tcp_max_burst`: how many packets one acknowledgement may release.
const MAX_BURST: u32 = 3;

/// Whether the window is being reduced (`tcp_in_cwnd_reduction`).
#[inline]
pub(crate) fn in_cwnd_reduction(tp: &TcpSock) -> bool {
    matches!(tp.icsk_ca_state, ca_state::CWR | ca_state::RECOVERY)
}

/// The threshold to remember: at least three quarters of the window; during a reduction, the one in
/// force (`tcp_current_ssthresh`).
pub(super) fn current_ssthresh(tp: &TcpSock) -> u32 {
    if in_cwnd_reduction(tp) {
        return tp.snd_ssthresh;
    }
    let cwnd = tp.snd_cwnd;
    tp.snd_ssthresh.max((cwnd >> 1) + (cwnd >> 2))
}

impl CongestionWindow {
    /// Keeps the threshold for an undo of the reduction that is about to begin.
    pub(crate) fn keep_ssthresh(&mut self, tp: &TcpSock) {
        self.prior_ssthresh = current_ssthresh(tp);
    }

    /// An undo is to restore nothing.
    pub(crate) fn forget_ssthresh(&mut self) {
        self.prior_ssthresh = 0;
    }

    /// Asks the control for a threshold, towards which the window will be reduced
    /// (`tcp_init_cwnd_reduction`).
    pub(crate) fn begin_reduction(&self, tp: &mut TcpSock) {
        tp.snd_cwnd_cnt = 0;
        tp.prior_cwnd = tp.snd_cwnd;
        tp.prr_delivered = 0;
        tp.prr_out = 0;
        tp.snd_ssthresh = self.control.ssthresh(tp);
    }

    /// Sets the window during a reduction (`tcp_cwnd_reduction`). The acknowledgement has delivered
    /// `delivered` segments and shown `newly_lost` to be lost; `advanced`: it moved `snd_una`.
    pub(crate) fn reduce(&self, tp: &mut TcpSock, delivered: u32, newly_lost: u32, advanced: bool) {
        if !self.stack.reduces_proportionally() {
            halve_rate(tp);
            return;
        }
        if delivered == 0 || tp.prior_cwnd == 0 {
            return;
        }
        tp.prr_delivered += delivered;
        let in_flight = in_flight(tp);
        let ssthresh = tp.snd_ssthresh;
        let room = i64::from(ssthresh) - i64::from(in_flight);
        let (prr_delivered, prr_out) = (i64::from(tp.prr_delivered), i64::from(tp.prr_out));
        let mut count = if room < 0 {
            let prior = u64::from(tp.prior_cwnd);
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
        count = count.max(i64::from(tp.prr_out == 0));
        tp.snd_cwnd = (i64::from(in_flight) + count).max(1) as u32;
    }

    /// `count` segments have been sent, of what the reduction allows.
    #[inline]
    pub(crate) fn on_sent(&self, tp: &mut TcpSock, count: u32) {
        if in_cwnd_reduction(tp) {
            tp.prr_out += count;
        }
    }

    /// Ends a reduction, at the threshold unless it has been `undone` (`tcp_end_cwnd_reduction`;
    /// `tcp_complete_cwr` in Linux 2.4).
    pub(crate) fn end_reduction(&self, tp: &mut TcpSock, undone: bool) {
        if self.control.has_cong_control() {
            return;
        }
        let ssthresh = tp.snd_ssthresh;
        let stands = tp.icsk_ca_state == ca_state::CWR || !undone;
        if ssthresh < TCP_INFINITE_SSTHRESH && stands {
            tp.snd_cwnd = if self.stack.reduces_proportionally() {
                ssthresh
            } else {
                tp.snd_cwnd.min(ssthresh)
            };
            tp.snd_cwnd_stamp = tp.jiffies;
        }
        self.control.cwnd_event(tp, ca_event::COMPLETE_CWR);
    }

    /// Lowers the threshold as a retransmission timeout begins an episode (`tcp_enter_loss`).
    pub(crate) fn lower_ssthresh(&mut self, tp: &mut TcpSock) {
        self.keep_ssthresh(tp);
        tp.prior_cwnd = tp.snd_cwnd;
        tp.snd_ssthresh = self.control.ssthresh(tp);
        self.control.cwnd_event(tp, ca_event::LOSS);
    }

    /// Lowers the window after a retransmission timeout.
    pub(crate) fn collapse(&self, tp: &mut TcpSock) {
        tp.snd_cwnd = self.stack.cwnd_after_timeout(in_flight(tp));
        tp.snd_cwnd_cnt = 0;
        tp.snd_cwnd_stamp = tp.jiffies;
    }

    /// Restores window and threshold, as the reduction was unnecessary (`tcp_undo_cwnd_reduction`).
    /// Returns whether the threshold has risen.
    pub(crate) fn undo_reduction(&self, tp: &mut TcpSock) -> bool {
        let rises = self.prior_ssthresh > tp.snd_ssthresh;
        if self.prior_ssthresh != 0 {
            tp.snd_cwnd = self.control.undo_cwnd(tp);
            tp.snd_ssthresh = tp.snd_ssthresh.max(self.prior_ssthresh);
        }
        tp.snd_cwnd_stamp = tp.jiffies;
        rises
    }

    /// Linux 2.4's guard against bursts while data is out of order (`tcp_moderate_cwnd`).
    pub(crate) fn moderate(&self, tp: &mut TcpSock) {
        if self.stack.moderates_cwnd() {
            let most = in_flight(tp) + MAX_BURST;
            tp.snd_cwnd = tp.snd_cwnd.min(most);
        }
    }
}

/// Linux 2.4's rate halving (`tcp_cwnd_down`).
fn halve_rate(tp: &mut TcpSock) {
    let count = tp.snd_cwnd_cnt + 1;
    tp.snd_cwnd_cnt = count & 1;
    // The congestion control reduces by less than half, a case that the patches of Westwood and
    // SF-SACK added.
    let gentle = 2 * u64::from(tp.snd_ssthresh) > u64::from(tp.prior_cwnd);
    let limit = tp.snd_ssthresh / if gentle { 1 } else { 2 };
    if count >> 1 != 0 && tp.snd_cwnd > limit {
        tp.snd_cwnd -= 1;
    }
    tp.snd_cwnd = tp.snd_cwnd.min(in_flight(tp) + 1).max(1);
    tp.snd_cwnd_stamp = tp.jiffies;
}
