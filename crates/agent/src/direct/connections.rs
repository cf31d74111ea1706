//! What is known of the command's connections.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_kernel::sock_diag;
use fairwind_kernel::{Process, TcpInfo};
use fairwind_transfer::advised::Lent;
use fairwind_transfer::background::Law;

use super::plan::Plan;
use super::socket::{Given, Taken};
use crate::attach::Counts;
use crate::summary::{Connection, Means, Summary, Unlisted};

/// The states in which a connection is not there yet, or not any more (include/net/tcp_states.h).
const SYN_SENT: u8 = 2;
const CLOSE: u8 = 7;

/// The kernel may tell of the end of a connection by so much later than of that of the socket that has accepted it.
const LATE: Duration = Duration::from_secs(1);

/// A process and its descriptor by which a connection can be reached.
pub(super) type Holder = (Arc<Process>, RawFd);

/// A connection.
#[derive(Debug)]
pub(super) struct One {
    pub told: Connection,
    pub inode: u64,
    /// None where it is unknown, and none any more once no process has it, or it is not looked at again: each takes a
    /// descriptor of this process.
    pub holder: Option<Holder>,
    pub given: Given,
    /// If it is held down.
    pub law: Option<Law>,
    /// If it follows advice.
    pub lent: Option<Lent>,
    /// Whether it had followed advice when it was closed.
    has_followed: bool,
    /// Bytes received at the latest look, and when a look has last found more.
    pub received: u64,
    pub latest: Instant,
    opened: Instant,
    has_begun: bool,
    /// When it is looked at next.
    due: Option<Instant>,
}

/// A connection before its SYN.
#[derive(Debug)]
pub(super) struct Opening {
    pub given: Given,
    pub lent: Option<Lent>,
    pub control: String,
    pub program: String,
}

impl One {
    /// Its socket; none where it is unknown who has it.
    pub(super) fn socket(&self) -> Option<Taken> {
        let (process, descriptor) = self.holder.as_ref()?;
        let socket = Taken::from(process, *descriptor).ok()?;
        let is_it = socket.inode().is_ok_and(|inode| inode == self.inode);
        is_it.then_some(socket)
    }
}

/// A socket that waits for connections.
#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    given: Given,
    control: String,
    program: String,
    /// When it was closed.
    closed: Option<Instant>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// By their cookies.
    known: HashMap<u64, One>,
    /// Cookies, in the order of the connections' opening.
    order: Vec<u64>,
    listening: HashMap<u64, Listening>,
    /// Sockets whose program has chosen their congestion control.
    chosen: HashSet<u64>,
    /// The congestion controls that programs have last asked for, while it is not known whether the kernel gave them.
    asked_for: HashMap<u64, String>,
    /// When to look at which.
    due: BTreeSet<(Instant, u64)>,
    /// Calls by which a program would have chosen another control.
    pub ignored: u64,
    /// Connections of Multipath TCP.
    pub multipath: u64,
    /// Programs that let nobody take their descriptors.
    pub guarded: BTreeSet<String>,
    /// Whether a program opens connections by io_uring, maybe.
    pub uses_io_uring: bool,
    /// Those that yield to others now.
    yielding: HashSet<u64>,
    /// When any of them has yielded.
    pub yielded: Duration,
}

impl Connections {
    /// The program of a socket asks for a congestion control, whose name may be unknown.
    pub(super) fn asks_for(&mut self, name: Option<String>, cookie: u64) {
        match name {
            Some(name) => {
                self.asked_for.insert(cookie, name);
            }
            None => {
                self.chosen.insert(cookie);
            }
        }
    }

    /// Whether the program of a socket, which has this congestion control, has been given one that it had asked for.
    pub(super) fn has_chosen(&mut self, cookie: u64, control: &str) -> bool {
        // Until it has it, the call may be under way.
        if self
            .asked_for
            .get(&cookie)
            .is_some_and(|name| name == control)
        {
            self.asked_for.remove(&cookie);
            self.chosen.insert(cookie);
        }
        self.chosen.contains(&cookie)
    }

    /// The socket is given this congestion control: if that is what its program has asked for, it was not by that.
    pub(super) fn is_given(&mut self, cookie: u64, control: &str) {
        if self
            .asked_for
            .get(&cookie)
            .is_some_and(|name| name == control)
        {
            self.asked_for.remove(&cookie);
        }
    }

