//! The windows that connections of a command offer, so that its downloads take only what others leave.

use std::collections::HashMap;
use std::time::Duration;

use fairwind_trace::event::Sample;
use fairwind_transfer::background::{Arrived, Law, Neighbours, Seen};

/// Connections of which there are laws, at most: as many as `windows` of `bpf/hold.h` has room for.
const MOST: usize = 1 << 14;
/// So many make room for another, of which has been heard longest ago.
const ROOM: usize = MOST / 16;
/// A connection of which nothing has been heard for so long is forgotten.
const SILENCE: Duration = Duration::from_secs(300);

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
    held: HashMap<u64, Held>,
    neighbours: Neighbours,
}

/// A connection that is held.
#[derive(Debug)]
struct Held {
    law: Law,
    /// When anything was last heard of it.
    heard: Duration,
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
        if self.held.is_empty() {
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

    /// The same of what a connection has received. There is room for 16,384 connections: with more, those that have been
    /// silent longest begin anew.
    pub fn arrivals(&mut self, arrivals: &Arrivals) -> Option<u32> {
        if self.held.len() >= MOST && !self.held.contains_key(&arrivals.cookie) {
            self.make_room();
        }
        let new = || Held {
            // The peer's segments are about as large as the own ones.
            law: Law::new(arrivals.mss),
            heard: arrivals.at,
        };
        let held = self.held.entry(arrivals.cookie).or_insert_with(new);
        held.heard = arrivals.at;
        let law = &mut held.law;
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
        let held = self.held.get(&cookie);
        held.is_some_and(|held| held.law.is_yielding())
    }

    /// The connection is closed.
    pub fn forget(&mut self, cookie: u64) {
        self.held.remove(&cookie);
    }

    /// Forgets connections of which nothing has been heard for five minutes, as their end need not be.
    pub fn forget_silent(&mut self, now: Duration) {
        self.held.retain(|_, held| held.heard + SILENCE > now);
    }

    fn make_room(&mut self) {
        let mut heard: Vec<Duration> = self.held.values().map(|held| held.heard).collect();
        let (_, &mut latest, _) = heard.select_nth_unstable(ROOM);
        self.held.retain(|_, held| held.heard > latest);
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
        assert!(hold.held.is_empty());
    }

    fn heard(cookie: u64, at: Duration) -> Arrivals {
        Arrivals {
            cookie,
            at,
            bytes: 0,
            rtt_eighths_us: 0,
            mss: 1448,
            window: 28_960,
        }
    }

    #[test]
    fn no_more_connections_are_kept_than_there_is_room_for() {
        let mut hold = Hold::default();
        for step in 0..40_000 {
            hold.arrivals(&heard(step, Duration::from_micros(step)));
            // One that goes on stays.
            hold.arrivals(&heard(0, Duration::from_micros(step)));
            assert!(hold.held.len() <= 16_384);
        }
        assert!(hold.held.contains_key(&0) && hold.held.contains_key(&39_999));
        assert!(!hold.held.contains_key(&1));
    }

    #[test]
    fn who_has_been_silent_for_five_minutes_is_forgotten() {
        let mut hold = Hold::default();
        let second = Duration::from_secs(1);
        hold.arrivals(&heard(7, second));
        hold.arrivals(&heard(8, 2 * second));
        hold.forget_silent(301 * second);
        assert!(!hold.held.contains_key(&7) && hold.held.contains_key(&8));
    }
}
