//! The advertised window: `tcp_select_window`, `tcp_grow_window` and receive-buffer autotuning
//! (`tcp_rcv_space_adjust`, after Fisk and Feng's dynamic right-sizing).
//!
//! | Linux 6.x | here |
//! |---|---|
//! | a packet takes the buffer space that its driver allocated | what a TUN device allocates ([`memory_of`]), as many other drivers do for packets of 1500 bytes |
//! | an immediate acknowledgement leaves out the space of data not read yet; a second one follows if reading doubles the window (`tcp_cleanup_rbuf`) | one acknowledgement for both |

use fairwind_path::units::Time;

use super::since_echoed_us;
use crate::packet::HEADER;
use crate::scenario::{Stack, TcpConfig};

/// The largest window without window scaling.
const UNSCALED_MAX: u64 = 65_535;
/// `TCP_DEFAULT_SCALING_RATIO`: the share of the buffer that the window may use before the first
/// full segment, in 256ths.
const SHARE_AT_FIRST: u64 = 128;
/// The same in Linux 2.4, where it is constant (`tcp_adv_win_scale`).
const SHARE_OF_CLASSIC: u64 = 192;
/// `tcp_rmem[2]` of Linux 2.4, bytes.
const CLASSIC_BUFFER: u64 = 174_760;
/// `SOCK_MIN_RCVBUF`, bytes.
const BUFFER_MIN: u64 = 2304;

/// The receive buffer and the window advertised from it.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    autotuned: bool,
    buffer: u64,
    buffer_max: u64,
    /// The share of the buffer that the window may use, in 256ths.
    share: u64,
    /// Upper bound of the window, bytes.
    clamp: u64,
    /// The current limit of the window, bytes; grows as data arrives (`rcv_ssthresh`).
    ssthresh: u64,
    scale: u32,
    /// The advertised right edge; it never moves back.
    edge: u64,
    /// The window in the latest acknowledgement, bytes.
    advertised: u64,
    rtt_us_shifted: u32,
    last_ts_ecr: u32,
    /// When the measurement of the current window's worth of data began, and the sequence number
    /// that ends it.
    window_start: Option<(Time, u64)>,
    measured_bytes: u64,
    measure_seq: u64,
    /// `None` before the first segment.
    measure_start: Option<Time>,
}

impl ReceiveWindow {
    /// The window of a connection that has received nothing yet.
    pub(super) fn new(config: &TcpConfig) -> Self {
        let fixed = match (config.receive_buffer, config.stack) {
            // The program passes half of it to `SO_RCVBUF`, and the kernel doubles that.
            (Some(bytes), _) => Some((bytes.0 / 2 * 2).max(BUFFER_MIN)),
            (None, Stack::Linux) => None,
            (None, Stack::Classic2005) => Some(CLASSIC_BUFFER),
        };
        let buffer = fixed.unwrap_or(config.tcp_rmem[1]);
        let share = match config.stack {
            Stack::Linux => SHARE_AT_FIRST,
            Stack::Classic2005 => SHARE_OF_CLASSIC,
        };
        let full = window_of(buffer, share);
        let mss = u64::from(config.mss);
        // An autotuned buffer holds one segment back at first (`tcp_init_buffer_space`).
        let clamp = match fixed {
            Some(_) => full,
            None => full.saturating_sub(mss),
        };
        // A fixed buffer needs no larger scale than its window (`tcp_select_initial_window`).
        let largest = match fixed {
            Some(_) => full,
            None => config.tcp_rmem[2].max(buffer),
        };
        let mut scale = 0;
        while scale < 14 && (largest >> scale) > UNSCALED_MAX {
            scale += 1;
        }
        // The window field of the SYN limits only what the SYN says (`tcp_select_initial_window`).
        let ssthresh = match config.stack {
            Stack::Linux => clamp,
            Stack::Classic2005 => clamp.min(UNSCALED_MAX),
        };
        ReceiveWindow {
            autotuned: fixed.is_none(),
            buffer,
            buffer_max: config.tcp_rmem[2],
            share,
            clamp,
            ssthresh,
            scale,
            edge: clamp.min(UNSCALED_MAX),
            advertised: clamp.min(UNSCALED_MAX),
            rtt_us_shifted: 0,
            last_ts_ecr: 0,
            window_start: None,
            measured_bytes: clamp.min(10 * mss),
            measure_seq: 0,
            measure_start: None,
        }
    }

    /// The receive buffer, bytes.
    pub(super) fn buffer_bytes(&self) -> u64 {
        self.buffer
    }

    /// The window in the SYN-ACK, which is not scaled.
    pub(super) fn initial(&self) -> u32 {
        self.clamp.min(UNSCALED_MAX) as u32
    }

    /// The window that may be advertised at present, bytes.
    #[inline]
    pub(super) fn offered(&self) -> u64 {
        self.ssthresh.min(self.clamp)
    }

    /// The receiver's estimate of the round-trip time, microseconds times eight.
    pub(super) fn rtt_us_shifted(&self) -> u32 {
        self.rtt_us_shifted
    }

    /// Measures the round-trip time from a timestamp echo (`tcp_rcv_rtt_measure_ts`). If the
    /// millisecond clock has not moved, the echo gives no sample.
    #[inline]
    pub(super) fn measure_rtt(&mut self, now: Time, ts_ecr: u32, full_sized: bool) {
        if ts_ecr == self.last_ts_ecr || !full_sized {
            return;
        }
        self.last_ts_ecr = ts_ecr;
        let Some(sample_us) = since_echoed_us(now, ts_ecr).filter(|&us| us > 0) else {
            return;
        };
        let kept = self.rtt_us_shifted - (self.rtt_us_shifted >> 3);
        let smoothed = kept.saturating_add(sample_us);
        if !self.seek_minimal_rtt(sample_us) {
            self.rtt_us_shifted = smoothed;
        }
    }

