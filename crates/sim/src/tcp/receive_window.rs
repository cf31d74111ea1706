//! The advertised window: `tcp_select_window`, `tcp_grow_window` and receive-buffer autotuning
//! (`tcp_rcv_space_adjust`, after Fisk and Feng's dynamic right-sizing).
//!
//! | Linux 6.x | here |
//! |---|---|
//! | the share of the buffer that the window may use follows the measured overhead of a packet | one half (`TCP_DEFAULT_SCALING_RATIO`) |
//! | `SO_RCVBUF` doubles what is asked for | so the window is what the file asks for |

use fairwind_path::units::Time;

use super::milliseconds;
use crate::scenario::{Stack, TcpConfig};

/// The window's largest value before window scaling has been agreed.
const UNSCALED_MAX: u64 = 65_535;

/// The receive buffer and what is advertised of it.
#[derive(Debug)]
pub struct ReceiveWindow {
    autotuned: bool,
    buffer: u64,
    buffer_max: u64,
    /// The most that may be advertised.
    clamp: u64,
    /// What is advertised at present; grows with the data that arrives.
    ssthresh: u64,
    scale: u32,
    /// The right edge that has been advertised; it never moves back.
    edge: u64,
    /// What the latest acknowledgement advertised.
    advertised: u64,
    rtt_us_shifted: u32,
    last_ts_ecr: u32,
    /// Since when the present window's worth has been arriving, and the sequence number that ends it.
    window_start: Option<(Time, u64)>,
    measured_bytes: u64,
    measure_seq: u64,
    /// Nothing before the first segment.
    measure_start: Option<Time>,
}

impl ReceiveWindow {
    /// The window of a connection that has received nothing.
    pub fn new(config: &TcpConfig) -> Self {
        let fixed = match (config.stack, config.receive_buffer) {
            (_, Some(bytes)) => Some((2 * bytes.0, bytes.0)),
            // tcp_rmem[2] of Linux 2.4, three quarters of it for the window (tcp_adv_win_scale 2).
            (Stack::Classic2005, None) => Some((174_760, 131_070)),
            (Stack::Linux, None) => None,
        };
        // One segment is held back until the buffer is tuned (`tcp_init_buffer_space`).
        let (buffer, clamp) = fixed.unwrap_or_else(|| {
            let half = config.tcp_rmem[1] / 2;
            (
                config.tcp_rmem[1],
                half.saturating_sub(u64::from(config.mss)),
            )
        });
        // A buffer that is not tuned needs no larger scale than its window
        // (`tcp_select_initial_window`).
        let largest = match fixed {
            Some(_) => clamp,
            None => config.tcp_rmem[2].max(buffer),
        };
        let mut scale = 0;
        while scale < 14 && (largest >> scale) > UNSCALED_MAX {
            scale += 1;
        }
        ReceiveWindow {
            autotuned: fixed.is_none(),
            buffer,
            buffer_max: config.tcp_rmem[2],
            clamp,
            ssthresh: clamp.min(UNSCALED_MAX),
            scale,
            edge: clamp.min(UNSCALED_MAX),
            advertised: clamp.min(UNSCALED_MAX),
            rtt_us_shifted: 0,
            last_ts_ecr: 0,
            window_start: None,
            measured_bytes: clamp.min(10 * u64::from(config.mss)),
            measure_seq: 0,
            measure_start: None,
        }
    }

    /// The receive buffer, bytes.
    pub fn buffer_bytes(&self) -> u64 {
        self.buffer
    }

    /// The window in the SYN-ACK, which is not scaled.
    pub fn initial(&self) -> u32 {
        self.clamp.min(UNSCALED_MAX) as u32
    }

    /// What may be advertised at present, bytes.
    #[inline]
    pub fn offered(&self) -> u64 {
        self.ssthresh.min(self.clamp)
    }

    /// The receiver's estimate of the round-trip time, microseconds times eight.
    pub fn rtt_us_shifted(&self) -> u32 {
        self.rtt_us_shifted
    }

