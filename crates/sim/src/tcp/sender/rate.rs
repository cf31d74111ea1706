//! Delivery-rate samples (`tcp_rate.c`; Cheng et al., draft-cheng-iccrg-delivery-rate-estimation).

use fairwind_cc::native::{RateSample, TcpSock};

/// The latest delivery rate, bytes per second; 0 before the first sample.
pub(super) fn bytes_per_second(tp: &TcpSock) -> u64 {
    (u64::from(tp.rate_delivered) * u64::from(tp.mss_cache) * 1_000_000)
        .checked_div(tp.rate_interval_us.into())
        .unwrap_or(0)
}

/// A rate sample under construction while one acknowledgement is processed.
#[derive(Debug)]
pub(super) struct Sample {
    /// The sample that the congestion control will see.
    pub sample: RateSample,
    last_end: u64,
    app_limited: bool,
}

impl Sample {
    /// A sample with nothing delivered yet.
    #[inline]
    pub(super) fn new(prior_in_flight: u32) -> Self {
        Sample {
            sample: RateSample {
                rtt_us: -1,
                prior_in_flight,
                ..RateSample::default()
            },
            last_end: 0,
            app_limited: false,
        }
    }

    /// Updates the sample with a segment that is delivered (`tcp_rate_skb_delivered`). `sent` orders
    /// segments by their latest transmission: its time, microseconds, and the segment's end.
    #[inline]
    pub(super) fn on_delivered(
        &mut self,
        tp: &mut TcpSock,
        stamp: &RateStamp,
        sent: (u64, u64),
        is_retrans: bool,
    ) {
        if stamp.delivered_us == 0 {
            return;
        }
        let first = self.sample.prior_mstamp == 0;
        if first || sent > (tp.first_tx_mstamp, self.last_end) {
            let (tx_us, end) = sent;
            self.sample.prior_delivered = stamp.delivered;
            self.sample.prior_mstamp = stamp.delivered_us;
            self.sample.is_retrans = is_retrans;
            self.sample.prior_delivered_ce = stamp.delivered_ce & DELIVERED_CE;
            self.app_limited = stamp.delivered_ce & APP_LIMITED != 0;
            self.sample.is_app_limited = self.app_limited;
            self.last_end = end;
            self.sample.last_end_seq = self.last_end as u32;
            tp.first_tx_mstamp = tx_us;
            self.sample.interval_us = tx_us.saturating_sub(stamp.first_tx_us) as i64;
        }
    }

    /// Completes a sample after an acknowledgement (`tcp_rate_gen`). `delivered` and `lost` are the
    /// packets that the acknowledgement newly delivered and marked lost.
    #[inline]
    pub(super) fn generate(&mut self, tp: &mut TcpSock, delivered: u32, lost: u32) {
        if tp.app_limited != 0 && tp.delivered.wrapping_sub(tp.app_limited) as i32 > 0 {
            tp.app_limited = 0;
        }
        if delivered > 0 {
            tp.delivered_mstamp = tp.tcp_mstamp;
        }
        let sample = &mut self.sample;
        sample.acked_sacked = delivered;
        sample.losses = lost as i32;
        if sample.prior_mstamp == 0 {
            sample.delivered = -1;
            sample.interval_us = -1;
            return;
        }
        sample.delivered = tp.delivered.wrapping_sub(sample.prior_delivered) as i32;
        let marked = tp.delivered_ce.wrapping_sub(sample.prior_delivered_ce);
        sample.delivered_ce = (marked & DELIVERED_CE) as i32;
        let sending_us = sample.interval_us;
        let acking_us = tp.tcp_mstamp.saturating_sub(sample.prior_mstamp) as i64;
        sample.interval_us = sending_us.max(acking_us);
        sample.snd_interval_us = u32::try_from(sending_us).unwrap_or(u32::MAX);
        sample.rcv_interval_us = u32::try_from(acking_us).unwrap_or(u32::MAX);
        if sample.interval_us < i64::from(tp.rtt_min_us) {
            // Shorter than the smallest round trip: the acknowledgements came in a burst.
            sample.interval_us = -1;
            return;
        }
        let (packets, interval_us) = (sample.delivered as u64, sample.interval_us as u64);
        if self.app_limited
            && packets * u64::from(tp.rate_interval_us) < u64::from(tp.rate_delivered) * interval_us
        {
            return;
        }
        tp.rate_delivered = packets as u32;
        tp.rate_interval_us = interval_us as u32;
    }
}

/// The state of delivery when a segment was last sent (`tx` of `struct tcp_skb_cb`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateStamp {
    /// `first_tx_mstamp`, microseconds.
    first_tx_us: u64,
    /// `delivered_mstamp`, microseconds; 0 once the stamp has been used.
    delivered_us: u64,
    /// `delivered`.
    delivered: u32,
    /// `delivered_ce` in as many bits as the kernel keeps, and [`APP_LIMITED`].
    delivered_ce: u32,
}

/// The bits of `delivered_ce` in a stamp (`TCPCB_DELIVERED_CE_MASK`).
const DELIVERED_CE: u32 = (1 << 20) - 1;
/// The application limited the sender.
const APP_LIMITED: u32 = 1 << 31;

impl RateStamp {
    /// The stamp of a segment that is sent at `tx_us`, microseconds (`tcp_rate_skb_sent`).
    #[inline]
    pub(super) fn new(tp: &mut TcpSock, tx_us: u64) -> Self {
        if tp.packets_out == 0 {
            tp.first_tx_mstamp = tx_us;
            tp.delivered_mstamp = tx_us;
        }
        RateStamp {
            first_tx_us: tp.first_tx_mstamp,
            delivered_us: tp.delivered_mstamp,
            delivered: tp.delivered,
            delivered_ce: tp.delivered_ce & DELIVERED_CE
                | if tp.app_limited != 0 { APP_LIMITED } else { 0 },
        }
    }

    /// The segment counts as delivered only once.
    #[inline]
    pub(super) fn use_up(&mut self) {
        self.delivered_us = 0;
    }
}

/// Notes until when samples are limited by the application: `unsent` bytes are less than a segment,
/// and the window has room (`tcp_rate_check_app_limited`).
#[inline]
pub(super) fn check_app_limited(tp: &mut TcpSock, unsent: u64, in_flight: u32) {
    if unsent < u64::from(tp.mss_cache) && in_flight < tp.snd_cwnd && tp.lost_out <= tp.retrans_out
    {
        tp.app_limited = tp.delivered.wrapping_add(in_flight).max(1);
    }
}
