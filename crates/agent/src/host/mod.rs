//! The connections of a host: given by eBPF what the policy says, listed, and given back what they had.

mod connection;
mod holder;
mod load;
mod pin;

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use fairwind_bpf::messages;
use fairwind_kernel::NetworkNamespaces;
use libbpf_rs::{Iter, Link, MapCore, MapFlags, Object};

use crate::advised::{FollowError, Following};
use crate::policy::Policy;
use crate::starts::AdvisedDestination;

use holder::Holder;

pub use connection::{Before, Connection, Why};
pub use load::Counts;
pub use pin::Pin;

/// Why the connections cannot be taken care of.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The kernel refuses the programs.
    #[error("the kernel refuses to take care of a host's connections: {reason}\n{log}")]
    Refused {
        /// The kernel's error.
        reason: String,
        /// What its verifier said.
        log: String,
    },
    /// The advisor cannot be asked.
    #[error(transparent)]
    Advisor(#[from] FollowError),
    /// A list of connections could not be read.
    #[error("connections cannot be listed: {0}")]
    List(#[source] io::Error),
    /// A network namespace could not be visited.
    #[error("network namespaces cannot be visited: {0}")]
    Namespace(#[source] io::Error),
}

fn refused(error: &libbpf_rs::Error) -> HostError {
    HostError::Refused {
        reason: error.to_string(),
        log: messages::take(),
    }
}

/// A policy with what the kernel needs to know beside it.
#[derive(Clone, Debug)]
pub struct Orders<'a> {
    /// The rules.
    pub policy: &'a Policy,
    /// The kernel's names of their congestion controls, by rule; none where a rule has none.
    pub controls: &'a [Option<String>],
    /// The inode of the control group of whose connections the agent takes care.
    pub group: u64,
    /// Whether that is the root, below which all connections are.
    pub is_whole: bool,
    /// Whether it only tells what it would do.
    pub is_dry: bool,
}

/// The programs, which act on new connections until this is dropped. What connections have been given, they keep.
#[derive(Debug)]
pub struct Host {
    /// Number of the policy.
    generation: u32,
    object: Object,
    connection: Link,
    choose: Link,
    namespaces: NetworkNamespaces,
    pin: Pin,
    /// While the policy holds downloads down.
    holder: Option<Holder>,
    /// While the policy follows advice.
    following: Option<Following>,
}

/// Whether any connection may be held: an advisor may say so of those that follow it.
fn holds(policy: &Policy) -> bool {
    let mut actions = policy.rules.iter().map(|rule| &rule.action);
    actions.any(|action| action.is_held || action.is_advised)
}

impl Host {
    /// Attaches the programs to a control group: from now on connections in it and below get what the orders say. What an
    /// earlier agent has left by the pin is taken over, and this leaves it likewise.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the programs.
    pub fn attach(group: impl AsFd, orders: &Orders<'_>, pin: &Pin) -> Result<Host, HostError> {
        messages::collect();
        let generation = load::first_generation();
        let loaded = || {
            let mut object = load::load(orders, generation, &load::Kept::Pinned(pin))?;
            pin.keep(&mut object)?;
            let group = group.as_fd().as_raw_fd();
            let choose = load::program(&object, "choose").attach_cgroup(group)?;
            let connection = load::program(&object, "connection").attach_cgroup(group)?;
            Ok((object, connection, choose))
        };
        let (object, connection, choose) =
            loaded().map_err(|error: libbpf_rs::Error| refused(&error))?;
        let mut host = Host {
            generation,
            object,
            connection,
            choose,
            namespaces: NetworkNamespaces::default(),
            pin: pin.clone(),
            holder: None,
            following: None,
        };
        host.hold(orders.policy)?;
        host.follow(orders)?;
        adopt(&host.object)?;
        Ok(host)
    }

    /// Replaces the orders: there is no moment without any. Connections that are there follow with the next
    /// [`pass`](Host::pass).
    ///
    /// # Errors
    ///
    /// If the kernel refuses the programs; then the orders stay as they were.
    pub fn replace(&mut self, orders: &Orders<'_>) -> Result<(), HostError> {
        let generation = self.generation.wrapping_add(1);
        let kept = load::Kept::Loaded(&self.object);
        let object = load::load(orders, generation, &kept).map_err(|error| refused(&error))?;
        update(&mut self.choose, &object, "choose")?;
        if let Err(error) = update(&mut self.connection, &object, "connection") {
            let _ = update(&mut self.choose, &self.object, "choose");
            return Err(error);
        }
        self.object = object;
        self.generation = generation;
        self.hold(orders.policy)?;
        self.follow(orders)
    }

    /// Begins to ask the policy's advisor, or ends it.
    fn follow(&mut self, orders: &Orders<'_>) -> Result<(), HostError> {
        let policy = orders.policy;
        let mut rules = policy.rules.iter();
        if !rules.any(|rule| rule.action.is_advised) {
            self.following = None;
            return Ok(());
        }
        let followed = self.following.as_ref().map(Following::advisor);
        if followed != Some(&policy.advisor) {
            // What it has said is forgotten before the other says anything.
            self.following = None;
            self.following = Some(Following::start(
                &self.object,
                &policy.advisor,
                orders.is_dry,
            )?);
        }
        Ok(())
    }

    /// Begins to hold downloads down if the policy does so, or ends it.
    fn hold(&mut self, policy: &Policy) -> Result<(), HostError> {
        let holds = holds(policy);
        if holds == self.holder.is_some() {
            return Ok(());
        }
        self.holder = None;
        if !holds {
            let _ = self.connection.unpin();
            self.pin.drop_program();
            return Ok(());
        }
        let holder = Holder::start(&self.object).map_err(|error| refused(&error))?;
        self.holder = Some(holder);
        let kept = self.pin.keep_program(&mut self.connection);
        kept.map_err(|error| refused(&error))
    }

    /// Gives the connections that are there what the orders say, and gives back what no longer holds.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    pub fn pass(&self) -> Result<(), HostError> {
        self.everywhere("pass", |_| {})
    }

    /// The connections that are there.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    pub fn connections(&self) -> Result<Vec<Connection>, HostError> {
        let mut connections = Vec::new();
        let now = Duration::from_nanos(fairwind_kernel::monotonic_ns());
        let generation = self.generation;
        self.everywhere("list", |bytes| {
            connections.extend(Connection::parse(bytes, now, generation));
        })?;
        Ok(connections)
    }

    /// What became of the connections since the orders were given, by rule.
    pub fn counts(&self, rules: usize) -> Vec<Counts> {
        let counts = load::map(&self.object, "counts");
        let rules = 0..rules as u32;
        rules
            .map(|rule| {
                let found = counts.lookup(&rule.to_ne_bytes(), MapFlags::ANY);
                Counts::parse(&found.ok().flatten().unwrap_or_default())
            })
            .collect()
    }

    /// The destinations whose new connections start as the policy's advisor forecasts.
    pub fn advised_starts(&self) -> Vec<AdvisedDestination> {
        let following = self.following.as_ref();
        following.map(Following::starts).unwrap_or_default()
    }

    /// How often connections have found a forecast of that advisor wrong.
    pub fn starts_found_wrong(&self) -> u64 {
        self.following.as_ref().map_or(0, Following::found_wrong)
    }

    fn everywhere(&self, name: &str, each: impl FnMut(&[u8])) -> Result<(), HostError> {
        everywhere(&self.object, &self.namespaces, name, each)
    }
}

