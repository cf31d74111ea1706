//! What the other connections of the host receive, so that a download in the background need not wait for their queue.
//!
//! The bottleneck of a download is most often the link by which its host is reached, so all downloads of a host count, to
//! whomever. Those in the background are known by the priority of their sockets; they share what the rest leaves.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use fairwind_kernel::sock_diag::{Connection, Connections};
use fairwind_kernel::sockopt;

/// The priority of the sockets that are held (`SO_PRIORITY`): `TC_PRIO_FILLER` of the kernel, by which the other processes
/// of the host know them.
const PRIORITY: u32 = 1;

/// Connections are looked at no more often, and arrivals are counted over no less.
const PASSES: Duration = Duration::from_millis(50);
const SPAN_LEAST: Duration = Duration::from_millis(100);
/// Arrivals are remembered for so long: twice what they are counted over at most.
const REMEMBERED: Duration = Duration::from_secs(2);
/// A look is followed by a pause of so many times what it took.
const PAUSE: u32 = 50;
/// How far a growth that is seen will have gone on when the window shows: two more doublings, as in slow start.
const GOES_ON: f64 = 6.0;
/// What the others receive fluctuates and may grow by an eighth.
const ROOM: f64 = 1.0 / 8.0;

/// Lets the other processes of the host know that a socket is held: without that, they take it for one that is not. A
/// priority of its own is left to it.
///
/// # Errors
///
/// If this is not a socket.
pub fn mark(socket: impl AsFd) -> io::Result<()> {
    replace_priority(socket, 0, PRIORITY)
}

/// The socket is no longer held.
///
/// # Errors
///
/// As of [`mark`].
pub fn unmark(socket: impl AsFd) -> io::Result<()> {
    replace_priority(socket, PRIORITY, 0)
}

fn replace_priority(socket: impl AsFd, from: u32, to: u32) -> io::Result<()> {
    match sockopt::priority(&socket)? == from {
        true => sockopt::set_priority(&socket, to),
        false => Ok(()),
    }
}

/// What a connection has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The kernel's number of its socket, never reused.
    pub cookie: u64,
    /// Bytes so far.
    pub bytes: u64,
    /// Packets that came out of order so far.
    pub out_of_order: u32,
    /// The priority of its socket (`SO_PRIORITY`), or the class of its control group.
    pub priority: u32,
    /// Whether both ends have the same address.
    pub is_within_host: bool,
}

impl From<Connection> for Arrived {
    fn from(connection: Connection) -> Arrived {
        Arrived {
            cookie: connection.cookie,
            bytes: connection.info.tcpi_bytes_received,
            out_of_order: connection.info.out_of_order().unwrap_or(0),
            priority: connection.priority,
            is_within_host: connection.local.ip() == connection.remote.ip(),
        }
    }
}

impl Arrived {
    /// What the connections of the calling thread's network namespace have received.
    ///
    /// # Errors
    ///
    /// If the kernel cannot list them.
    pub fn list() -> io::Result<Vec<Arrived>> {
        let connections = Connections::open()?.list(0)?;
        Ok(connections.into_iter().map(Arrived::from).collect())
    }
}

/// What others receive beside a connection, bytes a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    /// Those not in the background together, in the latest span and in that before.
    pub rate: f64,
    /// As above.
    pub before: f64,
    /// Each other connection in the background.
    pub background: Vec<f64>,
}

impl Beside {
    /// All together.
    pub fn total(&self) -> f64 {
        self.rate + self.background.iter().sum::<f64>()
    }

    /// Whether others in the background take more than those that are not.
    pub fn is_shared(&self) -> bool {
        self.background.iter().sum::<f64>() > self.rate
    }

    /// By how much more than fluctuations those not in the background have grown.
    fn growth(&self) -> f64 {
        (self.rate * (1.0 - ROOM) - self.before).max(0.0)
    }

    /// Whether those not in the background take more than before.
    pub fn is_growing(&self) -> bool {
        self.growth() > 0.0
    }

    /// What those not in the background are to have: what they take and room to grow.
    fn wanted(&self) -> f64 {
        self.rate * (1.0 + ROOM) + GOES_ON * self.growth()
    }

