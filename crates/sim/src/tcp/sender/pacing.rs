//! Pacing: how fast, and when the next segment may leave (`tcp_update_pacing_rate`,
//! `tcp_pacing_check`, `tcp_update_skb_after_send`).

use fairwind_cc::native::{PACING_NONE, TcpSock};
use fairwind_path::units::Time;

use crate::agenda::NEVER;
use crate::tcp::clock_ns;

/// Spacing starts when a connection has sent this many segments (`tcp_update_skb_after_send`).
const UNPACED_SEGMENTS: u64 = 10;

/// Spaces segments by the pacing rate, if the connection is paced. Times in nanoseconds of the
/// host's clock.
#[derive(Debug)]
pub(super) struct Pacer {
    /// Paces even if the congestion control does not ask for it.
    always: bool,
    /// When the next segment is released (`tcp_wstamp_ns`).
    next_ns: u64,
    /// How late the latest burst was sent.
    credit_ns: u64,
    /// When the held segment is released; `NEVER` if none is.
    due: Time,
}

impl Pacer {
    /// A pacer that holds nothing back.
    pub(super) fn new(always: bool) -> Self {
        Pacer {
            always,
            next_ns: 0,
            credit_ns: 0,
            due: NEVER,
        }
    }

    /// When it releases the segment that it holds; `NEVER` if it holds none.
    #[inline]
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Whether the held segment may leave at `now`; then it is held no longer.
    #[inline]
    pub(super) fn releases(&mut self, now: Time) -> bool {
        let released = self.due <= now;
        if released {
            self.due = NEVER;
        }
        released
    }

    /// Whether segments are spaced.
    #[inline]
    pub(super) fn is_on(&self, tp: &TcpSock) -> bool {
        self.always || tp.sk_pacing_status != PACING_NONE
    }

    /// Whether the next segment is held back; if so, sets the timer (`tcp_pacing_check`).
    #[inline]
    pub(super) fn holds(&mut self, tp: &TcpSock) -> bool {
        if !self.is_on(tp) || self.next_ns <= tp.now_ns {
            return false;
        }
        self.due = Time::from_nanos(self.next_ns - clock_ns(Time::ZERO));
        true
    }

    /// How long ago the latest segment departed, nanoseconds; 0 if that is still to come.
    #[inline]
    pub(super) fn since_latest_ns(&self, tp: &TcpSock) -> u64 {
        tp.now_ns.saturating_sub(self.next_ns)
    }

    /// Assigns a departure time to a segment, microseconds. Timeouts and probes do not wait for the
    /// pacer, so it can lie in the future.
    #[inline]
    pub(super) fn depart(&mut self, tp: &TcpSock) -> u64 {
        self.credit_ns = tp.now_ns.saturating_sub(self.next_ns);
        if self.next_ns <= tp.now_ns {
            self.next_ns = tp.now_ns;
            return tp.tcp_mstamp;
        }
        self.next_ns / 1000
    }

    /// The departure time on the clock of the timestamp option, milliseconds.
    #[inline]
    pub(super) fn timestamp_ms(&self, tp: &TcpSock) -> u32 {
        (self.next_ns.max(tp.now_ns) / 1_000_000) as u32
    }

    /// Spaces the next burst from that of `bytes` bytes that has just been sent, the connection's
    /// `segments_sent`th segment with it (`tcp_update_skb_after_send`).
    #[inline]
    pub(super) fn space(&mut self, tp: &TcpSock, bytes: u64, segments_sent: u64) {
        let rate = tp.sk_pacing_rate;
        if !self.is_on(tp) || rate == u64::MAX || rate == 0 || segments_sent < UNPACED_SEGMENTS {
            return;
        }
        let spacing_ns = bytes * 1_000_000_000 / rate;
        // After a late burst the next one may catch up by half its spacing.
        self.next_ns += spacing_ns - self.credit_ns.min(spacing_ns / 2);
    }
}

/// Sets the rate from window and round-trip time: twice the rate while the window is below half the
/// threshold, 1.2 times from there on (`tcp_update_pacing_rate`).
#[inline]
pub(super) fn update_rate(tp: &mut TcpSock) {
    let mut rate = u64::from(tp.mss_cache) * (1_000_000 << 3) / 100;
    rate *= if tp.snd_cwnd < tp.snd_ssthresh / 2 {
        200
    } else {
        120
    };
    rate *= u64::from(tp.snd_cwnd.max(tp.packets_out));
    if tp.srtt_us != 0 {
        rate /= u64::from(tp.srtt_us);
    }
    tp.sk_pacing_rate = rate.min(tp.sk_max_pacing_rate);
}
