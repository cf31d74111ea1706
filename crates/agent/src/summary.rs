//! What the connections of a command did, from the tracer's events.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;

use fairwind_cc::kernel::object;
use fairwind_trace::control_state::{ControlState, StateField};
use fairwind_trace::event::{Event, Sample, State};
use serde::{Deserialize, Serialize};

use crate::attach::Counts;
use crate::hold::Hold;

/// The control that yields to others, and the column of its state that says so.
const YIELDS: &str = "fairwind";
const MODE: &str = "fairwind_mode";
/// `YIELD` and `TRAIN` of `enum mode` in `cc/fairwind.c`.
const YIELDING: [i64; 2] = [3, 4];

/// Most connections that are told one by one.
const LISTED: usize = 1 << 12;

/// A connection from its first event on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Connection {
    /// Address and port of this host.
    pub local: SocketAddr,
    /// Those of the peer.
    pub remote: SocketAddr,
    /// Whether the peer opened it.
    pub incoming: bool,
    /// The name of its process, at most 15 bytes.
    pub program: String,
    /// The congestion control that it had last, by the kernel's name.
    pub congestion_control: String,
    /// From when it was first seen to its last event, seconds; `None` if it was closed when it was first seen.
    pub seconds: Option<f64>,
    /// Bytes that the peer has acknowledged.
    pub bytes_sent: u64,
    /// Bytes that have come.
    pub bytes_received: u64,
    /// Of all bytes sent, the share that was sent again.
    pub retransmitted: f64,
    /// Least round-trip time, ms; `None` without a sample.
    pub min_rtt_ms: Option<f64>,
    /// Time during which it has yielded to others, seconds; `None` if its control does not tell.
    pub yielded_seconds: Option<f64>,
    /// Whether it is closed.
    pub closed: bool,
}

/// A connection while its events come.
#[derive(Debug)]
struct Watched {
    connection: Connection,
    opened_ns: u64,
    latest_ns: u64,
    yielded_ns: u64,
    /// Whether its control's state says when it yields.
    tells: bool,
    is_yielding: Option<bool>,
}

impl Connection {
    /// One of which nothing but its ends is known yet.
    pub(crate) fn new(local: SocketAddr, remote: SocketAddr, incoming: bool) -> Connection {
        Connection {
            local,
            remote,
            incoming,
            program: String::new(),
            congestion_control: String::new(),
            seconds: None,
            bytes_sent: 0,
            bytes_received: 0,
            retransmitted: 0.0,
            min_rtt_ms: None,
            yielded_seconds: None,
            closed: false,
        }
    }
}

/// The connections of a command while their events come.
#[derive(Debug)]
pub struct Watch {
    state: Option<ControlState>,
    connections: BTreeMap<u64, Watched>,
    /// Those of them that are closed, in the order of their ends.
    closed: VecDeque<u64>,
    unlisted: Unlisted,
    /// How many of them yield now.
    yielding: usize,
    /// For how long any of them has yielded, up to `latest_ns`; none while no control tells.
    yielded_ns: Option<u64>,
    latest_ns: u64,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch::new()
    }
}

impl Watch {
    /// Without connections.
    pub fn new() -> Watch {
        let state = object(YIELDS).and_then(|bytes| ControlState::of_object(YIELDS, bytes).ok());
        Watch {
            state,
            connections: BTreeMap::new(),
            closed: VecDeque::new(),
            unlisted: Unlisted::default(),
            yielding: 0,
            yielded_ns: None,
            latest_ns: 0,
        }
    }