    /// The connection's part of a path of this rate: what the others leave, divided equally among those in the background,
    /// but for what some of them do not take.
    pub fn share(&self, path: f64) -> f64 {
        let mut left = (path - self.wanted()).max(0.0);
        let mut rates = self.background.clone();
        rates.sort_by(f64::total_cmp);
        for (before, rate) in rates.iter().enumerate() {
            let equal = left / (rates.len() - before + 1) as f64;
            let wanted = rate * (1.0 + ROOM);
            if wanted >= equal {
                return equal;
            }
            left -= wanted;
        }
        left
    }
}

#[derive(Debug)]
struct Pass {
    at: Duration,
    /// Bytes to connections not in the background so far, and to each in the background, by its cookie.
    others: u64,
    background: HashMap<u64, u64>,
}

/// What the connections of a host have received lately.
#[derive(Debug, Default)]
pub struct Neighbours {
    passes: VecDeque<Pass>,
    /// Bytes to each connection until the latest pass, and packets out of order.
    seen: HashMap<u64, (u64, u32)>,
    others: u64,
    due: Duration,
}

impl Neighbours {
    /// Takes in what connections have received by this moment.
    pub fn take(&mut self, at: Duration, arrived: &[Arrived]) {
        let is_first = self.passes.is_empty();
        let mut background = HashMap::new();
        let mut seen = HashMap::with_capacity(arrived.len());
        for connection in arrived
            .iter()
            .filter(|connection| !connection.is_within_host)
        {
            let cookie = connection.cookie;
            seen.insert(cookie, (connection.bytes, connection.out_of_order));
            if connection.priority == PRIORITY {
                background.insert(cookie, connection.bytes);
                continue;
            }
            // What a new connection has received came since the pass before.
            let unseen = if is_first { connection.bytes } else { 0 };
            let before = self.seen.get(&cookie).map_or(unseen, |(bytes, _)| *bytes);
            self.others += connection.bytes.saturating_sub(before);
        }
        self.seen = seen;
        self.passes.push_back(Pass {
            at,
            others: self.others,
            background,
        });
        while self.passes.len() > 2 && self.passes[1].at + REMEMBERED < at {
            self.passes.pop_front();
        }
    }

    /// Asks the kernel about the connections of this network namespace if it is time to; `now` is since any moment.
    ///
    /// # Errors
    ///
    /// If it cannot list them.
    pub fn look(&mut self, now: Duration) -> io::Result<()> {
        self.look_by(now, Arrived::list)
    }

    /// The same of those that the call lists.
    ///
    /// # Errors
    ///
    /// Of the call.
    pub fn look_by<E>(
        &mut self,
        now: Duration,
        list: impl FnOnce() -> Result<Vec<Arrived>, E>,
    ) -> Result<(), E> {
        if now < self.due {
            return Ok(());
        }
        let began = fairwind_kernel::monotonic_ns();
        let listed = list();
        let took = Duration::from_nanos(fairwind_kernel::monotonic_ns() - began);
        self.due = now + (took * PAUSE).max(PASSES);
        self.take(now, &listed?);
        Ok(())
    }

    /// Packets that have come out of order on the connection with this cookie.
    pub fn out_of_order(&self, cookie: u64) -> u32 {
        self.seen.get(&cookie).map_or(0, |(_, packets)| *packets)
    }

