//! The window that a receiver offers so that what it downloads takes only what others leave of the path.
//!
//! The law is that of `cc/fairwind.c` as far as a receiver can see: it, too, asks by an experiment whose queue it sees.
//! What it has is the round-trip time, which the kernel takes from the time stamps that come back, in milliseconds and
//! smoothed over eight packets; and the bytes that arrive. RFC 9840 has the frame: the window holds the sender down, and
//! is never taken back.
//!
//! - **queue**: the least round-trip time of a look less the least so far. A look takes a quarter of a round trip while
//!   the window is filled evenly (cruise), and otherwise a whole one, in which the bursts of a sender that does not pace
//!   pass. A sixteenth of the least is tolerated, at least 1.5 ms, at most 6 ms.
//! - **ramp**: the window is doubled each round trip; from a quarter of what the path last carried on it grows by a quarter,
//!   up to fifteen sixteenths.
//! - **cruise**: it grows by 1/32 a round trip, faster after some without a queue.
//! - **check**: a queue has been seen twice, or a large one once. The window is what arrived in the base round trip, less a
//!   sixteenth. If the queue has gone in the second round trip from then, it was the download's own.
//! - **yield**: if not, others fill the path. The window is a quarter with every round trip, down to one segment, until
//!   four looks in a row have shown no queue.
//!
//! Over long round trips it is late: others that start slowly meet its queue for some round trips, and what they take from
//! then on by a packet or so a round trip leaves no queue by which it could be seen.
//!
//! A queue that does not change for ten seconds in which the window is one segment is that of another route: the base is
//! that from then on.

use std::collections::VecDeque;
use std::time::Duration;

/// What is tolerated at least and at most.
const TOLERATED_LEAST: Duration = Duration::from_micros(1500);
const TOLERATED_MOST: Duration = Duration::from_millis(6);
/// A queue of so many times the tolerated one is large.
const LARGE: u32 = 4;
/// Segments of the first window.
const FIRST_SEGMENTS: f64 = 10.0;
/// Looks in a round trip while the window is filled evenly.
const LOOKS: u32 = 4;
/// The window changes no more often.
const STEP_LEAST: Duration = Duration::from_millis(10);
/// Beside a round trip and what the queue takes to go, until a changed window shows: the kernel's smoothing.
const SETTLES: Duration = Duration::from_millis(8);
/// Looks without a queue that end the yielding.
const CLEAN: u32 = 4;
/// Round trips without a queue after which growth becomes faster, and doublings of it.
const PATIENCE: u32 = 6;
const DOUBLINGS: u32 = 3;
/// After so long with one segment and the same queue, the base is believed to have changed.
const ANOTHER_ROUTE: Duration = Duration::from_secs(10);

/// What a receiver knows of its connection at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The moment, since any other.
    pub at: Duration,
    /// Bytes that have arrived so far (`tcpi_bytes_received`).
    pub received: u64,
    /// The receiver's round-trip time (`tcpi_rcv_rtt`); none before the first sample.
    pub rtt: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Ramp,
    Cruise,
    Check,
    Yield,
}

/// The law for one connection.
#[derive(Clone, Debug)]
pub struct Law {
    segment: f64,
    window: f64,
    mode: Mode,
    base: Option<Duration>,
    /// What the path carried when nobody disturbed it, bytes in flight; 0: unknown.
    own: f64,
    /// What it carried at the latest cut.
    carried: f64,
    /// Queues in a row; looks without one in a row; round trips of growth in a row.
    warned: u32,
    clean: u32,
    rounds: u32,
    /// The window does not grow before.
    grows: Duration,
    /// When this look ends, and its least round-trip time.
    due: Duration,
    look: Option<Duration>,
    /// Arrivals of the latest two round trips.
    arrivals: VecDeque<(Duration, u64)>,
    /// Since when the window is one segment, and the least and greatest round-trip time since.
    least_since: Option<(Duration, Duration, Duration)>,
    latest: Option<Duration>,
    yielded: Duration,
}

impl Law {
    /// For a connection whose segments carry so many bytes.
    pub fn new(segment: u32) -> Law {
        let segment = f64::from(segment.max(1));
        Law {
            segment,
            window: FIRST_SEGMENTS * segment,
            mode: Mode::Ramp,
            base: None,
            own: 0.0,
            carried: 0.0,
            warned: 0,
            clean: 0,
            rounds: 0,
            grows: Duration::ZERO,
            due: Duration::ZERO,
            look: None,
            arrivals: VecDeque::new(),
            least_since: None,
            latest: None,
            yielded: Duration::ZERO,
        }
    }

    /// The window to be offered, bytes: one segment at least.
    pub fn window(&self) -> u32 {
        self.window as u32
    }

    /// Whether others fill the path.
    pub fn is_yielding(&self) -> bool {
        self.mode == Mode::Yield
    }

    /// How long it has yielded to others so far.
    pub fn yielded(&self) -> Duration {
        self.yielded
    }

