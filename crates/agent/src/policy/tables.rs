//! A policy as the kernel's programs look it up: for each kind of condition, a table from what a connection has to the set
//! of rules that it satisfies. The sets are words, a bit a rule, the first rule the lowest; their intersection's lowest bit is
//! the rule. Deciding takes as long for many rules as for one.
//!
//! Source: T. V. Lakshman and D. Stiliadis, High-speed policy-based packet forwarding using efficient multi-dimensional range
//! matching, SIGCOMM 1998.

use std::collections::BTreeMap;

use fairwind_trace::filter::Network;

use super::{Conditions, Direction, Policy, RULES_MAX, kernel_name, parts};

/// Kinds of conditions with a table, in the order of `enum kind` in `bpf/policy.h`.
pub(crate) const KINDS: usize = 7;
const PROGRAM: usize = 0;
const USER: usize = 1;
const GROUP: usize = 2;
const LOCAL: usize = 3;
const REMOTE: usize = 4;
const LOCAL_PORT: usize = 5;
const REMOTE_PORT: usize = 6;

/// The tables, by keys in the layout of the kernel's maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// By kind, the rules that have no condition of it.
    pub any: [u64; KINDS],
    /// The rules for connections that the peer has opened, and for those that this host has.
    pub incoming: u64,
    /// As `incoming`.
    pub outgoing: u64,
    /// Those with conditions that are met only later.
    pub later: u64,
    /// Their least bytes, by rule.
    pub least_bytes: Vec<u64>,
    /// Their least age, by rule, ns.
    pub least_age_ns: Vec<u64>,
    /// By the name of the process, padded with zeros to 16 bytes.
    pub programs: BTreeMap<[u8; 16], u64>,
    /// By the number of the user.
    pub users: BTreeMap<u32, u64>,
    /// By [`name_hash`] of a control group's name.
    pub units: BTreeMap<u64, u64>,
    /// By [`path_hash`] of a control group.
    pub groups: BTreeMap<u64, u64>,
    /// By the local network: the rules of it and of those around it.
    pub local: Vec<(Network, u64)>,
    /// By the peer's network, likewise.
    pub remote: Vec<(Network, u64)>,
    /// By the local port.
    pub local_ports: BTreeMap<u16, u64>,
    /// By the peer's port.
    pub remote_ports: BTreeMap<u16, u64>,
}

impl Tables {
    /// Those of a policy.
    ///
    /// # Panics
    ///
    /// If it has more than [`RULES_MAX`] rules.
    pub fn of(policy: &Policy) -> Tables {
        assert!(policy.rules.len() <= RULES_MAX, "too many rules");
        let mut tables = Tables::default();
        for (at, rule) in policy.rules.iter().enumerate() {
            tables.add(1 << at, &rule.conditions);
        }
        tables.local = nested(policy, |conditions| &conditions.local);
        tables.remote = nested(policy, |conditions| &conditions.remote);
        tables
    }

    fn add(&mut self, rule: u64, of: &Conditions) {
        if of.direction != Some(Direction::Out) {
            self.incoming |= rule;
        }
        if of.direction != Some(Direction::In) {
            self.outgoing |= rule;
        }
        if of.is_met_later() {
            self.later |= rule;
        }
        self.least_bytes.push(of.least_bytes);
        let age = u64::try_from(of.least_age.as_nanos()).unwrap_or(u64::MAX);
        self.least_age_ns.push(age);
        for (kind, has_none) in [
            (PROGRAM, of.programs.is_empty()),
            (USER, of.users.is_empty()),
            (GROUP, of.units.is_empty() && of.groups.is_empty()),
            (LOCAL, of.local.is_empty()),
            (REMOTE, of.remote.is_empty()),
            (LOCAL_PORT, of.local_ports.is_empty()),
            (REMOTE_PORT, of.remote_ports.is_empty()),
        ] {
            if has_none {
                self.any[kind] |= rule;
            }
        }
        for name in &of.programs {
            let mut key = [0; 16];
            let name = kernel_name(name);
            key[..name.len()].copy_from_slice(name);
            *self.programs.entry(key).or_default() |= rule;
        }
        for &user in &of.users {
            *self.users.entry(user).or_default() |= rule;
        }
        for unit in &of.units {
            *self.units.entry(name_hash(unit)).or_default() |= rule;
        }
        for group in &of.groups {
            *self.groups.entry(path_hash(group)).or_default() |= rule;
        }
        for port in of.local_ports.iter().cloned().flatten() {
            *self.local_ports.entry(port).or_default() |= rule;
        }
        for port in of.remote_ports.iter().cloned().flatten() {
            *self.remote_ports.entry(port).or_default() |= rule;
        }
    }
}