    /// What is received beside the connection with this cookie, counted over this round-trip time at least.
    pub fn beside(&self, cookie: u64, rtt: Duration) -> Beside {
        let span = rtt.clamp(SPAN_LEAST, REMEMBERED / 2);
        let Some(latest) = self.passes.back() else {
            return Beside::default();
        };
        let at = |ago: Duration| {
            let mut passes = self.passes.iter().rev();
            let found = passes.find(|pass| pass.at + ago <= latest.at);
            found.or(self.passes.front()).unwrap_or(latest)
        };
        let rate = |from: &Pass, to: &Pass, before: u64, after: u64| {
            let seconds = to.at.saturating_sub(from.at).as_secs_f64();
            let bytes = after.saturating_sub(before) as f64;
            if seconds > 0.0 { bytes / seconds } else { 0.0 }
        };
        let (middle, first) = (at(span), at(2 * span));
        let latest_rate = rate(middle, latest, middle.others, latest.others);
        let is_known_before = first.at < middle.at;
        let background = latest.background.iter();
        let background = background.filter(|(other, _)| **other != cookie);
        Beside {
            rate: latest_rate,
            before: if is_known_before {
                rate(first, middle, first.others, middle.others)
            } else {
                latest_rate
            },
            background: background
                .map(|(other, bytes)| {
                    let before = middle.background.get(other).copied();
                    rate(middle, latest, before.unwrap_or(*bytes), *bytes)
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn arrived(cookie: u64, bytes: u64, priority: u32) -> Arrived {
        Arrived {
            cookie,
            bytes,
            out_of_order: 0,
            priority,
            is_within_host: false,
        }
    }

    #[test]
    fn rates_are_those_of_the_latest_span_and_the_one_before() {
        let mut neighbours = Neighbours::default();
        for pass in 0..9u64 {
            let within = Arrived {
                is_within_host: true,
                ..arrived(4, pass << 30, 0)
            };
            let mut connections = vec![
                arrived(1, 7_000_000 + 5_000 * pass, PRIORITY),
                arrived(2, 9_000_000 + 1_000 * pass, PRIORITY),
                arrived(3, 1_000_000 + 2_000 * pass, 0),
                within,
            ];
            // New in the last span.
            if pass >= 7 {
                connections.push(arrived(5, 10_000 * (pass - 6), 0));
            }
            neighbours.take(Duration::from_millis(50 * pass), &connections);
        }
        let beside = neighbours.beside(1, Duration::from_millis(5));
        assert_eq!(beside.rate, 240_000.0);
        assert_eq!(beside.before, 40_000.0);
        assert_eq!(beside.background, [20_000.0]);
        assert!(beside.is_growing());
        assert!(!neighbours.beside(1, Duration::from_secs(9)).is_growing());
    }

    #[test]
    fn a_steady_stream_costs_about_its_share_and_a_growing_one_all() {
        let mut beside = Beside {
            rate: 4.0,
            before: 4.0,
            background: Vec::new(),
        };
        assert_eq!(beside.share(100.0), 95.5);
        beside.rate = 20.0;
        assert_eq!(beside.share(100.0), 0.0);
        assert_eq!(Beside::default().share(100.0), 100.0);
    }

    #[test]
    fn those_in_the_background_have_equal_shares_but_for_what_they_do_not_take() {
        let share = |background: &[f64]| {
            let background = background.to_vec();
            let beside = Beside {
                background,
                ..Beside::default()
            };
            beside.share(90.0)
        };
        assert_eq!(share(&[40.0]), 45.0);
        assert_eq!(share(&[80.0]), 45.0);
        assert_eq!(share(&[16.0]), 72.0);
        assert_eq!(share(&[80.0, 16.0]), 36.0);
        assert_eq!(share(&[8.0, 16.0]), 63.0);
    }

    #[test]
    fn a_held_socket_is_marked_unless_it_has_a_priority_of_its_own() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let priority = || sockopt::priority(&socket).unwrap();
        mark(&socket).unwrap();
        assert_eq!(priority(), 1);
        unmark(&socket).unwrap();
        assert_eq!(priority(), 0);
        sockopt::set_priority(&socket, 4).unwrap();
        mark(&socket).unwrap();
        assert_eq!(priority(), 4);
        unmark(&socket).unwrap();
        assert_eq!(priority(), 4);
    }

    #[test]
    fn the_kernel_is_asked_no_more_often_than_is_cheap() {
        let mut neighbours = Neighbours::default();
        let mut asked = 0;
        for ms in 0..100 {
            let list = || {
                asked += 1;
                Ok::<_, ()>(Vec::new())
            };
            neighbours.look_by(Duration::from_millis(ms), list).unwrap();
        }
        assert_eq!(asked, 2);
    }
}
