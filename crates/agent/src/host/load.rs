//! Loading the programs with a policy.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::{Map, MapCore, MapFlags, Object, ObjectBuilder, ProgramMut};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::{Orders, Pin};
use crate::action::Encoded;
use crate::hold::Hold;
use crate::policy::{Action, RULES_MAX, Tables, name_hash};

/// The map of what is known of sockets.
pub(super) const SOCKETS: &str = "sockets";
/// The maps that stay when a policy is replaced.
const KEPT: [&str; 9] = [
    SOCKETS,
    "wishes",
    "namespaces",
    "listening",
    "samples",
    "windows",
    "held_until",
    "asked",
    "advised",
];

/// Where maps come from that are there already.
pub(super) enum Kept<'a> {
    /// From an earlier agent.
    Pinned(&'a Pin),
    /// From this one.
    Loaded(&'a Object),
}

/// The number of the first policy of an agent: another than those that earlier ones have left in the sockets.
pub(super) fn first_generation() -> u32 {
    /// Makes agents of one process differ.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let since_boot = fairwind_kernel::monotonic_ns() >> 20;
    (since_boot as u32).wrapping_add(NEXT.fetch_add(1 << 16, Ordering::Relaxed))
}

/// Loads the programs with these orders.
pub(super) fn load(
    orders: &Orders<'_>,
    generation: u32,
    kept: &Kept<'_>,
) -> libbpf_rs::Result<Object> {
    let tables = Tables::of(orders.policy);
    let entries = entries(&tables);
    let mut open = ObjectBuilder::default()
        .name("fairwind_host")?
        .open_memory(fairwind_bpf::object!("host.bpf.o"))?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name == ".rodata.policy" {
            map.set_initial_value(&policy(orders, &tables, generation))?;
        } else if let Some((_, entries)) = entries.iter().find(|(table, _)| *table == name) {
            map.set_max_entries((entries.len() as u32).max(1))?;
        } else {
            match kept {
                Kept::Pinned(pin) if name == SOCKETS => {
                    if let Some(pin) = pin.left() {
                        map.reuse_pinned_map(pin)?;
                    }
                }
                Kept::Loaded(object) if KEPT.contains(&name.as_str()) => {
                    map.reuse_fd(self::map(object, &name).as_fd())?;
                }
                _ => {}
            }
        }
    }
    let object = open.load()?;
    for (table, entries) in entries {
        let table = map(&object, table);
        for (key, rules) in entries {
            table.update(&key, &rules.to_ne_bytes(), MapFlags::ANY)?;
        }
    }
    Ok(object)
}

/// `struct policy` of `bpf/policy.h`.
fn policy(orders: &Orders<'_>, tables: &Tables, generation: u32) -> Vec<u8> {
    let words = |words: &[u64]| -> Vec<u8> {
        let padding = RULES_MAX - words.len();
        let padded = words.iter().copied().chain(std::iter::repeat_n(0, padding));
        padded.flat_map(u64::to_ne_bytes).collect()
    };
    let rules = &orders.policy.rules;
    let names: Vec<u64> = rules.iter().map(|rule| name_hash(&rule.name)).collect();
    let head = tables.any.into_iter();
    let head = head.chain([tables.incoming, tables.outgoing, tables.later]);
    let mut bytes: Vec<u8> = head.flat_map(u64::to_ne_bytes).collect();
    bytes.extend(words(&tables.least_bytes));
    bytes.extend(words(&tables.least_age_ns));
    bytes.extend(words(&names));
    let none = (Action::default(), None);
    let actions = rules.iter().map(|rule| rule.action.clone());
    let actions = actions.zip(orders.controls.iter().cloned());
    for (action, control) in actions.chain(std::iter::repeat(none)).take(RULES_MAX) {
        bytes.extend(encoded(&action, control.as_deref()));
    }
    bytes.extend(orders.group.to_ne_bytes());
    bytes.extend(generation.to_ne_bytes());
    bytes.extend(geteuid().as_raw().to_ne_bytes());
    let is_held = super::holds(orders.policy);
    let first_segments = if is_held { Hold::first_segments() } else { 0 };
    bytes.extend([u8::from(orders.is_whole), u8::from(orders.is_dry)]);
    bytes.extend([first_segments as u8, 0, 0, 0, 0, 0]);
    bytes
}