    /// A socket begins to listen.
    pub(super) fn listens(
        &mut self,
        cookie: u64,
        address: Option<SocketAddr>,
        given: Given,
        control: &str,
        program: String,
    ) {
        if let Some(address) = address {
            let listening = Listening {
                address,
                given,
                control: control.to_owned(),
                program,
                closed: None,
            };
            self.listening.insert(cookie, listening);
        }
    }

    /// The ports at which sockets listen.
    pub(super) fn ports(&self) -> BTreeSet<u16> {
        let ports = self.listening.values().map(|one| one.address.port());
        ports.filter(|port| *port > 0).collect()
    }

    /// A socket is about to connect. It may have tried before.
    pub(super) fn opens(&mut self, cookie: u64, inode: u64, holder: Holder, opening: Opening) {
        let Opening {
            given,
            lent,
            control,
            program,
        } = opening;
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        self.add(
            cookie,
            inode,
            given,
            told(unknown, unknown, control, program, false),
        );
        let one = self.known.get_mut(&cookie).expect("it has been added");
        one.holder = Some(holder);
        one.given = given;
        one.lent = lent;
    }

    /// What it is as advice has left it, until it opens.
    pub(super) fn take_lent(&mut self, cookie: u64) -> Option<(Lent, Given)> {
        let one = self.known.get_mut(&cookie)?;
        Some((one.lent.take()?, one.given))
    }

    /// It is not looked at again.
    pub(super) fn let_go(&mut self, cookie: u64) {
        if let Some(one) = self.known.get_mut(&cookie) {
            one.holder = None;
        }
    }

    /// Lets it be looked at then, and not before.
    pub(super) fn schedule(&mut self, at: Instant, cookie: u64) {
        let Some(one) = self.known.get_mut(&cookie) else {
            return;
        };
        if let Some(before) = one.due.replace(at) {
            self.due.remove(&(before, cookie));
        }
        self.due.insert((at, cookie));
    }