    /// Takes an event in. With `hold`, who offers little because of others yields, too.
    pub fn event(&mut self, event: &Event<'_>, hold: Option<&Hold>) {
        let head = event.head();
        self.advance(head.time_ns);
        if let Event::Open(identity) | Event::Identity(identity) = event {
            if !self.connections.contains_key(&head.id) && !self.make_room() {
                return;
            }
            let watched = self.connections.entry(head.id).or_insert_with(|| Watched {
                connection: Connection::new(
                    identity.local(),
                    identity.remote(),
                    identity.is_incoming(),
                ),
                opened_ns: head.time_ns,
                latest_ns: head.time_ns,
                yielded_ns: 0,
                tells: false,
                is_yielding: None,
            });
            watched.connection.local = identity.local();
            watched.connection.program = identity.program();
            return;
        }
        let Some(watched) = self.connections.get_mut(&head.id) else {
            if let Event::Close(sample, _) = event {
                let share = retransmitted(sample);
                let (sent, received) = (sample.bytes_acked, sample.bytes_received);
                self.unlisted.add(sent, received, share);
            }
            return;
        };
        match event {
            Event::Open(_) | Event::Identity(_) => {}
            Event::Control(control) => {
                let name = control.name();
                watched.tells = ControlState::position(self.state.as_slice(), &name).is_some();
                watched.connection.congestion_control = name;
            }
            Event::Sample(sample, state) | Event::Close(sample, state) => {
                let mode = mode(&self.state).filter(|_| watched.tells).zip(*state);
                let is_held = hold.map(|hold| hold.is_yielding(head.id));
                self.yielding -= usize::from(watched.yields());
                watched.sample(sample, mode, is_held);
                watched.connection.closed = matches!(event, Event::Close(..));
                self.yielding += usize::from(watched.yields());
                if watched.is_yielding.is_some() {
                    self.yielded_ns.get_or_insert(0);
                }
                if watched.connection.closed {
                    self.closed.push_back(head.id);
                }
            }
        }
    }

    /// Whether one more connection can be listed. If not, it may still be summed when it is closed.
    fn make_room(&mut self) -> bool {
        if self.connections.len() < LISTED {
            return true;
        }
        let ended = self.closed.pop_front();
        let Some(Watched { connection, .. }) = ended.and_then(|id| self.connections.remove(&id))
        else {
            return false;
        };
        let (sent, received) = (connection.bytes_sent, connection.bytes_received);
        self.unlisted.add(sent, received, connection.retransmitted);
        true
    }

    /// Others may have been yielded to until now.
    fn advance(&mut self, now_ns: u64) {
        let since_ns = now_ns.saturating_sub(self.latest_ns);
        if let Some(yielded_ns) = &mut self.yielded_ns
            && self.yielding > 0
        {
            *yielded_ns += since_ns;
        }
        self.latest_ns = self.latest_ns.max(now_ns);
    }

    /// What has been seen.
    pub fn summary(self, given: Option<&str>, counts: Counts, seconds: f64) -> Summary {
        let connections = self.connections.into_values().map(Watched::connection);
        Summary {
            means: Means::Rights,
            left_out: Vec::new(),
            yielded_seconds: self.yielded_ns.map(|ns| ns as f64 / 1e9),
            congestion_control: given.map(str::to_owned),
            seconds,
            advised: None,
            counts,
            connections: connections.collect(),
            unlisted: self.unlisted,
        }
    }
}

/// The share of all bytes sent that was sent again.
fn retransmitted(sample: &Sample) -> f64 {
    match sample.bytes_sent {
        0 => 0.0,
        all => sample.bytes_retrans as f64 / all as f64,
    }
}

impl Watched {
    /// Whether it yields to others now.
    fn yields(&self) -> bool {
        self.is_yielding == Some(true) && !self.connection.closed
    }

    fn sample(
        &mut self,
        sample: &Sample,
        mode: Option<(&StateField, &State)>,
        is_held: Option<bool>,
    ) {
        let now_ns = sample.head.time_ns;
        let since_ns = now_ns.saturating_sub(self.latest_ns);
        if self.is_yielding == Some(true) {
            self.yielded_ns += since_ns;
        }
        self.latest_ns = now_ns;
        let yields = mode.map(|(field, state)| YIELDING.contains(&field.value(state)));
        if yields.is_some() || is_held.is_some() {
            self.is_yielding = Some(yields == Some(true) || is_held == Some(true));
        }
        let connection = &mut self.connection;
        connection.bytes_sent = sample.bytes_acked;
        connection.bytes_received = sample.bytes_received;
        connection.retransmitted = retransmitted(sample);
        // All ones before the first sample.
        connection.min_rtt_ms = (1..u32::MAX)
            .contains(&sample.min_rtt_us)
            .then(|| f64::from(sample.min_rtt_us) / 1e3);
    }

