//! When a receiver acknowledges: at once, with the second segment, after a delay, or compressed
//! with other selective acknowledgements (`__tcp_ack_snd_check`, `tcp_send_delayed_ack`).

use fairwind_path::units::{Duration, Time};

use crate::agenda::NEVER;
use crate::scenario::Stack;

/// `TCP_ATO_MIN` and `TCP_DELACK_MIN`.
const ATO_MIN: Duration = Duration::from_millis(40);
/// `TCP_DELACK_MAX`.
const DELACK_MAX: Duration = Duration::from_millis(200);
/// `TCP_MAX_QUICKACKS`.
const MAX_QUICK_ACKS: u32 = 16;
/// `tcp_comp_sack_nr`.
const MAX_COMPRESSED: u32 = 44;
/// `TCP_FASTRETRANS_THRESH`: so many duplicates go out uncompressed.
const UNCOMPRESSED_DUPLICATES: u32 = 3;

/// The acknowledgement state of a receiver.
#[derive(Debug)]
pub struct AckPolicy {
    stack: Stack,
    /// Acknowledge every segment while this is above zero.
    quick: u32,
    /// The delay of a delayed acknowledgement; zero before the first segment.
    ato: Duration,
    last_received: Time,
    delayed_due: Time,
    compressed_due: Time,
    compressed: u32,
    duplicates: u32,
    compressed_rcv_nxt: u64,
}

impl AckPolicy {
    /// The policy of a connection that has received nothing.
    pub fn new(stack: Stack) -> Self {
        AckPolicy {
            stack,
            quick: 0,
            ato: Duration::ZERO,
            last_received: Time::ZERO,
            delayed_due: NEVER,
            compressed_due: NEVER,
            compressed: 0,
            duplicates: 0,
            compressed_rcv_nxt: 0,
        }
    }

    /// The earlier of the two timers.
    #[inline]
    pub fn due(&self) -> Time {
        self.delayed_due.min(self.compressed_due)
    }

    /// Every segment is acknowledged.
    #[inline]
    pub fn in_quick_ack_mode(&self) -> bool {
        self.quick > 0
    }

    /// Learns from a segment's arrival (`tcp_event_data_recv`). `window` and `mss` in bytes.
    #[inline]
    pub fn on_data(&mut self, now: Time, window: u64, mss: u32) {
        if self.ato == Duration::ZERO {
            self.enter_quick_ack_mode(window, mss);
            self.ato = ATO_MIN;
        } else {
            let gap = now - self.last_received;
            let half = Duration::from_millis(20);
            if gap <= half {
                self.ato = self.ato / 2 + half;
            } else if gap < self.ato {
                self.ato = self.ato / 2 + gap;
            } else if gap > Duration::from_millis(1000) {
                // A gap this long means that the sender may start anew: do not slow it down.
                self.enter_quick_ack_mode(window, mss);
            }
        }
        self.last_received = now;
    }

    /// Acknowledges the next segments one by one (`tcp_incr_quickack`).
    pub fn enter_quick_ack_mode(&mut self, window: u64, mss: u32) {
        let quick = (window / (2 * u64::from(mss))).clamp(2, u64::from(MAX_QUICK_ACKS)) as u32;
        self.quick = self.quick.max(quick);
    }

    /// Whether data in order is acknowledged now; if not, an acknowledgement is due later.
    /// `full` says that more than one full segment waits for it.
    #[inline]
    pub fn wants_ack(&mut self, now: Time, full: bool) -> bool {
        if full || self.quick > 0 {
            return true;
        }
        let due = now + self.ato.min(DELACK_MAX);
        if self.delayed_due != NEVER && self.delayed_due <= now + self.ato / 4 {
            // About to fire anyway.
            return true;
        }
        self.delayed_due = self.delayed_due.min(due);
        false
    }

    /// Whether data out of order is acknowledged now. `delay` is the longest that a compressed
    /// acknowledgement waits.
    pub fn wants_selective_ack(&mut self, now: Time, rcv_nxt: u64, delay: Duration) -> bool {
        if self.compressed >= MAX_COMPRESSED || self.quick > 0 {
            return true;
        }
        if self.compressed_rcv_nxt != rcv_nxt {
            self.compressed_rcv_nxt = rcv_nxt;
            self.duplicates = 0;
        }
        if self.duplicates < UNCOMPRESSED_DUPLICATES {
            self.duplicates += 1;
            return true;
        }
        self.compressed += 1;
        self.compressed_due = self.compressed_due.min(now + delay);
        false
    }

    /// Whether a timer has expired and an acknowledgement is to be sent.
    pub fn on_timer(&mut self, now: Time) -> bool {
        if self.compressed_due <= now {
            return true;
        }
        if self.delayed_due > now {
            return false;
        }
        if self.stack == Stack::Linux {
            // A delayed acknowledgement that nothing overtook: wait longer next time.
            self.ato = self.ato + self.ato;
        }
        true
    }

    /// An acknowledgement has gone out.
    #[inline]
    pub fn on_ack_sent(&mut self) {
        self.quick = self.quick.saturating_sub(1);
        self.compressed = 0;
        self.delayed_due = NEVER;
        self.compressed_due = NEVER;
    }
}
