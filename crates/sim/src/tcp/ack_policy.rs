//! When a receiver acknowledges: at once, with the second segment, after a delay, or compressed
//! with other selective acknowledgements (`__tcp_ack_snd_check`, `tcp_send_delayed_ack`).

use fairwind_path::units::{Duration, Time};

use super::clock_ns;
use super::constants::{DUPLICATE_THRESHOLD, RTO_INITIAL, RTO_MIN};
use super::jiffies::Jiffies;
use crate::agenda::NEVER;

/// `TCP_ATO_MIN` and `TCP_DELACK_MIN`.
const ATO_MIN: Duration = Duration::from_millis(40);
/// `TCP_DELACK_MAX`.
const DELACK_MAX: Duration = Duration::from_millis(200);
/// `TCP_MAX_QUICKACKS`.
pub(super) const MAX_QUICK_ACKS: u32 = 16;
/// `tcp_comp_sack_nr`.
const MAX_COMPRESSED: u32 = 44;

/// The acknowledgement state of a receiver.
#[derive(Debug)]
pub(super) struct AckPolicy {
    /// Round-trip time of the handshake, the only one that a receiver measures the way a sender
    /// does; zero if unknown.
    handshake_rtt: Duration,
    /// Acknowledgements left in quick-ACK mode, in which every segment is acknowledged at once.
    quick: u32,
    jiffies: Jiffies,
    /// `TCP_ATO_MIN`, jiffies.
    ato_min: u64,
    /// The retransmission timeout that the receiver would use if it had data to send, jiffies.
    rto: u64,
    /// The longest delay of an acknowledgement, jiffies: the round-trip time within its bounds, if known.
    longest_delay: u64,
    /// The current delay of a delayed acknowledgement, jiffies; zero before the first segment.
    ato: u64,
    /// When the latest segment arrived, jiffies.
    last_received: u64,
    /// The jiffy at which the pending delayed acknowledgement is due.
    delayed_until: Option<u64>,
    delayed_due: Time,
    compressed_due: Time,
    compressed: u32,
    duplicates: u32,
    compressed_rcv_nxt: u64,
}

impl AckPolicy {
    /// The policy of a connection that has received nothing yet.
    pub(super) fn new(jiffies: Jiffies) -> Self {
        AckPolicy {
            handshake_rtt: Duration::ZERO,
            quick: 0,
            jiffies,
            ato_min: jiffies.count(ATO_MIN),
            rto: jiffies.count(RTO_INITIAL),
            longest_delay: jiffies.count(DELACK_MAX),
            ato: 0,
            last_received: 0,
            delayed_until: None,
            delayed_due: NEVER,
            compressed_due: NEVER,
            compressed: 0,
            duplicates: 0,
            compressed_rcv_nxt: 0,
        }
    }

    /// Sets the round-trip time of the handshake, which bounds the delay.
    pub(super) fn set_handshake_rtt(&mut self, rtt: Duration) {
        self.handshake_rtt = rtt;
        if rtt > Duration::ZERO {
            self.rto = self.jiffies.count(rtt + (rtt * 2).max(RTO_MIN));
            self.longest_delay = self.jiffies.count(rtt.clamp(ATO_MIN, DELACK_MAX));
        }
    }

    /// Round-trip time of the handshake; zero if unknown.
    pub(super) fn handshake_rtt(&self) -> Duration {
        self.handshake_rtt
    }

    /// When the earlier of the two timers is due.
    #[inline]
    pub(super) fn due(&self) -> Time {
        self.delayed_due.min(self.compressed_due)
    }

    /// Whether every segment is acknowledged at once.
    #[inline]
    pub(super) fn in_quick_ack_mode(&self) -> bool {
        self.quick > 0
    }

