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
//! - **ramp**: the window is doubled each round trip; from a quarter of what the path last carried on it grows by a
//!   quarter, up to fifteen sixteenths. Where that is not known, it is at least half of what the greatest rate of arrivals
//!   carries in a round trip, grows by a half from there on if there was a queue, and by a quarter from the whole on.
//! - **turn**: what is offered follows the window within a round trip, with what arrives: see [`Law::turn`].
//! - **cruise**: it grows by 1/16 a round trip; from seven eighths of what the path has carried on by 1/128, and faster after
//!   three round trips beyond that without a queue.
//! - **check**: a queue has been seen twice, or once if it was large or packets came out of order with it. The window is
//!   what arrived in the base round trip, less a sixteenth. Where the sender has stalled and then sent at once, the queue goes
//!   without that, and the round-trip time is as old as the stall. If the queue has gone when all has come that the kernel had told
//!   before (it rounds up, so that its right edge goes on by some of what arrives until the lower window is reached), it was the
//!   download's own.
//! - **bursts**: a round-trip time that rises by more than 5 ms within 50 ms, beyond the sender's own bursts, and stays for
//!   20 ms, or half the base if that is less, rises by somebody's slow start: the download itself grows too slowly for that, and a host that stalls catches up
//!   at once. Its sender may stall, too, and then send at once: since then all that the path carries arrives, as it would not
//!   if others' packets came between. Otherwise the window makes room at once for eight times as much, a quarter at most,
//!   and checks. A second burst until that has been checked leaves no doubt: for forty round trips from then on the window
//!   grows by 1/128 at most.
//! - **yield**: if not, others fill the path. The window is a quarter with every round trip, down to one segment, until
//!   four looks in a row have shown no queue.
//!
//! Over long round trips it is late: others that start slowly meet its queue for some round trips, and what they take from
//! then on by a packet or so a round trip leaves no queue by which it could be seen.
//!
//! - **beside others**: what the other connections of the host receive is known at once ([`Beside`]). The window is no more
//!   than its share of what the path carries in all, and ramps up to that when they take less. Where they do not grow, that
//!   total is believed to be more by 1/64 with every round trip, until there is a queue. Others in the background see
//!   a common queue, too: beside them it is borne for two more cuts, and who has less than three quarters of the share
//!   leaves it to the others.
//!
//! A queue that does not change for ten seconds in which the window is one segment is that of another route: the base is
//! that from then on.

use std::collections::VecDeque;
use std::time::Duration;

use fairwind_kernel::TcpInfo;

use super::neighbours::Beside;

/// What is tolerated at least and at most.
const TOLERATED_LEAST: Duration = Duration::from_micros(1500);
const TOLERATED_MOST: Duration = Duration::from_millis(6);
/// A queue of so many times the tolerated one is large.
const LARGE: u32 = 4;
/// Segments of the first window: twice what senders begin with, for their slow start is to go on with it.
const FIRST_SEGMENTS: f64 = 20.0;
/// Looks in a round trip while the window is filled evenly.
const LOOKS: u32 = 4;
/// Looks at what arrives that a crest takes.
const CREST: usize = 4;
/// The window changes no more often.
const STEP_LEAST: Duration = Duration::from_millis(10);
/// Beside a round trip and what the queue takes to go, until a changed window shows: the kernel's smoothing.
const SETTLES: Duration = Duration::from_millis(8);
/// A round-trip time that is less by this than 10 ms ago is that of a queue that goes.
const FALLS: Duration = Duration::from_micros(500);
/// The part of the path with which a ramp begins where others of the host are known to have gone.
const FREE: f64 = 1.0 / 16.0;
/// What the kernel tells may be more than a window that it has reached, by rounding; it is waited for so many round trips.
const ROUNDED: f64 = 1.02;
const CREEPS: u32 = 4;
/// Looks without a queue that end the yielding.
const CLEAN: u32 = 4;
/// Queues after a cut that are borne where others in the background share the path.
const BEARS: u32 = 2;
/// A round-trip time that rises by more within [`LATELY`], and stays for [`HELD`], rises by somebody's slow start.
const RISES: Duration = Duration::from_millis(5);
const LATELY: Duration = Duration::from_millis(50);
const HELD: Duration = Duration::from_millis(20);
/// Round trips in which the window grows slowly beside somebody who has started.
const RESTS: u32 = 40;
/// When a lower window shows, a slow start will have doubled three times.
const DOUBLED: f64 = 8.0;
/// Round trips beyond what the path has carried without a queue, after which growth becomes faster, and doublings of it.
const PATIENCE: u32 = 2;
const DOUBLINGS: u32 = 2;
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
    /// Packets that have come out of order so far (`tcpi_rcv_ooopack`).
    pub out_of_order: u32,
    /// The window that was last offered, bytes (`tcpi_rcv_wnd`), where the kernel tells.
    pub window: Option<u32>,
}

