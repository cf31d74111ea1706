//! The instruments of a sender (RFC 4898).

use fairwind_cc::native::TCP_INFINITE_SSTHRESH;
use fairwind_path::units::Time;

use super::Sender;
use super::counters::Limit;
use super::rate;
use super::retransmit_queue::in_flight;
use crate::outcome::{CongestionState, Instruments};

impl Sender {
    /// The instruments at `now`; those of the receiver are left at zero.
    pub(crate) fn instruments(&self, now: Time) -> Instruments {
        let mss = u64::from(self.tp.mss_cache);
        let ssthresh = self.tp.snd_ssthresh;
        let pacing_rate = self.tp.sk_pacing_rate;
        let statistics = self.counters.statistics();
        Instruments {
            cur_cwnd: u64::from(self.tp.snd_cwnd) * mss,
            cur_ssthresh: (ssthresh < TCP_INFINITE_SSTHRESH).then_some(u64::from(ssthresh) * mss),
            smoothed_rtt_us: measured(u64::from(self.tp.srtt_us >> 3)),
            cur_rto_us: self.rtt.rto().as_micros() as u32,
            sample_rtt_us: measured(self.rtt.sample_us()),
            min_rtt_us: self.rtt.least_us().and_then(measured),
            rtt_var_us: self.tp.rttvar_us >> 2,
            pipe_size: u64::from(in_flight(&self.tp)) * mss,
            cur_rwin_rcvd: self.sequence.receiver_window(),
            hc_thru_octets_acked: self.sequence.una(),
            segs_retrans: statistics.retransmits,
            timeouts: statistics.timeouts,
            cong_signals: statistics.congestion_signals,
            snd_lim_time_rwin_us: self.counters.limited_us(now, Limit::Receiver),
            snd_lim_time_cwnd_us: self.counters.limited_us(now, Limit::Cwnd),
            snd_lim_time_snd_us: self.counters.limited_us(now, Limit::Sender),
            pacing_rate: (pacing_rate < u64::MAX).then_some(pacing_rate),
            delivery_rate: rate::bytes_per_second(&self.tp),
            ecn_signals: self.tp.delivered_ce.into(),
            congestion_state: CongestionState::numbered(self.tp.icsk_ca_state),
            ..Instruments::default()
        }
    }
}

/// A round-trip time, microseconds; 0 is none. The instrument ends at 71 minutes.
fn measured(us: u64) -> Option<u32> {
    (us > 0).then(|| u32::try_from(us).unwrap_or(u32::MAX))
}