/// Runs an iterator over the connections of each network namespace.
fn everywhere(
    object: &Object,
    namespaces: &NetworkNamespaces,
    name: &str,
    mut each: impl FnMut(&[u8]),
) -> Result<(), HostError> {
    for key in load::map(object, "namespaces").keys() {
        let inode = key.try_into().map_or(0, u32::from_ne_bytes);
        namespaces.note(inode);
    }
    let link = attached(object, name)?;
    namespaces.each(|| read(&link, &mut each), HostError::Namespace)
}

/// Puts the object's program in the place of the link's.
fn update(link: &mut Link, object: &Object, name: &str) -> Result<(), HostError> {
    let updated = link.update_prog(&load::program(object, name));
    updated.map_err(|error| refused(&error))
}

fn attached(object: &Object, name: &str) -> Result<Link, HostError> {
    let link = load::program(object, name).attach();
    link.map_err(|error| refused(&error))
}

/// Finds the processes of sockets that are there.
fn adopt(object: &Object) -> Result<(), HostError> {
    read(&attached(object, "adopt")?, |_| {})
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.holder.take().is_some() {
            // What cannot be let go now is within a second, by the lease.
            let _ = self.everywhere("let_go", |_| {});
            let _ = self.connection.unpin();
            self.pin.drop_program();
        }
    }
}

/// Gives everything back that an agent which has ended has left by the pin, and removes that. Returns whether there was
/// any.
///
/// # Errors
///
/// If the kernel refuses the program, or connections cannot be listed.
pub fn undo(group: u64, pin: &Pin) -> Result<bool, HostError> {
    if pin.left().is_none() {
        return Ok(false);
    }
    messages::collect();
    let orders = Orders {
        policy: &Policy::default(),
        controls: &[],
        group,
        is_whole: false,
        is_dry: false,
    };
    let generation = load::first_generation();
    let object = load::load(&orders, generation, &load::Kept::Pinned(pin));
    let object = object.map_err(|error| refused(&error))?;
    adopt(&object)?;
    everywhere(&object, &NetworkNamespaces::default(), "pass", |_| {})?;
    pin.drop_program();
    pin.remove();
    Ok(true)
}

/// Reads what an iterator's program writes, a whole number of its rows at a time.
fn read(link: &Link, mut each: impl FnMut(&[u8])) -> Result<(), HostError> {
    let mut iterator = Iter::new(link).map_err(|error| refused(&error))?;
    let mut buffer = vec![0; connection::ROW_BYTES * 64];
    let mut filled = 0;
    loop {
        let more = match iterator.read(&mut buffer[filled..]) {
            Ok(more) => more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(HostError::List(error)),
        };
        if more == 0 {
            return Ok(());
        }
        filled += more;
        let rows = buffer[..filled].chunks_exact(connection::ROW_BYTES);
        let rest = rows.remainder().len();
        rows.for_each(&mut each);
        buffer.copy_within(filled - rest..filled, 0);
        filled = rest;
    }
}
