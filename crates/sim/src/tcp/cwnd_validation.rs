//! Congestion window validation: the window follows what the application uses of it, the concern of
//! RFC 7661, as in `tcp_cwnd_validate` and `tcp_cwnd_restart`.

use fairwind_cc::native::{TCP_INIT_CWND, ca_event, ca_state};

use super::sender::Sender;

/// Initial window at the time of the papers, segments (RFC 2581).
pub(super) const CLASSIC_INITIAL_CWND: u32 = 2;

impl Sender {
    pub(super) fn restart_after_idle(&mut self) {
        if self.tp.packets_out > 0 || self.control.has_cong_control() {
            return;
        }
        let rto = self.jiffies.count(self.rtt.rto) as i64;
        let mut idle = i64::from(self.tp.jiffies.wrapping_sub(self.tp.lsndtime));
        if self.tp.lsndtime == 0 || idle <= rto {
            return;
        }
        self.control
            .cwnd_event(&mut self.tp, ca_event::CWND_RESTART);
        self.tp.snd_ssthresh = self.current_ssthresh();
        let initial = self.initial_cwnd();
        let mut cwnd = self.tp.snd_cwnd;
        let least = initial.min(cwnd);
        loop {
            idle -= rto;
            if idle <= 0 || cwnd <= least {
                break;
            }
            cwnd >>= 1;
        }
        self.tp.snd_cwnd = cwnd.max(least);
        self.tp.snd_cwnd_stamp = self.tp.jiffies;
        self.tp.snd_cwnd_used = 0;
    }

    pub(super) fn initial_cwnd(&self) -> u32 {
        if self.linux {
            TCP_INIT_CWND
        } else {
            CLASSIC_INITIAL_CWND
        }
    }

    /// `tcp_cwnd_validate`.
    #[inline]
    pub(super) fn validate_cwnd(&mut self, cwnd_limited: bool) {
        let tp = &mut self.tp;
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
            return;
        }
        tp.snd_cwnd_used = tp.snd_cwnd_used.max(tp.packets_out);
        let rto = self.jiffies.count(self.rtt.rto) as u32;
        if self.tp.jiffies.wrapping_sub(self.tp.snd_cwnd_stamp) >= rto
            && !self.control.has_cong_control()
        {
            self.shrink_unused_cwnd();
        }
    }

    /// `tcp_cwnd_application_limited`.
    fn shrink_unused_cwnd(&mut self) {
        if self.tp.icsk_ca_state == ca_state::OPEN && self.write_seq == self.sendable_end() {
            let used = self.tp.snd_cwnd_used.max(self.initial_cwnd());
            if used < self.tp.snd_cwnd {
                self.tp.snd_ssthresh = self.current_ssthresh();
                self.tp.snd_cwnd = (self.tp.snd_cwnd + used) >> 1;
            }
            self.tp.snd_cwnd_used = 0;
        }
        self.tp.snd_cwnd_stamp = self.tp.jiffies;
    }

    /// `tcp_rate_check_app_limited`.
    #[inline]
    pub(super) fn check_app_limited(&mut self, end: u64) {
        if end - self.snd_nxt < u64::from(self.tp.mss_cache)
            && self.in_flight() < self.tp.snd_cwnd
            && self.tp.lost_out <= self.tp.retrans_out
        {
            self.tp.app_limited = self.tp.delivered.wrapping_add(self.in_flight()).max(1);
        }
    }
}