    /// When the next one is to be looked at.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The next one to be looked at by now.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<u64> {
        let (due, cookie) = *self.due.first()?;
        if due > now {
            return None;
        }
        self.due.pop_first();
        if let Some(one) = self.known.get_mut(&cookie) {
            one.due = None;
        }
        Some(cookie)
    }

    /// Lets none be looked at.
    pub(super) fn rest(&mut self) {
        self.due.clear();
    }

    fn add(&mut self, cookie: u64, inode: u64, given: Given, told: Connection) {
        let order = &mut self.order;
        self.known.entry(cookie).or_insert_with(|| {
            order.push(cookie);
            One {
                told,
                inode,
                holder: None,
                given,
                law: None,
                lent: None,
                has_followed: false,
                received: 0,
                latest: Instant::now(),
                opened: Instant::now(),
                has_begun: false,
                due: None,
            }
        });
    }

    /// A connection as the kernel reports it. Returns whether a process has just come to have it, by accepting it.
    pub(super) fn reported(&mut self, report: &sock_diag::Connection, is_closed: bool) -> bool {
        if !self.known.contains_key(&report.cookie) {
            let Some(listening) = self.listening_for(report.local) else {
                return false;
            };
            let (control, program) = (listening.control.clone(), listening.program.clone());
            let given = listening.given;
            let mut told = told(report.local, report.remote, control, program, true);
            // How long it was there is unknown then.
            told.closed = is_closed;
            self.add(report.cookie, 0, given, told);
        }
        let one = self.known.get_mut(&report.cookie).expect("it is known");
        // A closed one may have released its port.
        if report.local.port() > 0 {
            one.told.local = report.local;
        }
        if report.remote.port() > 0 {
            one.told.remote = report.remote;
        }
        one.see(&report.info);
        if is_closed {
            one.close();
            self.yielding.remove(&report.cookie);
        }
        let is_accepted = one.inode == 0 && report.inode != 0;
        if is_accepted {
            one.inode = report.inode;
        }
        is_accepted
    }

    fn listening_for(&self, local: SocketAddr) -> Option<&Listening> {
        let fits = |one: &&Listening| {
            let address = one.address;
            address.port() == local.port()
                && (address.ip().is_unspecified() || address.ip() == local.ip())
        };
        self.listening.values().find(fits)
    }

    /// A socket is gone. Returns the port at which it has listened: what it has accepted may be there still.
    pub(super) fn gone(&mut self, cookie: u64) -> Option<u16> {
        self.chosen.remove(&cookie);
        self.asked_for.remove(&cookie);
        let listening = self.listening.get_mut(&cookie)?;
        listening.closed = Some(Instant::now());
        Some(listening.address.port())
    }

    /// Forgets who listened at ports that may be those of others by now.
    pub(super) fn forget_gone(&mut self) {
        self.listening
            .retain(|_, one| one.closed.is_none_or(|closed| closed.elapsed() < LATE));
    }

    pub(super) fn get(&self, cookie: u64) -> Option<&One> {
        self.known.get(&cookie)
    }

    pub(super) fn get_mut(&mut self, cookie: u64) -> Option<&mut One> {
        self.known.get_mut(&cookie)
    }

    /// Those that no closing has been told of.
    pub(super) fn open(&self) -> impl Iterator<Item = (u64, &One)> {
        let open = |(cookie, one): (&u64, _)| (*cookie, one);
        self.known
            .iter()
            .map(open)
            .filter(|(_, one): &(u64, &One)| !one.told.closed)
    }

    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut One> {
        self.known.values_mut().filter(|one| !one.told.closed)
    }

    /// One yields to others from now on, or no longer.
    pub(super) fn yields(&mut self, cookie: u64, is_yielding: bool) {
        match is_yielding {
            true => self.yielding.insert(cookie),
            false => self.yielding.remove(&cookie),
        };
    }

    /// Whether any yields to others.
    pub(super) fn is_yielding(&self) -> bool {
        !self.yielding.is_empty()
    }

    /// What they did.
    pub(super) fn summary(
        &self,
        plan: &Plan,
        seconds: f64,
        unseen: impl IntoIterator<Item = String>,
    ) -> Summary {
        let begun = || {
            let all = self
                .order
                .iter()
                .filter_map(|cookie| self.known.get(cookie));
            all.filter(|one| one.has_begun)
        };
        let counted = |given| begun().filter(|one| one.given == given).count() as u64;
        let is_held = begun().any(|one| one.yielded_seconds().is_some());
        let mut left_out = plan.left_out.clone();
        left_out.extend(self.left_out());
        left_out.extend(unseen);
        let followed = begun().filter(|one| one.has_followed());
        Summary {
            means: Means::Sockets,
            left_out,
            congestion_control: plan.control.clone(),
            seconds,
            yielded_seconds: is_held.then_some(self.yielded.as_secs_f64()),
            advised: plan.advisor.is_some().then(|| followed.count() as u64),
            counts: Counts {
                given: counted(Given::Control),
                own: counted(Given::Own),
                refused: counted(Given::Refused),
                ignored: self.ignored,
            },
            connections: begun().map(One::told).collect(),
            unlisted: Unlisted::default(),
        }
    }

    /// What was met that cannot be given anything.
    fn left_out(&self) -> Vec<String> {
        let mut left_out = Vec::new();
        if self.multipath > 0 {
            left_out.push(format!("sockets of Multipath TCP: {}", self.multipath));
        }
        if !self.guarded.is_empty() {
            let programs: Vec<&str> = self.guarded.iter().map(String::as_str).collect();
            let programs = programs.join(", ");
            left_out.push(format!(
                "connections of programs that let nobody take their sockets: {programs}"
            ));
        }
        if self.uses_io_uring {
            left_out.push("connections that a program may have opened by io_uring".to_owned());
        }
        left_out
    }
}

impl One {
    /// Takes its counts in.
    pub(super) fn see(&mut self, info: &TcpInfo) {
        let is_there = !matches!(info.tcpi_state, SYN_SENT | CLOSE);
        let has_been =
            info.tcpi_bytes_acked > 0 || info.tcpi_bytes_received > 0 || info.min_rtt().is_some();
        self.has_begun |= is_there || has_been;
        let told = &mut self.told;
        if !told.closed {
            told.seconds = Some(self.opened.elapsed().as_secs_f64());
        }
        told.bytes_sent = info.tcpi_bytes_acked;
        told.bytes_received = info.tcpi_bytes_received;
        told.retransmitted = match info.tcpi_bytes_sent {
            0 => 0.0,
            all => info.tcpi_bytes_retrans as f64 / all as f64,
        };
        told.min_rtt_ms = info.min_rtt().map(|rtt| rtt.as_micros() as f64 / 1e3);
    }