fn encoded(action: &Action, control: Option<&str>) -> Vec<u8> {
    Encoded {
        control,
        max_rate: action.max_rate,
        send_buffer: action.send_buffer,
        receive_buffer: action.receive_buffer,
        is_lower_effort: action.is_lower_effort,
        is_forced: action.is_forced,
        is_held: action.is_held,
        is_advised: action.is_advised,
    }
    .bytes()
}

type Entries = Vec<(Vec<u8>, u64)>;

/// The maps of the tables with their entries.
fn entries(tables: &Tables) -> [(&'static str, Entries); 8] {
    fn all<K: Copy>(
        entries: impl IntoIterator<Item = (K, u64)>,
        key: impl Fn(K) -> Vec<u8>,
    ) -> Entries {
        let entries = entries.into_iter();
        entries.map(|(at, rules)| (key(at), rules)).collect()
    }
    let owned = |map: &std::collections::BTreeMap<u64, u64>| {
        all(map.clone(), |hash: u64| hash.to_ne_bytes().to_vec())
    };
    let port = |port: u16| u32::from(port).to_ne_bytes().to_vec();
    [
        (
            "programs",
            all(tables.programs.clone(), |name: [u8; 16]| name.to_vec()),
        ),
        (
            "users",
            all(tables.users.clone(), |user: u32| {
                user.to_ne_bytes().to_vec()
            }),
        ),
        ("units", owned(&tables.units)),
        ("groups", owned(&tables.groups)),
        (
            "local_networks",
            all(tables.local.clone(), |network| network.key()),
        ),
        (
            "remote_networks",
            all(tables.remote.clone(), |network| network.key()),
        ),
        ("local_ports", all(tables.local_ports.clone(), port)),
        ("remote_ports", all(tables.remote_ports.clone(), port)),
    ]
}

pub(super) fn map<'a>(object: &'a Object, name: &str) -> Map<'a> {
    let map = object.maps().find(|map| map.name() == OsStr::new(name));
    map.expect("host.bpf.c has the map")
}

pub(super) fn program<'a>(object: &'a Object, name: &str) -> ProgramMut<'a> {
    let mut programs = object.progs_mut();
    let program = programs.find(|program| program.name() == OsStr::new(name));
    program.expect("host.bpf.c has the program")
}

/// What became of the connections that met a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// How many there were.
    pub connections: u64,
    /// Of which were given its congestion control.
    pub given: u64,
    /// Keep what their program has chosen.
    pub own: u64,
    /// Of which the kernel refused it.
    pub refused: u64,
    /// Were left alone, as another protocol is on top.
    pub left_alone: u64,
    /// Calls by which a program would have chosen another.
    pub ignored: u64,
}

impl Counts {
    /// Adds those of another policy with the same rule.
    pub fn add(&mut self, other: &Counts) {
        let Counts {
            connections,
            given,
            own,
            refused,
            left_alone,
            ignored,
        } = other;
        self.connections += connections;
        self.given += given;
        self.own += own;
        self.refused += refused;
        self.left_alone += left_alone;
        self.ignored += ignored;
    }

    /// From `struct counts` of `bpf/give.h`.
    pub(super) fn parse(bytes: &[u8]) -> Counts {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |at: usize| words.get(at).copied().map_or(0, u64::from_ne_bytes);
        Counts {
            connections: word(0),
            given: word(1),
            own: word(2),
            refused: word(3),
            left_alone: word(4),
            ignored: word(5),
        }
    }
}
