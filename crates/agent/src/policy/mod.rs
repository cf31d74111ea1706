//! Which connections of a host get what: rules, of which the first that a connection meets decides.
//!
//! A rule has conditions of several kinds and is met if, of every kind that it has, one is met. Most are settled when a
//! connection begins; bytes moved and age are met later, and from then on for good.

mod file;
mod tables;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use fairwind_cc::kernel::Choice;
use fairwind_trace::filter::Network;

use crate::advised::Advisor;

pub use file::read;
pub use tables::{Tables, name_hash};

/// Rules at most: they are the bits of a word in the kernel.
pub const RULES_MAX: usize = 64;

/// Levels of control groups that are looked at, from that of the connection upwards.
pub const GROUP_LEVELS: usize = 16;

/// The rules, in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// At most [`RULES_MAX`], by different names.
    pub rules: Vec<Rule>,
    /// Whom rules ask that follow advice.
    pub advisor: Advisor,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// What it is called in reports.
    pub name: String,
    /// Which connections meet it.
    pub conditions: Conditions,
    /// What these connections are given.
    pub action: Action,
}

/// The conditions of a rule. An empty list is no condition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Names of the process that opens the connection or listens for it, of which the kernel keeps the first 15 bytes.
    pub programs: Vec<String>,
    /// Users to whom the socket belongs, by number.
    pub users: Vec<u32>,
    /// Systemd units, or other control groups by the last part of their path: the connection is in one or below.
    pub units: Vec<String>,
    /// Control groups by their path from the root, such as `/system.slice/backup.service`: the connection is in one or
    /// below. Of units and control groups, one is enough.
    pub groups: Vec<String>,
    /// Networks of the local address.
    pub local: Vec<Network>,
    /// Networks of the peer's address.
    pub remote: Vec<Network>,
    /// Ports of this host.
    pub local_ports: Vec<RangeInclusive<u16>>,
    /// Ports of the peer.
    pub remote_ports: Vec<RangeInclusive<u16>>,
    /// Who has opened the connection.
    pub direction: Option<Direction>,
    /// Bytes acknowledged and received, at least.
    pub least_bytes: u64,
    /// Age of the connection, at least.
    pub least_age: Duration,
}

/// Who has opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The peer.
    In,
    /// This host.
    Out,
}

/// What a rule gives to its connections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Action {
    /// The congestion control.
    pub control: Option<Choice>,
    /// Whether connections have it whose program has chosen another.
    pub is_forced: bool,
    /// Largest rate of each connection, bytes a second.
    pub max_rate: Option<u32>,
    /// Whether packets have the mark of the Lower-Effort service (RFC 8622).
    pub is_lower_effort: bool,
    /// Whether what the connections receive takes only what others leave.
    pub is_held: bool,
    /// Whether an advisor says what they get; the other parts are for the time without advice.
    pub is_advised: bool,
    /// Size of the send buffer, bytes of payload.
    pub send_buffer: Option<u32>,
    /// Size of the receive buffer, bytes of payload.
    pub receive_buffer: Option<u32>,
}

/// What is known of a connection, or asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Name of the process.
    pub program: String,
    /// Number of the user.
    pub user: u32,
    /// Path of the control group from the root.
    pub group: String,
    /// Address and port of this host.
    pub local: SocketAddr,
    /// Those of the peer.
    pub remote: SocketAddr,
    /// Who has opened it.
    pub direction: Direction,
    /// Bytes acknowledged and received.
    pub bytes: u64,
    /// Its age.
    pub age: Duration,
}

/// A kind of condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The program's name.
    Program,
    /// The user.
    User,
    /// The systemd unit or control group.
    Group,
    /// The local address.
    Local,
    /// The peer's address.
    Remote,
    /// The local port.
    LocalPort,
    /// The peer's port.
    RemotePort,
    /// Who has opened it.
    Direction,
    /// Bytes moved so far.
    Bytes,
    /// Age.
    Age,
}

impl Kind {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Program => "program",
            Kind::User => "user",
            Kind::Group => "unit or control group",
            Kind::Local => "local address",
            Kind::Remote => "remote address",
            Kind::LocalPort => "local port",
            Kind::RemotePort => "remote port",
            Kind::Direction => "direction",
            Kind::Bytes => "bytes",
            Kind::Age => "age",
        }
    }
}

impl Policy {
    /// The first rule that the connection meets, counted from 0.
    pub fn first(&self, connection: &Described) -> Option<usize> {
        let is_met = |rule: &Rule| rule.conditions.unmet(connection).is_none();
        self.rules.iter().position(is_met)
    }
}