    /// Nobody has it any more: what it did is told, and the rest let go of.
    fn close(&mut self) {
        self.told.closed = true;
        self.told.yielded_seconds = self.yielded_seconds();
        self.has_followed = self.has_followed();
        (self.holder, self.law, self.lent) = (None, None, None);
    }

    fn yielded_seconds(&self) -> Option<f64> {
        let law = self.law.as_ref();
        law.map(|law| law.yielded().as_secs_f64())
            .or(self.told.yielded_seconds)
    }

    fn has_followed(&self) -> bool {
        self.has_followed || self.lent.as_ref().is_some_and(Lent::has_followed)
    }

    fn told(&self) -> Connection {
        Connection {
            yielded_seconds: self.yielded_seconds(),
            ..self.told.clone()
        }
    }

    /// Whether it connects two addresses of one host, so far as addresses tell.
    pub(super) fn is_within_host(&self) -> bool {
        self.told.local.ip() == self.told.remote.ip()
    }
}

fn told(
    local: SocketAddr,
    remote: SocketAddr,
    congestion_control: String,
    program: String,
    incoming: bool,
) -> Connection {
    Connection {
        program,
        congestion_control,
        ..Connection::new(local, remote, incoming)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advised::Advisor;

    #[test]
    fn what_a_socket_is_given_is_no_choice_of_its_programs() {
        let mut connections = Connections::default();
        let asks_for = |connections: &mut Connections, name: &str| {
            connections.asks_for(Some(name.to_owned()), 1);
        };
        // The kernel has refused it, and it is advised later.
        asks_for(&mut connections, "bbr");
        assert!(!connections.has_chosen(1, "cubic"));
        connections.is_given(1, "bbr");
        assert!(!connections.has_chosen(1, "bbr"));
        // Another is given while the call is under way.
        asks_for(&mut connections, "reno");
        connections.is_given(1, "bbr");
        assert!(connections.has_chosen(1, "reno"));
        connections.is_given(1, "reno");
        assert!(connections.has_chosen(1, "reno"));
    }

    #[test]
    fn a_closed_connection_takes_no_descriptor_and_what_it_did_is_told() {
        let process = Arc::new(Process::open(std::process::id()).unwrap());
        let (local, remote) = (
            SocketAddr::from(([192, 0, 2, 1], 50_000)),
            SocketAddr::from(([192, 0, 2, 2], 80)),
        );
        let mut connections = Connections::default();
        let opening = Opening {
            given: Given::Control,
            lent: None,
            control: "reno".to_owned(),
            program: "curl".to_owned(),
        };
        connections.opens(1, 10, (Arc::clone(&process), 3), opening);
        let one = connections.get_mut(1).unwrap();
        one.law = Some(Law::new(1448));
        one.has_followed = true;
        connections.yields(1, true);
        assert!(connections.is_yielding());
        // `tcpi_bytes_received`
        let mut info = [0; 248];
        info[128] = 9;
        let report = sock_diag::Connection {
            cookie: 1,
            local,
            remote,
            inode: 0,
            priority: 0,
            info: TcpInfo::parse(&info),
        };
        connections.reported(&report, true);
        assert_eq!(Arc::strong_count(&process), 1);
        assert!(!connections.is_yielding());
        let plan = Plan {
            advisor: Some(Advisor::default()),
            ..Plan::default()
        };
        let summary = connections.summary(&plan, 1.0, None);
        assert_eq!(summary.yielded_seconds, Some(0.0));
        assert_eq!(summary.advised, Some(1));
        let [told] = &summary.connections[..] else {
            panic!("{summary:?}")
        };
        assert_eq!((told.bytes_received, told.closed), (9, true));
        assert_eq!(told.yielded_seconds, Some(0.0));
        assert_eq!((told.local, told.remote), (local, remote));
    }
}