impl Seen {
    /// What the kernel tells of a connection at this moment.
    pub fn of(info: &TcpInfo, at: Duration) -> Seen {
        Seen {
            at,
            received: info.tcpi_bytes_received,
            rtt: info.receive_rtt(),
            out_of_order: info.out_of_order().unwrap_or(0),
            window: info.receive_window(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Ramp,
    Cruise,
    Check,
    Yield,
}

/// A queue that is not answered.
fn tolerated(base: Duration) -> Duration {
    (base / 16).clamp(TOLERATED_LEAST, TOLERATED_MOST)
}

/// The law for one connection.
#[derive(Clone, Debug)]
pub struct Law {
    segment: f64,
    /// Where the offered window goes, and what is offered; what is to be offered more of all that arrives.
    window: f64,
    offered: f64,
    growth: f64,
    mode: Mode,
    base: Option<Duration>,
    /// What the path carried for this host when nobody else disturbed it, bytes in flight; 0: unknown.
    path: f64,
    /// What it carried at the latest cut.
    carried: f64,
    /// The window was lowered for others of the host.
    has_made_room: bool,
    is_making_room: bool,
    /// Queues in a row; looks without one in a row; round trips of growth in a row.
    warned: u32,
    /// Queues in a row after a cut.
    failed: u32,
    clean: u32,
    rounds: u32,
    /// The window does not grow before.
    grows: Duration,
    /// The right edge of the windows offered so far, as a number of bytes; and what was on its way at the latest cut ends
    /// there, which is known when the kernel has the lower window.
    edge: u64,
    old_edge: Option<u64>,
    /// The latest round-trip time.
    trip: Duration,
    /// A check waits for that no longer.
    settled: Duration,
    /// When this look ends, and its least and greatest round-trip time.
    due: Duration,
    look: Option<(Duration, Duration)>,
    /// Packets out of order until the latest look.
    out_of_order: u32,
    /// The greatest rate at which bytes have arrived, bytes a second, and whether there was a queue in the latest look.
    crest: f64,
    is_bursty: bool,
    /// The mean of the bursts that looks usually have: the sender's own.
    bursts: Duration,
    /// Round-trip times of the latest moments, with the bytes that had arrived, and when room was last made for a burst.
    lately: VecDeque<(Duration, Duration, u64)>,
    burst_at: Duration,
    /// The window grows slowly until then.
    rests: Duration,
    /// The window whose packets the latest look without a queue saw.
    quiet: f64,
    /// Moments of the latest round trip, with the bytes that had arrived and the window offered.
    arrivals: VecDeque<(Duration, u64, f64)>,
    /// Since when the window is one segment, and the least and greatest round-trip time since.
    least_since: Option<(Duration, Duration, Duration)>,
    latest: Option<Duration>,
    /// Bytes received at the latest turn of the offered window.
    turned: u64,
    yielded: Duration,
}

impl Law {
    /// For a connection whose segments carry so many bytes.
    pub fn new(segment: u32) -> Law {
        let segment = f64::from(segment.max(1));
        Law {
            segment,
            window: FIRST_SEGMENTS * segment,
            offered: FIRST_SEGMENTS * segment,
            growth: 0.0,
            mode: Mode::Ramp,
            base: None,
            path: 0.0,
            carried: 0.0,
            has_made_room: false,
            is_making_room: false,
            warned: 0,
            failed: 0,
            clean: 0,
            rounds: 0,
            grows: Duration::ZERO,
            edge: 0,
            old_edge: None,
            trip: Duration::ZERO,
            settled: Duration::ZERO,
            due: Duration::ZERO,
            look: None,
            out_of_order: 0,
            crest: 0.0,
            is_bursty: false,
            bursts: Duration::ZERO,
            lately: VecDeque::new(),
            burst_at: Duration::ZERO,
            rests: Duration::ZERO,
            quiet: 0.0,
            arrivals: VecDeque::new(),
            least_since: None,
            latest: None,
            turned: 0,
            yielded: Duration::ZERO,
        }
    }

    /// The window to be offered, bytes: one segment at least.
    pub fn window(&self) -> u32 {
        self.offered as u32
    }

    /// Whether others fill the path, or want more than half of it.
    pub fn is_yielding(&self) -> bool {
        self.mode == Mode::Yield || self.is_making_room
    }

    /// How long it has yielded to others so far.
    pub fn yielded(&self) -> Duration {
        self.yielded
    }

    /// Takes in what is known now, at best every 10 ms, and returns the [window](Law::window).
    pub fn see(&mut self, seen: &Seen, beside: &Beside) -> u32 {
        let since = seen.at.saturating_sub(self.latest.unwrap_or(seen.at));
        self.latest = Some(seen.at);
        if self.is_yielding() {
            self.yielded += since;
        }
        let before = self.window;
        if let Some(rtt) = seen.rtt {
            self.sample(seen, rtt, beside);
        }
        self.turn(before, seen.received);
        let offered = seen.received.saturating_add(self.window().into());
        self.edge = self.edge.max(offered);
        self.window()
    }

    /// The offered window goes to where it is to be within a round trip, with what arrives: a sender that does not pace
    /// would send all that is offered at once as a burst, and pause for all that is taken away.
    fn turn(&mut self, before: f64, received: u64) {
        let arrived = received.saturating_sub(self.turned) as f64;
        self.turned = received;
        if self.window > before {
            self.growth = self.window / self.offered - 1.0;
        }
        self.offered = if self.window > self.offered {
            (self.offered + self.growth * arrived).min(self.window)
        } else if self.window < self.offered / 2.0 {
            self.window
        } else {
            (self.offered - arrived / 2.0).max(self.window)
        };
    }

    fn sample(&mut self, seen: &Seen, rtt: Duration, beside: &Beside) {
        let base = self.base.map_or(rtt, |base| base.min(rtt));
        self.base = Some(base);
        self.arrived(seen, rtt);
        self.make_room(base, beside);
        let rise = self.rise(seen, rtt, base);
        // Others in the background, which are known, start and make room, too.
        let is_burst = self.is_burst(seen.at, base, rise) && !beside.is_shared();
        if is_burst && !self.is_own(rise, base, beside) {
            self.make_way(seen.at, rise);
            if self.mode == Mode::Cruise {
                self.begin_check(seen.at, rtt + (rtt - base));
                return;
            }
            self.rests = seen.at + RESTS * base;
        }
        let is_first_ramp = self.mode == Mode::Ramp && self.path == 0.0;
        if is_first_ramp && self.warned == 0 && !beside.is_growing() {
            // The sender's own slow start is held down only where it may fill the path.
            self.window = self.window.max(self.crest_window(base) / 2.0);
        }
        let (least, most) = self.look.unwrap_or((rtt, rtt));
        let (least, most) = (least.min(rtt), most.max(rtt));
        // What shows is the new window's queue only when all has come that the old one allowed.
        let is_falling = rtt + FALLS < self.trip;
        self.trip = rtt;
        if self.mode == Mode::Check {
            let is_on_its_way = seen.received < self.old_edge(seen) || is_falling;
            if is_on_its_way && seen.at < self.settled {
                self.due = self.due.max(seen.at + SETTLES);
            }
        }
        if seen.at < self.due {
            self.look = Some((least, most));
            return;
        }
        self.look = None;
        let tolerated = tolerated(base);
        let queue = least - base;
        let has_lost = seen.out_of_order > self.out_of_order;
        self.out_of_order = seen.out_of_order;
        // That goes without an answer, unless less arrives than the path carries.
        let may_be_own = self.mode == Mode::Cruise && queue > tolerated;
        if may_be_own && self.has_sent_at_once(queue, base, beside) {
            self.due = seen.at + STEP_LEAST;
            return;
        }
        // A loss with a queue is one of a full buffer; there is no time to look twice.
        let is_full = has_lost && most - base > tolerated;
        self.is_bursty = most - base > tolerated;
        let step = rtt.max(STEP_LEAST);
        match self.mode {
            Mode::Ramp | Mode::Cruise => {
                self.warned = if queue > tolerated {
                    self.warned + 1
                } else {
                    0
                };
                self.bursts = (7 * self.bursts + (most - least)) / 8;
                if self.warned >= 2 || is_full || queue > LARGE * tolerated {
                    let is_small = queue <= LARGE * tolerated && !is_full;
                    self.cut(base, is_small.then_some(queue), beside);
                    self.failed = 0;
                    self.wait_for(seen.at, step + queue);
                    return;
                }
                if self.warned == 0 {
                    // What shows is what was offered a round trip ago.
                    self.quiet = self.arrivals.front().map_or(0.0, |(.., offered)| *offered);
                }
                if self.warned == 0 && seen.at >= self.grows && self.is_used() {
                    self.grow(seen.at, base, beside);
                    self.grows = seen.at + step;
                }
            }
            Mode::Check if queue <= tolerated => {
                self.path = self.carried.max(self.path / 32.0 * 31.0);
                self.go(Mode::Cruise);
            }
            // Others in the background, which see it too, may go on making it for a round trip or two.
            Mode::Check if self.failed < BEARS && beside.is_shared() => {
                self.failed += 1;
                self.cut(base, None, beside);
                self.wait_for(seen.at, step + queue);
                return;
            }
            Mode::Check => {
                if self.path == 0.0 {
                    self.path = self.carried;
                }
                self.go(Mode::Yield);
                self.lower();
            }
            Mode::Yield => {
                let is_empty =
                    queue <= tolerated || self.is_another_route(seen.at, least, tolerated);
                self.clean = if is_empty { self.clean + 1 } else { 0 };
                if !is_empty {
                    self.lower();
                } else if self.clean >= CLEAN || self.have_gone(base, beside) {
                    self.come_back(base, beside);
                }
            }
        }
        let looks = if self.mode == Mode::Cruise { LOOKS } else { 1 };
        self.due = seen.at + (step / looks).max(STEP_LEAST);
    }

    /// Looks whose the queue is, when what the lower window allows shows.
    fn begin_check(&mut self, at: Duration, trip: Duration) {
        self.arrivals.clear();
        self.look = None;
        self.failed = 0;
        self.go(Mode::Check);
        self.wait_for(at, trip.max(STEP_LEAST));
    }

    /// The queue is looked at when what the window allows from now on shows, in a round trip of so long.
    fn wait_for(&mut self, at: Duration, trip: Duration) {
        self.grows = at;
        self.due = at + trip + SETTLES;
        self.old_edge = None;
        self.settled = self.due + trip;
    }

    /// Where that ends which was allowed before the latest cut.
    fn old_edge(&mut self, seen: &Seen) -> u64 {
        let told = seen
            .window
            .map(|window| (window, seen.received.saturating_add(window.into())));
        // Where the kernel does not tell: more arrives until it has the lower window and tells the sender of it.
        let late = self.edge.saturating_sub(self.turned) / 8;
        let edge = told.map_or(self.edge.saturating_add(late), |(_, edge)| edge);
        let old_edge = self.old_edge.get_or_insert(edge);
        // It may have told more than the law allowed, and rounds up what it tells until the lower window is reached.
        if let Some((window, edge)) = told
            && f64::from(window) > self.offered * ROUNDED + 3.0 * self.segment
            && seen.at < self.grows + CREEPS * self.trip
        {
            *old_edge = edge.max(*old_edge);
            self.settled = self.settled.max(seen.at + self.trip);
        }
        *old_edge
    }

    /// By how much the round-trip time has risen lately, and stayed.
    fn rise(&mut self, seen: &Seen, rtt: Duration, base: Duration) -> Duration {
        let at = seen.at;
        let held = HELD.min(base / 2);
        self.lately.push_back((at, rtt, seen.received));
        while self.lately.len() > 1 && self.lately[0].0 + LATELY + held < at {
            self.lately.pop_front();
        }
        let since = |then: Duration| {
            let lately = self.lately.iter().filter(|(at, ..)| *at >= then);
            lately.map(|(_, rtt, _)| *rtt).min().unwrap_or(rtt)
        };
        since(at.saturating_sub(held)) - since(Duration::ZERO)
    }

    /// Whether so much of a rise is somebody's slow start, for which there has been no room yet.
    fn is_burst(&self, at: Duration, base: Duration, rise: Duration) -> bool {
        matches!(self.mode, Mode::Cruise | Mode::Check)
            && rise > RISES + self.bursts
            && at > self.burst_at + base / 2
    }

    /// Whether such a rise is the download's own. Others' bursts come between what arrives of the download, so that it is
    /// less than the path carries.
    fn is_own(&self, rise: Duration, base: Duration, beside: &Beside) -> bool {
        self.latest_low()
            .is_some_and(|low| self.is_all_since(low, rise, base, beside))
            || self.has_sent_at_once(rise, base, beside)
    }

    /// Whether the sender has stalled and then sent at once, and what it sent made this queue.
    fn has_sent_at_once(&self, queue: Duration, base: Duration, beside: &Beside) -> bool {
        let Some(low) = self.latest_low() else {
            return false;
        };
        let next = self.lately.iter().skip(1);
        let mut pairs = self.lately.iter().zip(next).take(low);
        let has_stalled = pairs.any(|(one, next)| one.2 == next.2);
        has_stalled && self.is_all_since(low + 1, queue, base, beside)
    }

    /// The latest of the moments at which the round-trip time was low.
    fn latest_low(&self) -> Option<usize> {
        let floor = self.lately.iter().map(|(_, rtt, _)| *rtt).min()?;
        self.lately
            .iter()
            .rposition(|(_, rtt, _)| *rtt <= floor + FALLS)
    }

    /// Whether all that the path carries has arrived since that moment, but for a quarter of what makes such a queue.
    fn is_all_since(
        &self,
        moment: usize,
        queue: Duration,
        base: Duration,
        beside: &Beside,
    ) -> bool {
        let path = if self.path > 0.0 {
            self.path
        } else {
            self.carried
        };
        let rate = path / base.as_secs_f64().max(1e-6) - beside.total();
        let (Some((began, _, had)), Some((now, _, has))) =
            (self.lately.get(moment), self.lately.back())
        else {
            return false;
        };
        let all = rate * (*now - *began).as_secs_f64();
        let own = has.saturating_sub(*had) as f64;
        rate > 0.0 && all - own < rate * queue.as_secs_f64() / 4.0
    }

    /// Makes room for a slow start, of which a burst has just arrived.
    fn make_way(&mut self, at: Duration, rise: Duration) {
        let room = DOUBLED * self.rate() * rise.as_secs_f64();
        self.window = (self.window - room)
            .max(self.window / 4.0 * 3.0)
            .max(self.segment);
        self.offered = self.offered.min(self.window);
        self.lately.clear();
        self.burst_at = at;
    }

    fn go(&mut self, mode: Mode) {
        self.mode = mode;
        self.warned = 0;
        self.clean = 0;
        self.rounds = 0;
        self.least_since = None;
    }

    fn arrived(&mut self, seen: &Seen, rtt: Duration) {
        let span = rtt.max(4 * STEP_LEAST);
        self.arrivals
            .push_back((seen.at, seen.received, self.offered));
        if let Some((at, received, _)) = self.arrivals.iter().rev().nth(CREST) {
            let seconds = seen.at.saturating_sub(*at).as_secs_f64();
            self.crest = self
                .crest
                .max(seen.received.saturating_sub(*received) as f64 / seconds.max(1e-3));
        }
        while self.arrivals.len() > 2 && self.arrivals[1].0 + span < seen.at {
            self.arrivals.pop_front();
        }
    }

    /// Bytes in flight that the greatest rate of arrivals carries in a round trip.
    fn crest_window(&self, base: Duration) -> f64 {
        self.crest * base.as_secs_f64()
    }

    /// Bytes a second.
    fn rate(&self) -> f64 {
        match (self.arrivals.front(), self.arrivals.back()) {
            (Some((began, before, _)), Some((now, received, _))) if now > began => {
                received.saturating_sub(*before) as f64 / (*now - *began).as_secs_f64()
            }
            _ => 0.0,
        }
    }

    /// Whether the sender has sent most of what it was offered a round trip ago.
    fn is_used(&self) -> bool {
        match (self.arrivals.front(), self.arrivals.back()) {
            (Some((began, before, offered)), Some((now, received, _))) => {
                let arrived = received.saturating_sub(*before) as f64;
                let trips = (*now - *began).as_secs_f64() / self.trip.as_secs_f64().max(1e-6);
                trips >= 1.0 && arrived / trips > 0.7 * offered
            }
            _ => false,
        }
    }

    /// Bytes in flight that are the connection's part of a path that carries so many.
    fn share(&self, path: f64, base: Duration, beside: &Beside) -> f64 {
        // A base of nothing is of a connection within a host.
        let base = base.as_secs_f64().max(1e-6);
        (beside.share(path / base) * base).max(self.segment)
    }

    /// Whether others of the host take next to nothing, or what the path carries is not known.
    fn is_alone(&self, base: Duration, beside: &Beside) -> bool {
        beside.total() * base.as_secs_f64() <= self.path / 64.0 || self.path == 0.0
    }

    /// Others of the host have what they want, at once.
    fn make_room(&mut self, base: Duration, beside: &Beside) {
        self.is_making_room = false;
        if self.is_alone(base, beside) {
            return;
        }
        let share = self.share(self.path, base, beside);
        self.has_made_room |= share < self.window / 4.0 * 3.0;
        self.window = self.window.min(share);
        self.offered = self.offered.min(share);
        let in_background = beside.background.len() as f64;
        self.is_making_room = share * (in_background + 1.0) < self.path / 2.0;
    }

    fn cut(&mut self, base: Duration, small_queue: Option<Duration>, beside: &Beside) {
        let seconds = base.as_secs_f64();
        let rate = self.rate();
        let mut own = rate * seconds;
        if let (Mode::Cruise, Some(queue)) = (self.mode, small_queue) {
            // The window is more than what is on its way, by what is acknowledged late: most where it is small.
            own = own.max(self.quiet - rate * queue.as_secs_f64());
        }
        self.carried = (own + beside.total() * seconds).max(self.segment);
        let share = self.share(self.carried / 16.0 * 15.0, base, beside);
        // Who has less than the share leaves the queue to those who have more.
        let is_less = own < share / 4.0 * 3.0;
        let lower = if is_less { own } else { own / 16.0 * 15.0 };
        let lower = lower.min(share).max(self.segment);
        self.window = self.window.min(lower);
        // The queue goes on while the sender waits for this.
        self.offered = self.offered.min(own.max(self.window));
        self.arrivals.clear();
        self.go(Mode::Check);
    }

    fn lower(&mut self) {
        self.window = (self.window / 4.0).max(self.segment);
        self.offered = self.window;
    }

    /// Whether the window was lowered for others of the host that are no longer there.
    fn have_gone(&self, base: Duration, beside: &Beside) -> bool {
        self.has_made_room && self.is_alone(base, beside)
    }

    fn come_back(&mut self, base: Duration, beside: &Beside) {
        if self.have_gone(base, beside) {
            let share = self.share(self.path, base, beside);
            self.window = self.window.max(share * FREE);
        }
        self.has_made_room = false;
        self.go(Mode::Ramp);
    }

    fn grow(&mut self, at: Duration, base: Duration, beside: &Beside) {
        let share = self.share(self.path, base, beside);
        let is_shared = !self.is_alone(base, beside);
        match self.mode {
            // Where the end is not known, others that grow find it.
            Mode::Ramp if self.path == 0.0 && beside.is_growing() => {}
            Mode::Ramp => {
                let most = self.crest_window(base);
                self.window *= match self.path {
                    // No rate is known in the first looks.
                    0.0 if most > 0.0 && self.window > most => 1.25,
                    0.0 if self.is_bursty && self.window > most / 2.0 => 1.5,
                    path if path > 0.0 && self.window > share / 4.0 => 1.25,
                    _ => 2.0,
                };
                let end = share / 16.0 * 15.0;
                if self.path > 0.0 && self.window >= end {
                    self.window = end.max(self.segment);
                    self.go(Mode::Cruise);
                }
            }
            _ if self.has_made_room && (!is_shared || self.window < share / 4.0 * 3.0) => {
                self.come_back(base, beside);
            }
            _ if is_shared && self.window > share / 8.0 * 7.0 => {
                if !beside.is_growing() {
                    self.path += self.path / 64.0;
                }
                let share = self.share(self.path, base, beside);
                self.window = (self.window / 16.0 * 17.0).min(share);
            }
            _ => {
                // So much is to be in flight before its queue is more than tolerated.
                let base_s = base.as_secs_f64().max(1e-6);
                let all = self.path * (1.0 + tolerated(base).as_secs_f64() / base_s);
                self.rounds = if self.window > all {
                    self.rounds + 1
                } else {
                    0
                };
                let doublings = (self.rounds.saturating_sub(PATIENCE) / 2).min(DOUBLINGS);
                let is_back = self.window >= self.path / 8.0 * 7.0;
                let part = if at < self.rests || (is_back && doublings == 0) {
                    1.0 / 128.0
                } else {
                    // What the path has carried before is got back faster.
                    let doublings = doublings.max(u32::from(!is_back));
                    f64::from(1u32 << doublings) / 32.0
                };
                self.window += (part * self.window).max(self.segment / 2.0);
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
mod link;

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
        beside: Beside,
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
                beside: Beside::default(),
            }
        }

        /// Others of the host have taken so many bytes a second for a while.
        fn others_take(&mut self, rate: f64) {
            self.others = rate;
            self.beside.rate = rate;
            self.beside.before = rate;
        }

        fn rtt(&self) -> Duration {
            self.base + Duration::from_secs_f64(self.queue / self.rate)
        }

        /// What is known now.
        fn seen(&self) -> Seen {
            Seen {
                at: self.at,
                received: self.received as u64,
                rtt: Some(self.rtt()),
                out_of_order: 0,
                window: None,
            }
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
                let seen = self.seen();
                self.law.see(&seen, &self.beside);
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
    fn a_sender_in_bursts_fills_the_link_too_and_is_not_taken_for_others() {
        for base_ms in [20, 60, 200] {
            let outcome = link::run(base_ms, true, 0, 5_000);
            assert!(
                outcome.download > 0.93,
                "{base_ms} ms: {}",
                outcome.download
            );
            assert_eq!(outcome.yielded, Duration::ZERO, "{base_ms} ms");
        }
    }

    #[test]
    fn others_that_start_beside_it_have_nearly_what_they_would_have_alone() {
        for (base_ms, flows) in [(20, 1), (60, 1), (60, 8), (200, 1), (200, 8)] {
            let alone = link::run(base_ms, false, flows, 0).others;
            // At moments all over the download's own cycle.
            let starts = (0..24).map(|part| 6_000 + part * 131);
            let kept: Vec<f64> = starts
                .map(|start| link::run(base_ms, true, flows, start).others / alone)
                .collect();
            let mean = kept.iter().sum::<f64>() / 24.0;
            assert!(mean > 0.9, "{base_ms} ms, {flows}: {kept:.3?}");
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
    fn others_of_the_host_that_grow_have_room_before_there_is_a_queue() {
        let mut path = Path::new(100.0, 20);
        path.pass(5.0);
        path.others_take(path.rate / 5.0);
        path.beside.before = path.rate / 10.0;
        path.pass(0.01);
        assert!(
            f64::from(path.law.window()) < path.rate * 0.02 / 2.0,
            "{}",
            path.law.window()
        );
        path.others_take(path.rate);
        path.pass(0.01);
        assert_eq!(path.law.window(), SEGMENT);
        assert!(path.law.is_yielding());
        path.others_take(0.0);
        path.pass(1.0);
        let share = path.pass(2.0);
        assert!(share > 0.85, "{share}");
        assert!(!path.law.is_yielding());
    }

    #[test]
    fn a_steady_stream_beside_it_costs_about_what_that_takes() {
        for (taken, left) in [(0.04, 0.85), (0.5, 0.35)] {
            let mut path = Path::new(100.0, 20);
            path.pass(5.0);
            path.others_take(taken * path.rate);
            path.pass(5.0);
            let share = path.pass(10.0);
            assert!((left..1.0 - taken).contains(&share), "{taken}: {share}");
        }
    }

    #[test]
    fn bursts_of_others_that_come_and_go_have_room() {
        let mut path = Path::new(100.0, 200);
        path.pass(20.0);
        while path.law.mode != Mode::Cruise || path.queue > 0.0 {
            path.pass(0.01);
        }
        let before = path.law.window();
        let mut window_after = |steps: u32| {
            for _ in 0..steps {
                path.queue = path.rate * 0.01;
                path.pass(0.01);
            }
            path.queue = 0.0;
            path.pass(0.05);
            path.law.window()
        };
        // A host that stalls catches up at once.
        let window = window_after(1);
        assert!(window >= before, "{before}, {window}");
        let window = window_after(4);
        assert!(window < before / 10 * 9, "{before}, {window}");
    }

    /// The window, relative to before, after a pause of four looks and some of a queue with this part of the link.
    fn window_after_a_pause(base_ms: u64, part: f64, looks: usize) -> f64 {
        let mut path = Path::new(100.0, base_ms);
        path.pass(20.0);
        while path.law.mode != Mode::Cruise || path.law.warned > 0 {
            path.pass(0.01);
        }
        let before = f64::from(path.law.window());
        for step in 0..4 + looks {
            let (arrives, queue_ms) = if step < 4 { (0.0, 0) } else { (part, 30) };
            path.at += STEP;
            path.received += arrives * path.rate * STEP.as_secs_f64();
            let seen = Seen {
                rtt: Some(path.base + Duration::from_millis(queue_ms)),
                ..path.seen()
            };
            path.law.see(&seen, &path.beside);
        }
        f64::from(path.law.window()) / before
    }

    #[test]
    fn a_sender_that_stalls_and_then_sends_at_once_is_not_taken_for_others() {
        for (base_ms, looks) in [(200, 4), (20, 3), (60, 3)] {
            let alone = window_after_a_pause(base_ms, 1.0, looks);
            assert!(alone > 0.97, "{base_ms} ms: {alone}");
            let beside_others = window_after_a_pause(base_ms, 0.5, looks);
            assert!(beside_others < 0.9, "{base_ms} ms: {beside_others}");
        }
    }

    #[test]
    fn a_queue_is_not_judged_before_all_has_come_that_the_kernel_had_told() {
        let judged_after = |told: f64| {
            let mut path = Path::new(100.0, 200);
            path.pass(20.0);
            while path.law.mode != Mode::Check {
                path.pass(0.01);
            }
            let edge = path.received + told * path.rate * path.base.as_secs_f64();
            let began = path.at;
            while path.law.mode == Mode::Check {
                path.at += STEP;
                path.received += path.rate * STEP.as_secs_f64();
                let offered = path.received + f64::from(path.law.window());
                let seen = Seen {
                    rtt: Some(path.base + Duration::from_millis(30)),
                    window: Some((edge.max(offered) - path.received) as u32),
                    ..path.seen()
                };
                path.law.see(&seen, &path.beside);
            }
            path.at - began
        };
        // What the path carries in a round trip, and twice as much.
        let (usual, more) = (judged_after(1.0), judged_after(2.0));
        assert!(usual < Duration::from_millis(300), "{usual:?}");
        assert!(more >= Duration::from_millis(400), "{more:?}");
        // A kernel that never comes down to it is not waited for.
        let never = judged_after(100.0);
        assert!(never < Duration::from_millis(1500), "{never:?}");
    }

    #[test]
    fn who_has_less_than_the_share_leaves_a_queue_to_who_has_more() {
        let lower = |part: f64| {
            let mut path = Path::new(100.0, 20);
            path.pass(5.0);
            let law = &mut path.law;
            law.window = path.rate;
            let second = Duration::from_secs(1);
            law.arrivals = VecDeque::from([
                (Duration::ZERO, 0, 0.0),
                (second, (part * path.rate) as u64, 0.0),
            ]);
            let beside = Beside {
                background: vec![(1.0 - part) * path.rate],
                ..Beside::default()
            };
            law.cut(path.base, None, &beside);
            law.window / (part * path.rate * path.base.as_secs_f64())
        };
        assert!(lower(0.3) > 0.99, "{}", lower(0.3));
        assert!(lower(0.5) < 0.95, "{}", lower(0.5));
        assert!(lower(0.7) < 0.9, "{}", lower(0.7));
    }

    #[test]
    fn a_loss_with_a_small_queue_is_answered_at_once_and_one_without_is_not() {
        let window = |queue_ms: u64, out_of_order: u32| {
            let mut path = Path::new(100.0, 20);
            path.pass(10.0);
            while path.law.mode != Mode::Cruise || path.law.warned > 0 {
                path.pass(0.01);
            }
            let before = path.law.window();
            let seen = Seen {
                at: path.law.due,
                rtt: Some(path.base + Duration::from_millis(queue_ms)),
                out_of_order,
                ..path.seen()
            };
            path.law.see(&seen, &Beside::default()) < before
        };
        assert!(window(2, 3));
        assert!(!window(2, 0));
        assert!(!window(0, 3));
    }

    #[test]
    fn others_in_the_background_may_go_on_making_a_queue_for_two_cuts() {
        let mode_after = |cuts: u32, background: Vec<f64>| {
            let mut path = Path::new(100.0, 20);
            path.pass(5.0);
            path.beside.background = background;
            path.law.mode = Mode::Check;
            path.law.look = None;
            for _ in 0..cuts {
                let seen = Seen {
                    at: path.law.due.max(path.law.settled),
                    rtt: Some(path.base * 2),
                    ..path.seen()
                };
                path.law.see(&seen, &path.beside);
            }
            path.law.mode
        };
        assert_eq!(mode_after(1, Vec::new()), Mode::Yield);
        assert_eq!(mode_after(2, vec![5e6]), Mode::Check);
        assert_eq!(mode_after(3, vec![5e6]), Mode::Yield);
    }

    #[test]
    fn what_the_sender_does_not_use_does_not_grow() {
        let mut law = Law::new(SEGMENT);
        for step in 1..2000 {
            let seen = Seen {
                at: step * STEP,
                // 80 kbit/s.
                received: u64::from(step) * 100,
                rtt: Some(Duration::from_millis(20)),
                out_of_order: 0,
                window: None,
            };
            law.see(&seen, &Beside::default());
        }
        assert_eq!(law.window(), FIRST_SEGMENTS as u32 * SEGMENT);
    }

    #[test]
    fn a_window_that_is_not_used_stays_also_where_several_round_trips_pass_between_two_looks() {
        let mut law = Law::new(SEGMENT);
        for step in 1..2000 {
            let seen = Seen {
                at: step * STEP,
                // Half a window in each of two round trips.
                received: u64::from(step) * 10 * u64::from(SEGMENT),
                rtt: Some(Duration::from_millis(5)),
                out_of_order: 0,
                window: None,
            };
            law.see(&seen, &Beside::default());
        }
        assert_eq!(law.window(), FIRST_SEGMENTS as u32 * SEGMENT);
    }

    #[test]
    fn without_a_sample_the_window_stays_and_nothing_overflows() {
        let mut law = Law::new(0);
        law.see(&Seen::default(), &Beside::default());
        assert_eq!(law.window(), FIRST_SEGMENTS as u32);
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
                out_of_order: 0,
                window: None,
            };
            law.see(&seen, &Beside::default());
            law.see(&seen, &Beside::default());
        }
        assert!(law.window() >= 1);
    }
}