    fn connection(self) -> Connection {
        let seconds = |ns: u64| ns as f64 / 1e9;
        Connection {
            seconds: Some(seconds(self.latest_ns.saturating_sub(self.opened_ns))),
            yielded_seconds: self.is_yielding.map(|_| seconds(self.yielded_ns)),
            ..self.connection
        }
    }
}

/// The field that says whether the connection yields.
fn mode(state: &Option<ControlState>) -> Option<&StateField> {
    let mut fields = state.iter().flat_map(|state| &state.fields);
    fields.find(|field| field.column == MODE)
}

/// By what means the connections were taken care of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Means {
    /// By eBPF, with rights of `fairwind run` itself.
    #[default]
    Rights,
    /// By an agent, which has the rights.
    Agent,
    /// By the options of the command's sockets, without rights.
    Sockets,
}

/// What the connections of a command did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// By what means they were taken care of.
    #[serde(default)]
    pub means: Means,
    /// What they were not given although it was wanted, and why.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// The control that they were given, by the kernel's name; `None` if they kept theirs.
    pub congestion_control: Option<String>,
    /// How long the command ran.
    pub seconds: f64,
    /// Time during which any connection has yielded to others, seconds; `None` if no control tells.
    pub yielded_seconds: Option<f64>,
    /// Connections that followed advice; `None` if nobody tells.
    #[serde(default)]
    pub advised: Option<u64>,
    /// What became of them.
    #[serde(flatten)]
    pub counts: Counts,
    /// Each of them, in the order of their opening; of many, not those that were closed first.
    pub connections: Vec<Connection>,
    /// The others.
    #[serde(default)]
    pub unlisted: Unlisted,
}

/// Sums of connections that are not listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unlisted {
    /// How many there were.
    pub connections: u64,
    /// Bytes that their peers have acknowledged.
    pub bytes_sent: u64,
    /// Bytes that have come.
    pub bytes_received: u64,
    /// Of all bytes sent, the share that was sent again.
    pub retransmitted: f64,
}

impl Unlisted {
    fn add(&mut self, sent: u64, received: u64, retransmitted: f64) {
        let again = self.retransmitted * self.bytes_sent as f64 + retransmitted * sent as f64;
        self.connections += 1;
        self.bytes_sent += sent;
        self.bytes_received += received;
        self.retransmitted = again / self.bytes_sent.max(1) as f64;
    }
}

impl Summary {
    /// Bytes sent and received by all.
    pub fn bytes(&self) -> (u64, u64) {
        let sum = |of: fn(&Connection) -> u64| self.connections.iter().map(of).sum::<u64>();
        (
            sum(|one| one.bytes_sent) + self.unlisted.bytes_sent,
            sum(|one| one.bytes_received) + self.unlisted.bytes_received,
        )
    }
}

/// Bytes as people write them.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    match unit {
        "bytes" => format!("{bytes} bytes"),
        _ => format!("{value:.1} {unit}"),
    }
}

