//! Congestion window validation: the window follows what the application uses of it, the concern of
//! RFC 7661, as in `tcp_cwnd_validate` and `tcp_cwnd_restart`.

use fairwind_cc::native::{TcpSock, ca_event, ca_state};

use super::CongestionWindow;
use super::reduction::current_ssthresh;

impl CongestionWindow {
    /// Halves the window for each timeout of `rto` jiffies for which nothing was sent.
    pub(crate) fn restart_after_idle(&self, tp: &mut TcpSock, rto: u64) {
        if tp.packets_out > 0 || self.control.has_cong_control() {
            return;
        }
        let rto = rto as i64;
        let mut idle = i64::from(tp.jiffies.wrapping_sub(tp.lsndtime));
        if tp.lsndtime == 0 || idle <= rto {
            return;
        }
        self.control.cwnd_event(tp, ca_event::CWND_RESTART);
        tp.snd_ssthresh = current_ssthresh(tp);
        let initial = self.stack.initial_cwnd();
        let mut cwnd = tp.snd_cwnd;
        let least = initial.min(cwnd);
        loop {
            idle -= rto;
            if idle <= 0 || cwnd <= least {
                break;
            }
            cwnd >>= 1;
        }
        tp.snd_cwnd = cwnd.max(least);
        tp.snd_cwnd_stamp = tp.jiffies;
        tp.snd_cwnd_used = 0;
    }

    /// Notes how far the window is used. Returns whether it is used fully (`tcp_cwnd_validate`).
    #[inline]
    pub(crate) fn note_use(&self, tp: &mut TcpSock, cwnd_limited: bool) -> bool {
        let usage_over = tp.snd_una.wrapping_sub(tp.cwnd_usage_seq) as i32 >= 0;
        if usage_over
            || cwnd_limited
            || (tp.is_cwnd_limited == 0 && tp.packets_out > tp.max_packets_out)
        {
            tp.is_cwnd_limited = u32::from(cwnd_limited);
            tp.max_packets_out = tp.packets_out;
            tp.cwnd_usage_seq = tp.snd_nxt;
        }
        let slow_start = tp.snd_cwnd < tp.snd_ssthresh;
        let fully_used =
            tp.is_cwnd_limited != 0 || (slow_start && tp.snd_cwnd < 2 * tp.max_packets_out);
        if fully_used {
            tp.snd_cwnd_used = 0;
            tp.snd_cwnd_stamp = tp.jiffies;
        } else {
            tp.snd_cwnd_used = tp.snd_cwnd_used.max(tp.packets_out);
        }
        fully_used
    }

    /// Shrinks a window that has not been used fully for a timeout, of `rto` jiffies, half way to
    /// its use, if it is the application that uses no more (`tcp_cwnd_application_limited`).
    #[inline]
    pub(crate) fn shrink_unused(&self, tp: &mut TcpSock, rto: u64, application_limited: bool) {
        let unused = tp.jiffies.wrapping_sub(tp.snd_cwnd_stamp);
        if unused < rto as u32 || self.control.has_cong_control() {
            return;
        }
        if tp.icsk_ca_state == ca_state::OPEN && application_limited {
            let used = tp.snd_cwnd_used.max(self.stack.initial_cwnd());
            if used < tp.snd_cwnd {
                tp.snd_ssthresh = current_ssthresh(tp);
                tp.snd_cwnd = (tp.snd_cwnd + used) >> 1;
            }
            tp.snd_cwnd_used = 0;
        }
        tp.snd_cwnd_stamp = tp.jiffies;
    }
}