    /// Measures how long a window's worth of data takes, which is a round trip or more
    /// (`tcp_rcv_rtt_measure`).
    #[inline]
    fn measure_window(&mut self, now: Time, rcv_nxt: u64) {
        if let Some((start, end)) = self.window_start {
            if rcv_nxt < end {
                return;
            }
            let sample_us = u32::try_from((now - start).as_micros()).unwrap_or(u32::MAX);
            self.seek_minimal_rtt(sample_us.max(1));
        }
        self.window_start = Some((now, rcv_nxt + self.advertised));
    }

    /// Takes a sample at once if it is the smallest so far (`tcp_rcv_rtt_update`).
    fn seek_minimal_rtt(&mut self, sample_us: u32) -> bool {
        let sample = sample_us.saturating_mul(8);
        let lesser = self.rtt_us_shifted == 0 || sample < self.rtt_us_shifted;
        if lesser {
            self.rtt_us_shifted = sample;
        }
        lesser
    }

    /// Learns from a new largest segment, of `payload` bytes, what share of the buffer is payload
    /// (`tcp_measure_rcv_mss`).
    pub(super) fn learn_overhead(&mut self, payload: u32) {
        let share = 256 * u64::from(payload) / memory_of(payload);
        if share == self.share {
            return;
        }
        self.share = share;
        let before = self.clamp;
        self.clamp = window_of(self.buffer, share);
        if self.clamp < before {
            self.ssthresh = self.ssthresh.min(self.clamp);
        } else {
            self.ssthresh = self.ssthresh.max(self.advertised.min(self.clamp));
        }
        self.measured_bytes = self.measured_bytes.min(self.clamp);
    }

    /// Grows the window towards the room in the buffer, as data arrives in any order; `held` bytes
    /// wait for a hole to be filled. Returns true if the window has grown (`tcp_grow_window`).
    #[inline]
    pub(super) fn grow(&mut self, mss: u32, held: u64) -> bool {
        let room = self.clamp.saturating_sub(held);
        if self.ssthresh >= room {
            return false;
        }
        self.ssthresh = (self.ssthresh + 2 * u64::from(mss)).min(room);
        true
    }

    /// Grows the buffer once per round trip as data arrives in order (`tcp_rcv_space_adjust`).
    #[inline]
    pub(super) fn on_in_order(&mut self, now: Time, rcv_nxt: u64, held_span: u64) {
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

    /// Makes room for data that arrived beyond a gap: `held_span` bytes from the gap to the end.
    pub(super) fn on_out_of_order(&mut self, held_span: u64) {
        self.grow_buffer(self.measured_bytes, held_span);
    }

    /// Grows the buffer after `copied` bytes have arrived in a round trip (`tcp_rcvbuf_grow`).
    fn grow_buffer(&mut self, copied: u64, held_span: u64) {
        let before = std::mem::replace(&mut self.measured_bytes, copied);
        if !self.autotuned {
            return;
        }
        // The measurement is a round trip late; adding the growth keeps the buffer ahead of slow start.
        let mut window = 2 * copied;
        window += 2 * (window * (copied - before) / before) + held_span;
        let buffer = (256 * window / self.share).min(self.buffer_max);
        if buffer > self.buffer {
            self.buffer = buffer;
            self.clamp = window_of(buffer, self.share);
        }
    }

    /// The window for an acknowledgement of `rcv_nxt`, bytes, in steps of the window scale. `held`
    /// bytes in the buffer wait for a hole to be filled; `unread` bytes wait for the application,
    /// which reads them once the acknowledgement has been decided on.
    #[inline]
    pub(super) fn select(&mut self, rcv_nxt: u64, held: u64, unread: u64) -> u32 {
        let current = self.edge.saturating_sub(rcv_nxt);
        let free = |taken: u64| self.clamp.saturating_sub(taken).min(self.ssthresh);
        let mut window = free(held + unread).max(current);
        let after_reading = free(held);
        if after_reading >= 2 * window {
            window = after_reading;
        }
        let step = (1u64 << self.scale) - 1;
        let window = ((window + step) & !step).min(UNSCALED_MAX << self.scale);
        self.edge = self.edge.max(rcv_nxt + window);
        self.advertised = window;
        window.min(u64::from(u32::MAX)) as u32
    }
}

/// The window that a buffer allows, bytes (`tcp_win_from_space`).
fn window_of(buffer: u64, share: u64) -> u64 {
    buffer * share / 256
}

/// The receive buffer space that a packet with `payload` bytes takes (`truesize`), bytes: 256 for
/// its `sk_buff`, and the power of two that holds headers, headroom and 320 bytes of fragment list;
/// from a page on, whole pages and a small head.
fn memory_of(payload: u32) -> u64 {
    const SK_BUFF: u64 = 256;
    const HEADROOM: u64 = 64;
    const SHARED_INFO: u64 = 320;
    const SMALL_HEAD: u64 = 704;
    const PAGE: u64 = 4096;
    let packet = u64::from(payload + HEADER);
    if packet + HEADROOM >= PAGE {
        return SK_BUFF + SMALL_HEAD + packet.next_multiple_of(PAGE);
    }
    let linear = (packet + HEADROOM).next_multiple_of(64) + SHARED_INFO;
    if linear <= SMALL_HEAD {
        return SK_BUFF + SMALL_HEAD;
    }
    SK_BUFF + linear.next_power_of_two()
}
