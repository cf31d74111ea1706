//! The congestion window: asks the congestion control at the points where the kernel does, and
//! reduces, restores and validates the window around it.
//!
//! Window, threshold and congestion state are in the [`TcpSock`], which the control reads and
//! writes.

use fairwind_cc::native::{AckSample, Control, Parameters, RateSample, TcpSock, ca_event};

use super::retransmit_queue::in_flight;
use crate::scenario::Stack;

mod reduction;
mod validation;

pub(super) use reduction::in_cwnd_reduction;

/// `sk_pacing_shift`: a burst is what the pacing rate sends in 1/1024 s.
const PACING_SHIFT: u32 = 10;
/// `tcp_tso_rtt_log`: the extra burst for short paths halves with every 512 us of round-trip time.
const TSO_RTT_LOG: u32 = 9;

/// The congestion control of a connection, and what to restore after a reduction.
#[derive(Debug)]
pub(super) struct CongestionWindow {
    control: &'static Control,
    stack: Stack,
    is_initialized: bool,
    /// The threshold before the latest reduction, segments; 0 if it is not to be restored.
    prior_ssthresh: u32,
}

impl CongestionWindow {
    /// The initial window, under the control of `parameters`, which is initialised with the
    /// connection established.
    pub(super) fn new(tp: &mut TcpSock, stack: Stack, parameters: &Parameters) -> Self {
        tp.snd_cwnd = stack.initial_cwnd();
        let control = parameters.control();
        control.assign(tp, parameters);
        CongestionWindow {
            control,
            stack,
            is_initialized: false,
            prior_ssthresh: 0,
        }
    }

    /// The SYN has been acknowledged: `tcp_ack` tells a control that has not been initialised yet,
    /// and `tcp_init_transfer` sets the initial window and initialises the control.
    pub(super) fn establish(&mut self, tp: &mut TcpSock, cwnd: u32, rate: &RateSample) {
        self.on_acked(tp, 1, rate.rtt_us, rate.prior_delivered);
        if self.has_cong_control() {
            self.control(tp, 0, 0, rate);
        }
        tp.snd_cwnd = cwnd;
        tp.snd_cwnd_stamp = tp.jiffies;
        if !self.is_initialized {
            self.control.initialize(tp);
            self.is_initialized = true;
        }
    }

    /// Whether this control is in charge already, with the same parameters.
    pub(super) fn is_under(&self, tp: &TcpSock, parameters: &Parameters) -> bool {
        self.control == parameters.control() && tp.parameters == *parameters.values()
    }

    /// Hands over to another control, or to other parameters (`tcp_set_congestion_control`).
    pub(super) fn switch_control(&mut self, tp: &mut TcpSock, parameters: &Parameters) {
        self.control.release(tp);
        self.control = parameters.control();
        self.prior_ssthresh = 0;
        self.control.init(tp, parameters);
        self.is_initialized = true;
    }

    /// Whether the control manages the window in all states by itself (`cong_control`).
    #[inline]
    pub(super) fn has_cong_control(&self) -> bool {
        self.control.has_cong_control()
    }

    /// Changes the congestion state (`tcp_set_ca_state`).
    pub(super) fn set_state(&self, tp: &mut TcpSock, state: u8) {
        self.control.set_state(tp, state);
        tp.icsk_ca_state = state;
    }

    /// A segment is about to be sent (`tcp_event_data_sent`).
    #[inline]
    pub(super) fn on_transmit(&self, tp: &mut TcpSock) {
        if in_flight(tp) == 0 {
            self.control.cwnd_event(tp, ca_event::TX_START);
        }
        tp.lsndtime = tp.jiffies;
    }

    /// `packets` segments have left the queue, with `prior_delivered` delivered when the latest of
    /// them was sent. `rtt_us` is negative if unknown.
    #[inline]
    pub(super) fn on_acked(
        &self,
        tp: &mut TcpSock,
        packets: u32,
        rtt_us: i64,
        prior_delivered: u32,
    ) {
        if !self.control.has_pkts_acked() {
            return;
        }
        let delivered = tp.delivered.wrapping_sub(prior_delivered);
        let sample = AckSample {
            pkts_acked: packets,
            rtt_us: i32::try_from(rtt_us).unwrap_or(i32::MAX),
            in_flight: tp.mss_cache.wrapping_mul(delivered),
        };
        self.control.pkts_acked(tp, &sample);
    }

    /// Lets a control with `cong_control` set window and pacing rate.
    #[inline]
    pub(super) fn control(&self, tp: &mut TcpSock, ack: u64, flags: u32, rate: &RateSample) {
        self.control
            .cong_control(tp, ack as u32, flags as i32, rate);
        bound(tp);
    }

    /// Grows the window for `acked` segments, unless the control has `cong_control`
    /// (`tcp_cong_avoid`).
    #[inline]
    pub(super) fn avoid_congestion(&self, tp: &mut TcpSock, ack: u64, acked: u32) {
        if self.control.has_cong_control() {
            return;
        }
        self.control.cong_avoid(tp, ack as u32, acked);
        tp.snd_cwnd_stamp = tp.jiffies;
        bound(tp);
    }

    /// Data are about to be sent, new or again, as windows and pacing allow: the kernel asks for the
    /// least burst first, and the control may set window and rate for what is sent now.
    #[inline]
    pub(super) fn before_sending(&self, tp: &mut TcpSock) {
        if self.control.has_min_tso_segs() {
            self.control.min_tso_segs(tp);
            bound(tp);
        }
    }

    /// The largest burst, segments: about a millisecond at the pacing rate, more on short paths
    /// (`tcp_tso_autosize`). More than `wanted` is not needed.
    pub(super) fn burst_segments(&self, tp: &mut TcpSock, wanted: u32) -> u32 {
        let gso_max = u64::from(tp.sk_gso_max_size);
        let mut bytes = tp.sk_pacing_rate >> PACING_SHIFT;
        let nearness = tp.rtt_min_us >> TSO_RTT_LOG;
        if nearness < 32 {
            bytes = bytes.saturating_add(gso_max >> nearness);
        }
        let bytes = bytes.min(gso_max);
        if bytes >= u64::from(wanted) * u64::from(tp.mss_cache) {
            // As usual, and a division is slow.
            return wanted;
        }
        let segments = (bytes / u64::from(tp.mss_cache)) as u32;
        segments.max(self.control.min_tso_segs(tp)).min(wanted)
    }
}

/// A congestion control must leave at least one packet, as in the kernel.
#[inline]
fn bound(tp: &mut TcpSock) {
    tp.snd_cwnd = tp.snd_cwnd.clamp(1, tp.snd_cwnd_clamp);
}