/// Every network of the rules, with the rules of all that contain it: the kernel finds only the smallest.
fn nested(policy: &Policy, of: impl Fn(&Conditions) -> &Vec<Network>) -> Vec<(Network, u64)> {
    let mut networks: Vec<(Network, u64)> = Vec::new();
    let rules = || policy.rules.iter().enumerate();
    for network in rules().flat_map(|(_, rule)| of(&rule.conditions)) {
        if networks.iter().any(|(known, _)| known == network) {
            continue;
        }
        let contain = rules().filter(|(_, rule)| {
            let mut around = of(&rule.conditions).iter();
            around.any(|around| around.covers(*network))
        });
        networks.push((*network, contain.map(|(at, _)| 1 << at).sum()));
    }
    networks
}

/// Bytes of a control group's name that count.
const NAME_MAX: usize = 127;

/// What a name is known by, as that of a control group (`group_hash` in `bpf/policy.h`): eight bytes after the other.
pub fn name_hash(name: &str) -> u64 {
    let mut bytes = [0; NAME_MAX + 1];
    let length = name.len().min(NAME_MAX);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    let (words, _) = bytes.as_chunks::<8>();
    words
        .iter()
        .fold(0, |hash, word| mix(hash, u64::from_ne_bytes(*word)))
}

/// What a control group is known by: the names on its path, from the root down.
pub(crate) fn path_hash(group: &str) -> u64 {
    parts(group).fold(0, |hash, part| mix(hash, name_hash(part)))
}