impl Conditions {
    /// The first kind of condition that the connection does not meet; `None` if it meets all.
    pub fn unmet(&self, connection: &Described) -> Option<Kind> {
        let one = |kind, is_any: bool, is_met: bool| (!is_any && !is_met).then_some(kind);
        let program = kernel_name(&connection.program);
        let mut programs = self.programs.iter();
        let group = connection.group.as_str();
        let is_in_group = self.units.iter().any(|unit| has_part(group, unit))
            || self.groups.iter().any(|above| is_below(group, above));
        let port = |ports: &[RangeInclusive<u16>], address: &SocketAddr| {
            ports.iter().any(|range| range.contains(&address.port()))
        };
        let network = |networks: &[Network], address: &SocketAddr| {
            networks
                .iter()
                .any(|network| network.contains(address.ip()))
        };
        let (local, remote) = (&connection.local, &connection.remote);
        [
            one(
                Kind::Program,
                self.programs.is_empty(),
                programs.any(|name| kernel_name(name) == program),
            ),
            one(
                Kind::User,
                self.users.is_empty(),
                self.users.contains(&connection.user),
            ),
            one(
                Kind::Group,
                self.units.is_empty() && self.groups.is_empty(),
                is_in_group,
            ),
            one(
                Kind::Local,
                self.local.is_empty(),
                network(&self.local, local),
            ),
            one(
                Kind::Remote,
                self.remote.is_empty(),
                network(&self.remote, remote),
            ),
            one(
                Kind::LocalPort,
                self.local_ports.is_empty(),
                port(&self.local_ports, local),
            ),
            one(
                Kind::RemotePort,
                self.remote_ports.is_empty(),
                port(&self.remote_ports, remote),
            ),
            one(
                Kind::Direction,
                self.direction.is_none(),
                self.direction == Some(connection.direction),
            ),
            one(Kind::Bytes, false, connection.bytes >= self.least_bytes),
            one(Kind::Age, false, connection.age >= self.least_age),
        ]
        .into_iter()
        .flatten()
        .next()
    }

    /// Whether they may be met only some time after the connection has begun.
    pub fn is_met_later(&self) -> bool {
        self.least_bytes > 0 || !self.least_age.is_zero()
    }
}

/// The name of a process as the kernel keeps it.
fn kernel_name(name: &str) -> &[u8] {
    &name.as_bytes()[..name.len().min(15)]
}

/// The names of a control group and of those above it, from the root down.
fn parts(group: &str) -> impl DoubleEndedIterator<Item = &str> {
    group.split('/').filter(|part| !part.is_empty())
}

fn has_part(group: &str, name: &str) -> bool {
    parts(group).any(|part| part == name)
}

fn is_below(group: &str, above: &str) -> bool {
    let mut group = parts(group);
    parts(above).all(|part| group.next() == Some(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Described {
        Described {
            program: "rsync".to_owned(),
            user: 1000,
            group: "/system.slice/backup.service/worker".to_owned(),
            local: "192.0.2.1:40000".parse().unwrap(),
            remote: "198.51.100.7:873".parse().unwrap(),
            direction: Direction::Out,
            bytes: 1000,
            age: Duration::from_secs(5),
        }
    }

    fn unmet(change: impl FnOnce(&mut Conditions)) -> Option<Kind> {
        let mut conditions = Conditions::default();
        change(&mut conditions);
        conditions.unmet(&connection())
    }

    #[test]
    fn without_conditions_every_connection_meets_a_rule() {
        assert_eq!(unmet(|_| {}), None);
    }

    #[test]
    fn of_each_kind_one_condition_must_be_met() {
        let network = |text: &str| vec![text.parse().unwrap()];
        assert_eq!(
            unmet(|c| c.programs = vec!["curl".into(), "rsync".into()]),
            None
        );
        assert_eq!(
            unmet(|c| c.programs = vec!["curl".into()]),
            Some(Kind::Program)
        );
        assert_eq!(unmet(|c| c.users = vec![0]), Some(Kind::User));
        assert_eq!(unmet(|c| c.units = vec!["backup.service".into()]), None);
        assert_eq!(
            unmet(|c| c.units = vec!["backup".into()]),
            Some(Kind::Group)
        );
        assert_eq!(unmet(|c| c.groups = vec!["/system.slice".into()]), None);
        assert_eq!(
            unmet(|c| c.groups = vec!["/backup.service".into()]),
            Some(Kind::Group)
        );
        assert_eq!(
            unmet(|c| {
                c.groups = vec!["/elsewhere".into()];
                c.units = vec!["worker".into()];
            }),
            None
        );
        assert_eq!(unmet(|c| c.local = network("192.0.2.0/24")), None);
        assert_eq!(
            unmet(|c| c.remote = network("192.0.2.0/24")),
            Some(Kind::Remote)
        );
        assert_eq!(unmet(|c| c.remote_ports = vec![800..=900]), None);
        assert_eq!(
            unmet(|c| c.local_ports = vec![873..=873]),
            Some(Kind::LocalPort)
        );
        assert_eq!(
            unmet(|c| c.direction = Some(Direction::In)),
            Some(Kind::Direction)
        );
        assert_eq!(unmet(|c| c.least_bytes = 1000), None);
        assert_eq!(unmet(|c| c.least_bytes = 1001), Some(Kind::Bytes));
        assert_eq!(
            unmet(|c| c.least_age = Duration::from_secs(6)),
            Some(Kind::Age)
        );
    }

    #[test]
    fn a_program_is_known_by_the_bytes_that_the_kernel_keeps() {
        let mut connection = connection();
        connection.program = "a-very-long-nam".to_owned();
        let conditions = Conditions {
            programs: vec!["a-very-long-name".to_owned()],
            ..Conditions::default()
        };
        assert_eq!(conditions.unmet(&connection), None);
    }

    #[test]
    fn the_first_rule_that_is_met_decides() {
        let rule = |name: &str, least_bytes| Rule {
            name: name.to_owned(),
            conditions: Conditions {
                least_bytes,
                ..Conditions::default()
            },
            action: Action::default(),
        };
        let policy = Policy {
            rules: vec![rule("large", 2000), rule("all", 0), rule("never", 0)],
            ..Policy::default()
        };
        let mut connection = connection();
        assert_eq!(policy.first(&connection), Some(1));
        connection.bytes = 2000;
        assert_eq!(policy.first(&connection), Some(0));
        assert_eq!(Policy::default().first(&connection), None);
    }
}