    /// Takes in what is known now, at best every 10 ms, and returns the [window](Law::window).
    pub fn see(&mut self, seen: &Seen) -> u32 {
        let since = seen.at.saturating_sub(self.latest.unwrap_or(seen.at));
        self.latest = Some(seen.at);
        if self.is_yielding() {
            self.yielded += since;
        }
        let Some(rtt) = seen.rtt else {
            return self.window();
        };
        let base = self.base.map_or(rtt, |base| base.min(rtt));
        self.base = Some(base);
        self.arrived(seen, rtt);
        let least = self.look.map_or(rtt, |least| least.min(rtt));
        if seen.at < self.due {
            self.look = Some(least);
            return self.window();
        }
        self.look = None;
        let tolerated = (base / 16).clamp(TOLERATED_LEAST, TOLERATED_MOST);
        let queue = least - base;
        let step = rtt.max(STEP_LEAST);
        match self.mode {
            Mode::Ramp | Mode::Cruise => {
                self.warned = if queue > tolerated {
                    self.warned + 1
                } else {
                    0
                };
                if self.warned >= 2 || queue > LARGE * tolerated {
                    self.cut(base);
                    self.grows = seen.at;
                    self.due = seen.at + step + queue + SETTLES;
                    return self.window();
                } else if self.warned == 0
                    && seen.at >= self.grows
                    && self.rate() * least.as_secs_f64() > 0.7 * self.window
                {
                    self.grow();
                    self.grows = seen.at + step;
                }
            }
            Mode::Check if queue <= tolerated => {
                self.own = self.carried.max(self.own / 32.0 * 31.0);
                self.go(Mode::Cruise);
            }
            Mode::Check => {
                self.go(Mode::Yield);
                self.lower();
            }
            Mode::Yield => {
                let is_empty =
                    queue <= tolerated || self.is_another_route(seen.at, least, tolerated);
                self.clean = if is_empty { self.clean + 1 } else { 0 };
                if !is_empty {
                    self.lower();
                } else if self.clean >= CLEAN {
                    self.go(Mode::Ramp);
                }
            }
        }
        let looks = if self.mode == Mode::Cruise { LOOKS } else { 1 };
        self.due = seen.at + (step / looks).max(STEP_LEAST);
        self.window()
    }

    fn go(&mut self, mode: Mode) {
        self.mode = mode;
        self.warned = 0;
        self.clean = 0;
        self.rounds = 0;
        self.least_since = None;
    }

    fn arrived(&mut self, seen: &Seen, rtt: Duration) {
        let span = 2 * rtt.max(2 * STEP_LEAST);
        self.arrivals.push_back((seen.at, seen.received));
        while self.arrivals.len() > 2 && self.arrivals[1].0 + span < seen.at {
            self.arrivals.pop_front();
        }
    }

    /// Bytes a second.
    fn rate(&self) -> f64 {
        match (self.arrivals.front(), self.arrivals.back()) {
            (Some((began, before)), Some((now, received))) if now > began => {
                received.saturating_sub(*before) as f64 / (*now - *began).as_secs_f64()
            }
            _ => 0.0,
        }
    }

    fn cut(&mut self, base: Duration) {
        self.carried = (self.rate() * base.as_secs_f64()).max(self.segment);
        self.window = (self.carried / 16.0 * 15.0).max(self.segment);
        self.arrivals.clear();
        self.go(Mode::Check);
    }

    fn lower(&mut self) {
        self.window = (self.window / 4.0).max(self.segment);
    }

    fn grow(&mut self) {
        match self.mode {
            Mode::Ramp => {
                let is_far = self.own == 0.0 || self.window < self.own / 4.0;
                self.window *= if is_far { 2.0 } else { 1.25 };
                let end = self.own / 16.0 * 15.0;
                if self.own > 0.0 && self.window >= end {
                    self.window = end.max(self.segment);
                    self.go(Mode::Cruise);
                }
            }
            _ => {
                self.rounds += 1;
                let doublings = (self.rounds.saturating_sub(PATIENCE) / 2).min(DOUBLINGS);
                let step = (self.window / 32.0).max(self.segment / 2.0);
                self.window += step * f64::from(1u32 << doublings);
            }
        }
        // More than a receiver can offer, so that nothing overflows.
        self.window = self.window.min(f64::from(1u32 << 30));
    }