/// A step of multiplication and shift; the factor is the golden ratio's.
fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::policy::{Action, Described, Rule, is_below};

    /// What the kernel's program does (`bpf/policy.h`).
    fn decide(tables: &Tables, of: &Described) -> Option<usize> {
        let network = |table: &[(Network, u64)], address: &SocketAddr| {
            let containing = table.iter().filter(|(n, _)| n.contains(address.ip()));
            let smallest = containing.max_by(|(a, _), (b, _)| b.covers(*a).cmp(&a.covers(*b)));
            smallest.map_or(0, |(_, rules)| *rules)
        };
        let mut key = [0; 16];
        key[..of.program.len()].copy_from_slice(of.program.as_bytes());
        let mut groups = 0;
        let mut path = String::new();
        for part in parts(&of.group) {
            path = format!("{path}/{part}");
            groups |= tables.units.get(&name_hash(part)).unwrap_or(&0);
            groups |= tables.groups.get(&path_hash(&path)).unwrap_or(&0);
        }
        let own = [
            tables.programs.get(&key).copied().unwrap_or(0),
            tables.users.get(&of.user).copied().unwrap_or(0),
            groups,
            network(&tables.local, &of.local),
            network(&tables.remote, &of.remote),
            tables
                .local_ports
                .get(&of.local.port())
                .copied()
                .unwrap_or(0),
            tables
                .remote_ports
                .get(&of.remote.port())
                .copied()
                .unwrap_or(0),
        ];
        let direction = match of.direction {
            Direction::In => tables.incoming,
            Direction::Out => tables.outgoing,
        };
        let mut rules = own
            .iter()
            .zip(tables.any)
            .fold(direction, |rules, (own, any)| rules & (own | any));
        for rule in 0..tables.least_bytes.len() {
            let age = u64::try_from(of.age.as_nanos()).unwrap();
            if of.bytes < tables.least_bytes[rule] || age < tables.least_age_ns[rule] {
                rules &= !(1 << rule);
            }
        }
        (rules != 0).then(|| rules.trailing_zeros() as usize)
    }

    fn some<T: Clone + std::fmt::Debug + 'static>(
        of: &'static [T],
    ) -> impl Strategy<Value = Vec<T>> {
        prop_oneof![
            2 => Just(Vec::new()),
            1 => prop::sample::subsequence(of, 1..=of.len()),
        ]
    }

    fn networks() -> impl Strategy<Value = Vec<Network>> {
        some(&[
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.1.1",
            "::/0",
            "2001:db8::/32",
        ])
        .prop_map(|texts| texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn ports() -> impl Strategy<Value = Vec<std::ops::RangeInclusive<u16>>> {
        let ranges = [1..=2, 2..=3, 3..=3];
        prop_oneof![
            Just(Vec::new()),
            prop::sample::subsequence(ranges.to_vec(), 1..=3)
        ]
    }

    prop_compose! {
        fn conditions()(
            programs in some(&["a", "b"]),
            users in some(&[0u32, 1]),
            units in some(&["x", "y"]),
            groups in some(&["/x", "/x/y", "/y"]),
            local in networks(),
            remote in networks(),
            local_ports in ports(),
            remote_ports in ports(),
            direction in prop_oneof![
                Just(None), Just(Some(Direction::In)), Just(Some(Direction::Out))
            ],
            least_bytes in 0u64..3,
            least_age in 0u64..3,
        ) -> Conditions {
            let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
            Conditions {
                programs: owned(programs),
                users,
                units: owned(units),
                groups: owned(groups),
                local,
                remote,
                local_ports,
                remote_ports,
                direction,
                least_bytes,
                least_age: Duration::from_nanos(least_age),
            }
        }
    }

    prop_compose! {
        fn connection()(
            program in prop::sample::select(vec!["a", "b", "c"]),
            user in 0u32..3,
            group in prop::sample::select(vec!["/", "/x", "/x/y", "/y/x", "/z/y"]),
            local in prop::sample::select(vec!["10.1.1.1:1", "10.2.0.1:2", "[2001:db8::1]:3"]),
            remote in prop::sample::select(vec!["10.1.1.2:1", "192.0.2.1:2", "[::1]:3"]),
            is_incoming in any::<bool>(),
            bytes in 0u64..3,
            age in 0u64..3,
        ) -> Described {
            Described {
                program: program.to_owned(),
                user,
                group: group.to_owned(),
                local: local.parse().unwrap(),
                remote: remote.parse().unwrap(),
                direction: if is_incoming { Direction::In } else { Direction::Out },
                bytes,
                age: Duration::from_nanos(age),
            }
        }
    }

    proptest! {
        #[test]
        fn tables_decide_as_the_rules_do(
            conditions in prop::collection::vec(conditions(), 0..8),
            connection in connection(),
        ) {
            let rules = conditions.into_iter().map(|conditions| Rule {
                name: String::new(),
                conditions,
                action: Action::default(),
            });
            let policy = Policy { rules: rules.collect(), ..Policy::default() };
            let tables = Tables::of(&policy);
            prop_assert_eq!(decide(&tables, &connection), policy.first(&connection));
        }
    }

    #[test]
    fn a_network_has_the_rules_of_those_around_it() {
        let rule = |networks: &[&str]| Rule {
            conditions: Conditions {
                remote: networks.iter().map(|text| text.parse().unwrap()).collect(),
                ..Conditions::default()
            },
            ..Rule::default()
        };
        let policy = Policy {
            rules: vec![
                rule(&["10.0.0.0/8"]),
                rule(&["10.1.0.0/16", "10.0.0.0/8"]),
                rule(&[]),
            ],
            ..Policy::default()
        };
        let tables = Tables::of(&policy);
        let network = |text: &str| text.parse::<Network>().unwrap();
        let expected = [
            (network("10.0.0.0/8"), 0b11),
            (network("10.1.0.0/16"), 0b11),
        ];
        assert_eq!(tables.remote, expected);
        assert_eq!(tables.any[REMOTE], 0b100);
    }

    #[test]
    fn groups_are_known_by_their_paths() {
        assert_eq!(path_hash("/a/b"), path_hash("a/b/"));
        assert_ne!(path_hash("/a/b"), path_hash("/b/a"));
        assert_ne!(path_hash("/a"), name_hash("a"));
        assert!(is_below("/a/b", "/a") && is_below("/a", "/") && !is_below("/ab", "/a"));
        let long = "x".repeat(NAME_MAX);
        assert_eq!(name_hash(&format!("{long}y")), name_hash(&long));
    }
}
