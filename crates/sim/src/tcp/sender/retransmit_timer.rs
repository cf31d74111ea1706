//! The retransmission timer and its three uses (`tcp_timer.c`).

use fairwind_path::units::{Duration, Time};

use super::clock::Clock;
use crate::agenda::NEVER;

/// `TCP_TIMEOUT_MIN_US`: slack added to timeouts that may be shorter than a jiffy or two.
pub(super) const TIMEOUT_MIN_US: u64 = 2_000;

/// What the timer is used for (`icsk_pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerUse {
    /// Nothing is due.
    Idle,
    /// Retransmission timeout.
    Retransmit,
    /// Tail loss probe.
    LossProbe,
    /// RACK's reordering window.
    Reordering,
}

/// The retransmission timer; there is only one.
#[derive(Debug)]
pub(super) struct RetransmitTimer {
    pending: TimerUse,
    /// The timeout set while the current event is handled, if any; see [`RetransmitTimer::set`].
    after: Option<Duration>,
    due: Time,
}

impl RetransmitTimer {
    /// A timer that is not set.
    pub(super) fn new() -> Self {
        RetransmitTimer {
            pending: TimerUse::Idle,
            after: None,
            due: NEVER,
        }
    }

    /// When it expires; `NEVER` if it is not set.
    #[inline]
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// What it is used for.
    #[inline]
    pub(super) fn pending(&self) -> TimerUse {
        self.pending
    }

    /// Sets the timer to expire after this time, rounded up to whole jiffies. An event may set it
    /// several times and the last call counts, so it starts only when the event has been handled.
    #[inline]
    pub(super) fn set(&mut self, pending: TimerUse, after: Duration) {
        self.pending = pending;
        self.after = Some(after);
    }

    /// Stops the timer.
    pub(super) fn clear(&mut self) {
        *self = RetransmitTimer::new();
    }

    /// Starts the timer if this event has set it.
    #[inline]
    pub(super) fn start(&mut self, clock: &Clock) {
        if let Some(after) = self.after.take() {
            self.due = clock.expiry(after);
        }
    }

    /// The timer has expired. Returns its use, which stays pending unless it is the timeout
    /// (`tcp_write_timer_handler`).
    pub(super) fn expire(&mut self) -> TimerUse {
        let expired = self.pending;
        self.due = NEVER;
        if expired == TimerUse::Retransmit {
            self.pending = TimerUse::Idle;
        }
        expired
    }

    /// A probe has been sent, and the timeout counts from now.
    pub(super) fn end_probe(&mut self) {
        self.pending = TimerUse::Idle;
    }
}
