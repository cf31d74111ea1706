//! The windows that connections of a command offer, so that its downloads take only what others leave.

use std::collections::HashMap;
use std::time::Duration;

use fairwind_trace::event::Sample;
use fairwind_transfer::background::{Arrived, Law, Neighbours, Seen};

/// What a connection has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// The connection.
    pub cookie: u64,
    /// When, by the monotonic clock.
    pub at: Duration,
    /// All bytes so far.
    pub bytes: u64,
    /// The receiver's round-trip time, in eighths of a microsecond; 0: unknown.
    pub rtt_eighths_us: u32,
    /// Bytes of its own segments.
    pub mss: u32,
    /// The window that it last offered, bytes.
    pub window: u32,
}

/// The laws of connections, by their cookies, and what else the host receives.
#[derive(Debug, Default)]
pub struct Hold {
    laws: HashMap<u64, Law>,
    neighbours: Neighbours,
}

impl Hold {
    /// Segments to be offered until the first sample.
    pub fn first_segments() -> u32 {
        Law::new(1).window()
    }

    /// While there is a connection to hold: takes in what the connections of the host have received, by the call that lists
    /// them, if it is time to.
    ///
    /// # Errors
    ///
    /// Of the call.
    pub fn look<E>(&mut self, list: impl FnOnce() -> Result<Vec<Arrived>, E>) -> Result<(), E> {
        if self.laws.is_empty() {
            return Ok(());
        }
        let now = Duration::from_nanos(fairwind_kernel::monotonic_ns());
        self.neighbours.look_by(now, list)
    }

    /// Takes a sample in, and says which window the connection is to offer from now on, if it is another.
    pub fn sample(&mut self, sample: &Sample) -> Option<u32> {
        self.arrivals(&Arrivals {
            cookie: sample.head.id,
            at: Duration::from_nanos(sample.head.time_ns),
            bytes: sample.bytes_received,
            rtt_eighths_us: sample.rcv_rtt_us,
            mss: sample.mss_cache,
            window: sample.rcv_wnd,
        })
    }

    /// The same of what a connection has received.
    pub fn arrivals(&mut self, arrivals: &Arrivals) -> Option<u32> {
        // The peer's segments are about as large as the own ones.
        let new = || Law::new(arrivals.mss);
        let law = self.laws.entry(arrivals.cookie).or_insert_with(new);
        let before = law.window();
        let rtt = Duration::from_micros((arrivals.rtt_eighths_us / 8).into());
        let seen = Seen {
            at: arrivals.at,
            received: arrivals.bytes,
            rtt: (!rtt.is_zero()).then_some(rtt),
            out_of_order: self.neighbours.out_of_order(arrivals.cookie),
            window: Some(arrivals.window),
        };
        let now = law.see(&seen, &self.neighbours.beside(arrivals.cookie, rtt));
        (now != before).then_some(now)
    }

    /// Whether the connection yields to others.
    pub fn is_yielding(&self, cookie: u64) -> bool {
        self.laws.get(&cookie).is_some_and(Law::is_yielding)
    }

    /// The connection is closed.
    pub fn forget(&mut self, cookie: u64) {
        self.laws.remove(&cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_told_when_it_changes() {
        let mut hold = Hold::default();
        let mut sample = Sample::default();
        sample.head.id = 7;
        sample.mss_cache = 1448;
        // An eighth of a microsecond each, as in the kernel.
        sample.rcv_rtt_us = 8 * 20_000;
        let mut told = Vec::new();
        for step in 1..8 {
            sample.head.time_ns = step * 20_000_000;
            sample.bytes_received += 28_960;
            told.extend(hold.sample(&sample));
        }
        assert_eq!(told[0], 57_920);
        assert!(!hold.is_yielding(7));
        hold.forget(7);
        assert!(hold.laws.is_empty());
    }
}
