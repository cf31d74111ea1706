//! A sender's instruments, and the time for which each cause limited it (RFC 4898; the kernel's
//! chronographs).

use fairwind_cc::native::TCP_INFINITE_SSTHRESH;
use fairwind_path::units::Time;

use super::sender::Sender;
use crate::outcome::{CongestionState, Instruments};

/// What prevents a sender from sending more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Cwnd,
    Receiver,
    Sender,
}

impl Sender {
    /// Accounts the time since the last change to what limited the sender.
    #[inline]
    pub(super) fn set_limit(&mut self, limit: Limit) {
        if limit != self.limit {
            self.limited_us[self.limit as usize] += (self.now - self.limit_since).as_micros();
            self.limit = limit;
            self.limit_since = self.now;
        }
    }

    /// The instruments at `now`; those of the receiver are left at zero.
    pub fn instruments(&self, now: Time) -> Instruments {
        let mss = u64::from(self.tp.mss_cache);
        let mut limited = self.limited_us;
        limited[self.limit as usize] += (now - self.limit_since).as_micros();
        let ssthresh = self.tp.snd_ssthresh;
        let pacing_rate = self.tp.sk_pacing_rate;
        Instruments {
            cur_cwnd: u64::from(self.tp.snd_cwnd) * mss,
            cur_ssthresh: (ssthresh < TCP_INFINITE_SSTHRESH).then_some(u64::from(ssthresh) * mss),
            smoothed_rtt_us: measured(self.tp.srtt_us >> 3),
            cur_rto_us: self.rtt.rto.as_micros() as u32,
            sample_rtt_us: measured(self.rtt.sample_us),
            min_rtt_us: measured(self.rtt.least_us).filter(|&least| least < u32::MAX),
            rtt_var_us: self.tp.rttvar_us >> 2,
            pipe_size: u64::from(self.in_flight()) * mss,
            cur_rwin_rcvd: self.window_end.saturating_sub(self.snd_una),
            hc_thru_octets_acked: self.snd_una,
            segs_retrans: self.statistics.retransmits,
            timeouts: self.statistics.timeouts,
            cong_signals: self.statistics.congestion_signals,
            snd_lim_time_rwin_us: limited[Limit::Receiver as usize],
            snd_lim_time_cwnd_us: limited[Limit::Cwnd as usize],
            snd_lim_time_snd_us: limited[Limit::Sender as usize],
            pacing_rate: (pacing_rate < u64::MAX).then_some(pacing_rate),
            delivery_rate: self.rate.bytes_per_second(self.tp.mss_cache),
            congestion_state: CongestionState::numbered(self.tp.icsk_ca_state),
            ..Instruments::default()
        }
    }
}

/// A round-trip time; 0 is none.
fn measured(us: u32) -> Option<u32> {
    (us > 0).then_some(us)
}