    /// Takes the round-trip time from a timestamp echo (`tcp_rcv_rtt_measure_ts`). The clock of
    /// milliseconds may not have moved; that says nothing.
    #[inline]
    pub fn measure_rtt(&mut self, now: Time, ts_ecr: u32, full_sized: bool) {
        if ts_ecr == self.last_ts_ecr || !full_sized {
            return;
        }
        self.last_ts_ecr = ts_ecr;
        let sample_us = 1000 * milliseconds(now).wrapping_sub(ts_ecr);
        if sample_us == 0 {
            return;
        }
        let smoothed = self.rtt_us_shifted - (self.rtt_us_shifted >> 3) + sample_us;
        if !self.seek_minimal_rtt(sample_us) {
            self.rtt_us_shifted = smoothed;
        }
    }

    /// A window's worth takes a round trip or more to arrive (`tcp_rcv_rtt_measure`).
    #[inline]
    fn measure_window(&mut self, now: Time, rcv_nxt: u64) {
        if let Some((start, end)) = self.window_start {
            if rcv_nxt < end {
                return;
            }
            self.seek_minimal_rtt(((now - start).as_micros() as u32).max(1));
        }
        self.window_start = Some((now, rcv_nxt + self.advertised));
    }

    /// Takes a sample at once if there is no lesser one (`tcp_rcv_rtt_update`).
    fn seek_minimal_rtt(&mut self, sample_us: u32) -> bool {
        let sample = sample_us.saturating_mul(8);
        let lesser = self.rtt_us_shifted == 0 || sample < self.rtt_us_shifted;
        if lesser {
            self.rtt_us_shifted = sample;
        }
        lesser
    }

    /// Grows the window towards what the buffer has room for, as data arrives in whatever order.
    /// True if it has grown (`tcp_grow_window`).
    #[inline]
    pub fn grow(&mut self, mss: u32) -> bool {
        if self.ssthresh >= self.clamp {
            return false;
        }
        self.ssthresh = (self.ssthresh + 2 * u64::from(mss)).min(self.clamp);
        true
    }

    /// Grows the buffer, once a round trip, as data arrives in order (`tcp_rcv_space_adjust`).
    #[inline]
    pub fn on_in_order(&mut self, now: Time, rcv_nxt: u64, held_span: u64) {
        self.measure_window(now, rcv_nxt);
        let start = *self.measure_start.get_or_insert(now);
        let rtt_us = u64::from(self.rtt_us_shifted >> 3);
        if rtt_us == 0 || (now - start).as_micros() < rtt_us {
            return;
        }
        let copied = rcv_nxt - self.measure_seq;
        if copied > self.measured_bytes {
            self.grow_buffer(copied, held_span);
        }
        self.measure_seq = rcv_nxt;
        self.measure_start = Some(now);
    }

    /// Makes room for what has arrived beyond a gap, `held_span` bytes from the gap to the end.
    pub fn on_out_of_order(&mut self, held_span: u64) {
        self.grow_buffer(self.measured_bytes, held_span);
    }

    /// `copied` bytes have arrived in a round trip (`tcp_rcvbuf_grow`).
    fn grow_buffer(&mut self, copied: u64, held_span: u64) {
        let before = std::mem::replace(&mut self.measured_bytes, copied);
        if !self.autotuned {
            return;
        }
        // The measurement is a round trip late; the rate of growth on top keeps ahead of slow start.
        let mut window = 2 * copied;
        window += 2 * (window * (copied - before) / before) + held_span;
        let buffer = (2 * window).min(self.buffer_max);
        if buffer > self.buffer {
            self.buffer = buffer;
            self.clamp = buffer / 2;
        }
    }

    /// The window of an acknowledgement up to `rcv_nxt`, bytes, in steps of the window scale;
    /// `held` bytes of the buffer wait for a hole to be filled.
    #[inline]
    pub fn select(&mut self, rcv_nxt: u64, held: u64) -> u32 {
        let current = self.edge.saturating_sub(rcv_nxt);
        let free = self.clamp.saturating_sub(held).min(self.ssthresh);
        let step = (1u64 << self.scale) - 1;
        let window = (free.max(current) + step) & !step;
        self.edge = rcv_nxt + window;
        self.advertised = window;
        window.min(u64::from(u32::MAX)) as u32
    }
}