fn count(number: u64, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

/// A paragraph.
impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = self.connections.len() as u64 + self.unlisted.connections;
        write!(out, "{}", count(connections, "connection", "connections"))?;
        if connections > 0 {
            let (sent, received) = self.bytes();
            let rate = |bytes: u64| bytes as f64 * 8.0 / 1e6 / self.seconds.max(1e-3);
            write!(
                out,
                ": {} sent ({:.1} Mbit/s) and {} received ({:.1} Mbit/s) in {:.1} s",
                bytes(sent),
                rate(sent),
                bytes(received),
                rate(received),
                self.seconds
            )?;
            let again = self
                .connections
                .iter()
                .map(|one| one.retransmitted * one.bytes_sent as f64);
            let unlisted = self.unlisted.retransmitted * self.unlisted.bytes_sent as f64;
            let again = (again.sum::<f64>() + unlisted) / sent.max(1) as f64;
            write!(
                out,
                "; {:.2} % of what was sent had to be sent again",
                100.0 * again
            )?;
        }
        if let Some(yielded) = self.yielded_seconds {
            write!(out, "; yielded to others for {yielded:.1} s")?;
        }
        if let Some(advised) = self.advised {
            let who = count(advised, "connection has", "connections have");
            write!(out, "; {who} followed the advisor")?;
        }
        let Counts {
            own,
            refused,
            ignored,
            ..
        } = self.counts;
        let advised = self.advised.map(|_| "the advised one");
        let wanted = self.congestion_control.as_deref().or(advised);
        if let (Some(control), 1..) = (wanted, own) {
            let who = count(own, "connection keeps", "connections keep");
            write!(
                out,
                "\n{who} the congestion control that the program has chosen, and not {control} (--force)"
            )?;
        }
        if refused > 0 {
            let who = count(refused, "connection", "connections");
            write!(
                out,
                "\nthe kernel has refused the congestion control of {who}"
            )?;
        }
        if ignored > 0 {
            let calls = count(ignored, "attempt", "attempts");
            write!(
                out,
                "\n{calls} of the program to choose another congestion control had no effect"
            )?;
        }
        match self.means {
            Means::Rights => {}
            Means::Agent => write!(out, "\ntaken care of by the agent")?,
            Means::Sockets => write!(
                out,
                "\ntaken care of without rights, by the options of sockets"
            )?,
        }
        if !self.left_out.is_empty() {
            write!(out, "\nleft out: {}", self.left_out.join("; "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fairwind_trace::event::{Identity, STATE_BYTES};

    use super::*;

    fn connection(bytes_sent: u64, yielded_seconds: Option<f64>) -> Connection {
        Connection {
            local: "10.0.0.1:40000".parse().unwrap(),
            remote: "10.0.0.2:21".parse().unwrap(),
            incoming: false,
            program: "rsync".to_owned(),
            congestion_control: "fw_fairwind".to_owned(),
            seconds: Some(10.0),
            bytes_sent,
            bytes_received: 500,
            retransmitted: 0.01,
            min_rtt_ms: Some(20.0),
            yielded_seconds,
            closed: true,
        }
    }

    #[test]
    fn a_paragraph_says_what_the_connections_did() {
        let summary = Summary {
            means: Means::Rights,
            left_out: Vec::new(),
            congestion_control: Some("fw_fairwind".to_owned()),
            seconds: 10.0,
            yielded_seconds: Some(2.5),
            advised: None,
            counts: Counts::default(),
            connections: vec![connection(12_500_000, Some(2.5)), connection(0, None)],
            unlisted: Unlisted::default(),
        };
        assert_eq!(
            summary.to_string(),
            "2 connections: 12.5 MB sent (10.0 Mbit/s) and 1.0 kB received (0.0 Mbit/s) in 10.0 s; \
             1.00 % of what was sent had to be sent again; yielded to others for 2.5 s"
        );
    }

    #[test]
    fn what_was_left_out_is_said() {
        let summary = Summary {
            means: Means::Sockets,
            left_out: vec!["advice".to_owned(), "io_uring".to_owned()],
            congestion_control: Some("bbr".to_owned()),
            seconds: 1.0,
            yielded_seconds: None,
            advised: Some(1),
            counts: Counts {
                given: 3,
                own: 1,
                refused: 2,
                ignored: 0,
            },
            connections: Vec::new(),
            unlisted: Unlisted::default(),
        };
        assert_eq!(
            summary.to_string(),
            "0 connections; 1 connection has followed the advisor\n1 connection keeps the congestion control that the program has chosen, and not bbr (--force)\n\
             the kernel has refused the congestion control of 2 connections\n\
             taken care of without rights, by the options of sockets\nleft out: advice; io_uring"
        );
    }

    fn open(watch: &mut Watch, id: u64) {
        let mut identity = Identity::default();
        identity.head.id = id;
        watch.event(&Event::Open(&identity), None);
    }

    fn close(watch: &mut Watch, id: u64, time_ns: u64) {
        let mut sample = Sample::default();
        (sample.head.id, sample.head.time_ns) = (id, time_ns);
        (sample.bytes_acked, sample.bytes_sent) = (1000, 1000);
        (sample.bytes_received, sample.bytes_retrans) = (10, 100);
        watch.event(&Event::Close(&sample, None), None);
    }

    #[test]
    fn of_many_connections_the_latest_are_listed_and_the_others_summed() {
        let mut watch = Watch::new();
        for id in 0..10_000 {
            open(&mut watch, id);
            close(&mut watch, id, id);
            assert!(watch.connections.len() <= LISTED && watch.closed.len() <= LISTED);
        }
        let summary = watch.summary(None, Counts::default(), 8.0);
        assert_eq!(summary.connections.len(), 4096);
        assert_eq!(summary.unlisted.connections, 5904);
        assert_eq!(summary.bytes(), (10_000_000, 100_000));
        assert_eq!(
            summary.to_string(),
            "10000 connections: 10.0 MB sent (10.0 Mbit/s) and 100.0 kB received (0.1 Mbit/s) in 8.0 s; \
             10.00 % of what was sent had to be sent again"
        );
    }

    #[test]
    fn more_open_connections_than_are_listed_are_summed_when_they_are_closed() {
        let mut watch = Watch::new();
        for id in 0..5000 {
            open(&mut watch, id);
        }
        assert_eq!(watch.connections.len(), LISTED);
        for id in 0..5000 {
            close(&mut watch, id, id);
        }
        let summary = watch.summary(None, Counts::default(), 8.0);
        assert_eq!(summary.connections.len(), 4096);
        assert_eq!(summary.unlisted.connections, 904);
        assert_eq!(summary.bytes(), (5_000_000, 50_000));
    }

    /// A sample of a connection with the control that yields, which does so at that moment or not.
    fn sample(watch: &mut Watch, id: u64, time_s: u64, yields: bool) {
        let state = |bit: usize| {
            let mut state = [0; STATE_BYTES];
            state[bit / 8] = u8::from(yields) << (bit % 8);
            state
        };
        let field = mode(&watch.state).unwrap();
        let wanted = if yields { YIELDING[1] } else { 0 };
        let mut states = (0..8 * STATE_BYTES).map(state);
        let state = states.find(|state| field.value(state) == wanted).unwrap();
        watch.connections.get_mut(&id).unwrap().tells = true;
        let mut sample = Sample::default();
        (sample.head.id, sample.head.time_ns) = (id, time_s * SECOND);
        watch.event(&Event::Sample(&sample, Some(&state)), None);
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_closed_connection_yields_no_longer() {
        let mut watch = Watch::new();
        open(&mut watch, 1);
        open(&mut watch, 2);
        sample(&mut watch, 1, 0, true);
        close(&mut watch, 1, 2 * SECOND);
        close(&mut watch, 2, 5 * SECOND);
        let summary = watch.summary(None, Counts::default(), 5.0);
        assert_eq!(summary.yielded_seconds, Some(2.0));
    }

    #[test]
    fn time_in_which_several_yield_counts_once() {
        let mut watch = Watch::new();
        open(&mut watch, 1);
        open(&mut watch, 2);
        sample(&mut watch, 1, 1, true);
        sample(&mut watch, 2, 2, true);
        sample(&mut watch, 1, 3, false);
        sample(&mut watch, 2, 4, false);
        sample(&mut watch, 1, 6, true);
        sample(&mut watch, 1, 7, true);
        close(&mut watch, 1, 8 * SECOND);
        close(&mut watch, 2, 9 * SECOND);
        let summary = watch.summary(None, Counts::default(), 9.0);
        assert_eq!(summary.yielded_seconds, Some(5.0));
        let of_each = summary.connections.iter().map(|one| one.yielded_seconds);
        assert_eq!(of_each.collect::<Vec<_>>(), [Some(4.0), Some(2.0)]);
    }

    #[test]
    fn the_mode_of_the_control_is_found_in_its_state() {
        let watch = Watch::new();
        assert!(mode(&watch.state).is_some());
        assert_eq!(
            ControlState::position(watch.state.as_slice(), "fw_fairwin_1a2b"),
            Some(0)
        );
    }
}
