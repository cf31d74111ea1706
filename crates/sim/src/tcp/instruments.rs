//! A sender's instruments, and the time for which each cause limited it (RFC 4898; the kernel's
//! chronographs).

use fairwind_cc::native::{TCP_INFINITE_SSTHRESH, ca_state};
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
        Instruments {
            cwnd_bytes: u64::from(self.tp.snd_cwnd) * mss,
            ssthresh_bytes: if self.tp.snd_ssthresh >= TCP_INFINITE_SSTHRESH {
                u64::MAX
            } else {
                u64::from(self.tp.snd_ssthresh) * mss
            },
            smoothed_rtt_us: self.tp.srtt_us >> 3,
            rto_us: self.rtt.rto.as_micros() as u32,
            sample_rtt_us: self.rtt.sample_us,
            min_rtt_us: match self.rtt.least_us {
                u32::MAX => 0,
                least => least,
            },
            rtt_var_us: self.tp.rttvar_us >> 2,
            in_flight_bytes: u64::from(self.in_flight()) * mss,
            rwin_received_bytes: self.window_end.saturating_sub(self.snd_una),
            bytes_acked: self.snd_una,
            segments_retransmitted: self.statistics.retransmits,
            timeouts: self.statistics.timeouts,
            congestion_signals: self.statistics.congestion_signals,
            pacing_rate: self.tp.sk_pacing_rate,
            delivery_rate: self.rate.bytes_per_second(self.tp.mss_cache),
            limited_by_receiver_us: limited[Limit::Receiver as usize],
            limited_by_cwnd_us: limited[Limit::Cwnd as usize],
            limited_by_sender_us: limited[Limit::Sender as usize],
            state: match self.tp.icsk_ca_state {
                ca_state::DISORDER => CongestionState::Disorder,
                ca_state::CWR => CongestionState::Cwr,
                ca_state::RECOVERY => CongestionState::Recovery,
                ca_state::LOSS => CongestionState::Loss,
                _ => CongestionState::Open,
            },
            ..Instruments::default()
        }
    }
}