    /// Whether the queue has been the same for so long that it is a route's.
    fn is_another_route(&mut self, at: Duration, rtt: Duration, tolerated: Duration) -> bool {
        if self.window > self.segment {
            return false;
        }
        let (since, least, greatest) = self.least_since.unwrap_or((at, rtt, rtt));
        let (least, greatest) = (least.min(rtt), greatest.max(rtt));
        // Others' queues move; a new one is looked at for as long.
        let is_steady = greatest - least <= tolerated / 2;
        self.least_since = Some(if is_steady {
            (since, least, greatest)
        } else {
            (at, rtt, rtt)
        });
        let is_long = is_steady && at - since >= ANOTHER_ROUTE;
        if is_long {
            self.base = Some(least);
            self.least_since = None;
        }
        is_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u32 = 1448;
    const STEP: Duration = Duration::from_millis(10);

    /// A link of so many bytes a second that a download shares with what others send, which fills it first. The
    /// round-trip time is that of its queue, known at once.
    struct Path {
        rate: f64,
        base: Duration,
        others: f64,
        queue: f64,
        received: f64,
        at: Duration,
        law: Law,
    }

    impl Path {
        fn new(mbps: f64, base_ms: u64) -> Path {
            Path {
                rate: mbps * 1e6 / 8.0,
                base: Duration::from_millis(base_ms),
                others: 0.0,
                queue: 0.0,
                received: 0.0,
                at: Duration::ZERO,
                law: Law::new(SEGMENT),
            }
        }

        fn rtt(&self) -> Duration {
            self.base + Duration::from_secs_f64(self.queue / self.rate)
        }

        /// Goes on for so long; returns what arrives, as a share of the link.
        fn pass(&mut self, seconds: f64) -> f64 {
            let before = self.received;
            for _ in 0..(seconds / STEP.as_secs_f64()) as u32 {
                let offered = f64::from(self.law.window()) / self.rtt().as_secs_f64();
                let step = STEP.as_secs_f64();
                let room = self.rate - self.others;
                self.received += offered.min(room.max(self.rate / 100.0)) * step;
                self.queue = (self.queue + (offered + self.others - self.rate) * step).max(0.0);
                self.at += STEP;
                self.law.see(&Seen {
                    at: self.at,
                    received: self.received as u64,
                    rtt: Some(self.rtt()),
                });
            }
            (self.received - before) / (seconds * self.rate)
        }
    }

    #[test]
    fn alone_it_fills_the_link_with_little_queue() {
        for (mbps, base_ms) in [(10.0, 5), (100.0, 20), (100.0, 200), (1000.0, 60)] {
            let mut path = Path::new(mbps, base_ms);
            path.pass(10.0);
            let share = path.pass(20.0);
            assert!(share > 0.9, "{mbps} Mbit/s, {base_ms} ms: {share}");
            let queue = path.rtt() - path.base;
            assert!(
                queue < Duration::from_millis(30),
                "{mbps} Mbit/s, {base_ms} ms: {queue:?}"
            );
            assert_eq!(path.law.yielded(), Duration::ZERO);
        }
    }

    #[test]
    fn it_yields_to_who_fills_the_link_and_comes_back() {
        let mut path = Path::new(100.0, 20);
        path.pass(5.0);
        // A queue that stays, whatever the download does.
        path.others = path.rate;
        path.queue = path.rate * 0.02;
        path.pass(0.5);
        assert_eq!(path.law.window(), SEGMENT);
        let share = path.pass(5.0);
        assert!(share < 0.02, "{share}");
        assert!(path.law.yielded() > Duration::from_secs(5));
        path.others = 0.0;
        path.pass(2.0);
        let share = path.pass(3.0);
        assert!(share > 0.85, "{share}");
    }

    #[test]
    fn another_route_is_found_out_and_a_moving_queue_is_not_one() {
        let mut path = Path::new(100.0, 20);
        path.pass(5.0);
        path.base = Duration::from_millis(50);
        path.pass(14.0);
        let share = path.pass(5.0);
        assert!(share > 0.8, "{share}");

        let mut path = Path::new(100.0, 20);
        path.pass(5.0);
        path.others = path.rate;
        path.queue = path.rate * 0.02;
        for _ in 0..30 {
            path.pass(1.0);
            path.queue = path.rate * 0.01;
            path.pass(0.5);
            path.queue = path.rate * 0.02;
        }
        assert_eq!(path.law.window(), SEGMENT);
    }

    #[test]
    fn what_the_sender_does_not_use_does_not_grow() {
        let mut law = Law::new(SEGMENT);
        for step in 1..2000 {
            law.see(&Seen {
                at: step * STEP,
                // 80 kbit/s.
                received: u64::from(step) * 100,
                rtt: Some(Duration::from_millis(20)),
            });
        }
        assert_eq!(law.window(), 10 * SEGMENT);
    }

    #[test]
    fn without_a_sample_the_window_stays_and_nothing_overflows() {
        let mut law = Law::new(0);
        law.see(&Seen::default());
        assert_eq!(law.window(), 10);
        for (at, received, rtt) in [
            (0, u64::MAX, 0),
            (1, 0, u64::MAX / 2),
            (0, 5, 1),
            (u64::MAX / 4, 5, 1),
        ] {
            let seen = Seen {
                at: Duration::from_nanos(at),
                received,
                rtt: Some(Duration::from_nanos(rtt)),
            };
            law.see(&seen);
            law.see(&seen);
        }
        assert!(law.window() >= 1);
    }
}