    /// Adapts the delay to a segment's arrival (`tcp_event_data_recv`). `window` and `mss` in bytes.
    #[inline]
    pub(super) fn on_data(&mut self, now: Time, window: u64, mss: u32) {
        self.jiffies.advance(clock_ns(now));
        let now = self.jiffies.now();
        if self.ato == 0 {
            self.raise_quick_acks(window, mss, MAX_QUICK_ACKS);
            self.ato = self.ato_min;
        } else {
            let gap = now - self.last_received;
            let half = self.ato_min / 2;
            if gap <= half {
                self.ato = self.ato / 2 + half;
            } else if gap < self.ato {
                self.ato = (self.ato / 2 + gap).min(self.rto);
            } else if gap > self.rto {
                // After such a gap the sender may restart in slow start: do not slow it down.
                self.raise_quick_acks(window, mss, MAX_QUICK_ACKS);
            }
        }
        self.last_received = now;
    }

    /// Acknowledges the next segments one by one, at most `most` of them, after a sign of trouble
    /// (`tcp_enter_quickack_mode`).
    pub(super) fn enter_quick_ack_mode(&mut self, window: u64, mss: u32, most: u32) {
        self.raise_quick_acks(window, mss, most);
        self.ato = self.ato_min;
    }

    /// The window has grown: acknowledges the next segment at once to tell the sender
    /// (`tcp_grow_window`).
    #[inline]
    pub(super) fn on_window_growth(&mut self) {
        self.quick |= 1;
    }

    /// `tcp_incr_quickack`.
    fn raise_quick_acks(&mut self, window: u64, mss: u32, most: u32) {
        let quick = match window / (2 * u64::from(mss)) {
            0 => 2,
            quick => quick.min(u64::from(most)) as u32,
        };
        self.quick = self.quick.max(quick);
    }

    /// Whether to acknowledge data in order now; if not, a delayed acknowledgement is pending.
    /// `due` means that enough data waits for one.
    #[inline]
    pub(super) fn ack_now(&mut self, now: Time, due: bool) -> bool {
        if due || self.quick > 0 {
            return true;
        }
        self.jiffies.advance(clock_ns(now));
        let delay = self.ato.min(self.longest_delay);
        let jiffy = self.jiffies.now();
        let until = match self.delayed_until {
            // It is about to fire anyway.
            Some(pending) if pending <= jiffy + delay / 4 => return true,
            Some(pending) => pending.min(jiffy + delay),
            None => jiffy + delay,
        };
        if self.delayed_until != Some(until) {
            self.delayed_until = Some(until);
            self.delayed_due = self.jiffies.expiry(now, until - jiffy);
        }
        false
    }

    /// Whether to acknowledge data out of order now. `delay` is the longest that a compressed
    /// acknowledgement waits.
    pub(super) fn wants_selective_ack(&mut self, now: Time, rcv_nxt: u64, delay: Duration) -> bool {
        if self.compressed >= MAX_COMPRESSED || self.quick > 0 {
            return true;
        }
        if self.compressed_rcv_nxt != rcv_nxt {
            self.compressed_rcv_nxt = rcv_nxt;
            self.duplicates = 0;
        }
        // A sender needs these to find a loss.
        if self.duplicates < DUPLICATE_THRESHOLD {
            self.duplicates += 1;
            return true;
        }
        self.compressed += 1;
        self.compressed_due = self.compressed_due.min(now + delay);
        false
    }

    /// Whether selective acknowledgements are being held back.
    pub(super) fn is_compressing(&self) -> bool {
        self.compressed > 0
    }

    /// Whether a timer has expired, so that an acknowledgement must be sent.
    pub(super) fn on_timer(&mut self, now: Time) -> bool {
        if self.compressed_due <= now {
            return true;
        }
        if self.delayed_due > now {
            return false;
        }
        // Nothing triggered the acknowledgement before its timer: wait longer next time.
        self.ato = (self.ato * 2).min(self.rto);
        true
    }

    /// Resets the timers after an acknowledgement has been sent.
    #[inline]
    pub(super) fn on_ack_sent(&mut self) {
        if self.quick == 1 {
            self.ato = self.ato_min;
        }
        self.quick = self.quick.saturating_sub(1);
        self.compressed = 0;
        self.delayed_until = None;
        self.delayed_due = NEVER;
        self.compressed_due = NEVER;
    }
}
