//! The sender's clocks, which stand still while an event is handled.

use fairwind_cc::native::TcpSock;
use fairwind_path::units::{Duration, Time};

use crate::tcp::jiffies::Jiffies;
use crate::tcp::{clock_ns, milliseconds};

/// Jiffies per second if none are configured; timers then run from the moment they are set.
const HZ: u32 = 1000;

/// The time of the current event.
#[derive(Debug)]
pub(super) struct Clock {
    now: Time,
    jiffies: Jiffies,
}

impl Clock {
    /// A clock with the kernel's timer wheel at `hz` jiffies per second, if given.
    pub(super) fn new(hz: Option<u32>) -> Self {
        Clock {
            now: Time::ZERO,
            jiffies: hz.map_or_else(|| Jiffies::without_wheel(HZ), Jiffies::new),
        }
    }

    /// Advances to `now`, and the clocks that the congestion control sees with it.
    #[inline]
    pub(super) fn advance(&mut self, tp: &mut TcpSock, now: Time) {
        self.now = now;
        let ns = clock_ns(now);
        tp.now_ns = ns;
        tp.tcp_mstamp = ns / 1000;
        self.jiffies.advance(ns);
        tp.jiffies = self.jiffies.now() as u32;
    }

    /// The time of the event.
    #[inline]
    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// The same on the clock of the timestamp option.
    #[inline]
    pub(super) fn milliseconds(&self) -> u32 {
        milliseconds(self.now)
    }

    /// The clock in jiffies.
    #[inline]
    pub(super) fn jiffies(&self) -> &Jiffies {
        &self.jiffies
    }

    /// When a timer expires that is set now and is to run for `after`.
    #[inline]
    pub(super) fn expiry(&self, after: Duration) -> Time {
        self.jiffies.expiry(self.now, self.jiffies.count(after))
    }
}
