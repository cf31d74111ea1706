//! The connections of a host: given by eBPF what the policy says, listed, and given back what they had.

mod connection;
mod holder;
mod load;
mod pin;

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::time::Duration;

use fairwind_bpf::messages;
use fairwind_kernel::NetworkNamespaces;
use libbpf_rs::{Iter, Link, MapCore, MapFlags, Object};

use crate::advised::{FollowError, Following};
use crate::control_group;
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
    /// What is to outlive the agent cannot be kept.
    #[error("{}: {reason}; what connections had before is kept there", pin.display())]
    Pin {
        /// The file in a BPF file system.
        pin: PathBuf,
        /// The kernel's error.
        reason: String,
    },
    /// As [`Host::is_gone`] says.
    #[error("the control group is gone")]
    Gone,
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
    links: Links,
    namespaces: NetworkNamespaces,
    pin: Pin,
    /// While the policy holds downloads down.
    holder: Option<Holder>,
    /// While the policy follows advice.
    following: Option<Following>,
}

/// The programs at the control group.
#[derive(Debug)]
struct Links {
    choose: Link,
    packet: Link,
    connection: Link,
}

impl Links {
    fn attach(object: &Object, group: &impl AsFd) -> libbpf_rs::Result<Links> {
        let group = group.as_fd().as_raw_fd();
        let attach = |name: &str| load::program(object, name).attach_cgroup(group);
        Ok(Links {
            choose: attach("choose")?,
            packet: attach("packet")?,
            connection: attach("connection")?,
        })
    }

    /// Whether the kernel has taken them off, as the control group and all its connections are gone.
    fn are_severed(&self) -> bool {
        control_group::is_severed(&self.connection)
    }

    /// Puts the object's programs in the place of those of the one before: all or none.
    fn update(&mut self, object: &Object, before: &Object) -> libbpf_rs::Result<()> {
        let links = [
            (&mut self.choose, "choose"),
            (&mut self.packet, "packet"),
            (&mut self.connection, "connection"),
        ];
        let mut updated: Vec<(&mut Link, &str)> = Vec::new();
        for (link, name) in links {
            if let Err(error) = link.update_prog(&load::program(object, name)) {
                for (link, name) in updated {
                    let _ = link.update_prog(&load::program(before, name));
                }
                return Err(error);
            }
            updated.push((link, name));
        }
        Ok(())
    }
}

/// Whether any connection may be held: an advisor may say so of those that follow it.
fn holds(policy: &Policy) -> bool {
    let mut actions = policy.rules.iter().map(|rule| &rule.action);
    actions.any(|action| action.is_held || action.is_advised)
}

impl Host {
    /// Attaches the programs to a control group: from now on connections in it and below get what the orders say. What an
    /// earlier agent has left by the pin is taken over, and this leaves it likewise. What agents have left of groups that are
    /// gone is removed.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the programs.
    pub fn attach(group: impl AsFd, orders: &Orders<'_>, pin: &Pin) -> Result<Host, HostError> {
        messages::collect();
        Pin::remove_left();
        let generation = load::first_generation();
        let object = load::load(orders, generation, &load::Kept::Pinned(pin));
        let mut object = object.map_err(|error| refused(&error))?;
        pin.keep(&mut object)?;
        let holder = start_holder(&object, orders.policy).map_err(|error| refused(&error))?;
        let links = Links::attach(&object, &group).map_err(|error| refused(&error))?;
        let mut host = Host {
            generation,
            object,
            links,
            namespaces: NetworkNamespaces::default(),
            pin: pin.clone(),
            holder,
            following: None,
        };
        host.accompany(orders)?;
        adopt(&host.object)?;
        Ok(host)
    }

    /// Replaces the orders: there is no moment without any. Connections that are there follow with the next
    /// [`pass`](Host::pass), what is beside the programs with [`accompany`](Host::accompany).
    ///
    /// # Errors
    ///
    /// If the kernel refuses the programs, or [`HostError::Gone`] unless the orders have no rules; then the orders stay as
    /// they were.
    pub fn replace(&mut self, orders: &Orders<'_>) -> Result<(), HostError> {
        let generation = self.generation.wrapping_add(1);
        let kept = load::Kept::Loaded(&self.object);
        let object = load::load(orders, generation, &kept).map_err(|error| refused(&error))?;
        let begun = match self.holder {
            Some(_) => None,
            None => start_holder(&object, orders.policy).map_err(|error| refused(&error))?,
        };
        match self.links.update(&object, &self.object) {
            Err(_) if self.is_gone() => {
                // Without rules, nothing is to be given any more.
                if !orders.policy.rules.is_empty() {
                    return Err(HostError::Gone);
                }
            }
            updated => updated.map_err(|error| refused(&error))?,
        }
        self.holder = self.holder.take().or(begun);
        self.object = object;
        self.generation = generation;
        Ok(())
    }

    /// Holds downloads down and asks the policy's advisor from now on, or no longer, as the orders say.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it, or the advisor cannot be asked. What can be done has been done then.
    pub fn accompany(&mut self, orders: &Orders<'_>) -> Result<(), HostError> {
        let held = self.hold(orders.policy);
        self.follow(orders).and(held)
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

    /// Sees to it that what is held is let go even if this is killed, or ends the holding if the policy does not hold.
    fn hold(&mut self, policy: &Policy) -> Result<(), HostError> {
        let packet = &mut self.links.packet;
        if !holds(policy) {
            if self.holder.take().is_some() {
                let _ = packet.unpin();
            }
            // An agent that was killed may have left one.
            self.pin.drop_program();
            return Ok(());
        }
        if packet.pin_path().is_some() {
            return Ok(());
        }
        self.pin.keep_program(packet)
    }

    /// Whether the control group is gone, and with it all of its connections.
    pub fn is_gone(&self) -> bool {
        self.links.are_severed()
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

/// Begins to compute windows if the policy holds downloads down: before the programs hold any connection, as the first packet
/// of that would let it go.
fn start_holder(object: &Object, policy: &Policy) -> libbpf_rs::Result<Option<Holder>> {
    holds(policy).then(|| Holder::start(object)).transpose()
}

/// Runs an iterator over the connections of each network namespace.
fn everywhere(
    object: &Object,
    namespaces: &NetworkNamespaces,
    name: &str,
    mut each: impl FnMut(&[u8]),
) -> Result<(), HostError> {
    let link = attached(object, name)?;
    let seen = load::map(object, "namespaces");
    let call = || read(&link, &mut each);
    in_each(&seen, namespaces, call, HostError::Namespace)
}

/// Calls it in each network namespace that the programs have seen, and removes those from their map that are gone.
fn in_each<E>(
    seen: &impl MapCore,
    namespaces: &NetworkNamespaces,
    call: impl FnMut() -> Result<(), E>,
    failed: fn(io::Error) -> E,
) -> Result<(), E> {
    let inode = |key: &[u8]| key.try_into().map_or(0, u32::from_ne_bytes);
    let keys: Vec<Vec<u8>> = seen.keys().collect();
    for key in &keys {
        namespaces.note(inode(key));
    }
    let result = namespaces.each(call, failed);
    for key in keys.iter().filter(|key| !namespaces.has(inode(key))) {
        // If another has got its number by now, its next connection adds it again.
        let _ = seen.delete(key);
    }
    result
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
            let _ = self.links.packet.unpin();
            self.pin.drop_program();
        }
        if self.is_gone() {
            self.pin.remove();
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

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::MetadataExt;
    use std::process::{Child, Command, Stdio};
    use std::thread;

    use fairwind_testing::{eventually, in_new_network_namespace, permitted, root, wait_until};
    use fairwind_trace::kernel::check_requirements;

    use super::*;
    use crate::attach::LEASE;
    use crate::policy;

    /// Prints the largest rate of a connection, and stays until it is killed.
    const CONNECTS: &str = "
import socket, time
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
print(client.getsockopt(socket.SOL_SOCKET, 47), flush=True)
time.sleep(100)
";

    /// A control group of the test's own.
    struct Group(PathBuf);

    impl Group {
        fn make() -> Group {
            let root = fairwind_kernel::mounted("cgroup2").unwrap();
            let group = root.join(format!("fairwind-host-{}", std::process::id()));
            fs::create_dir(&group).unwrap();
            Group(group)
        }

        /// The program in it, in a network namespace of its own, and what it prints.
        fn connects(&self) -> (Child, String) {
            let procs = self.0.join("cgroup.procs");
            let mut child = in_new_network_namespace(move || {
                let enter = format!(
                    "echo 0 > {}; exec /usr/bin/python3 -c \"$1\"",
                    procs.display()
                );
                let mut command = Command::new("/bin/sh");
                command.args(["-c", &enter, "sh", CONNECTS]);
                command.stdout(Stdio::piped()).spawn().unwrap()
            });
            let mut line = String::new();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            output.read_line(&mut line).unwrap();
            (child, line.trim_end().to_owned())
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            // Its last process may not have been buried yet.
            eventually(|| fs::remove_dir(&self.0).is_ok());
        }
    }

    #[test]
    fn rules_hold_also_while_no_windows_are_computed_and_namespaces_that_are_gone_are_forgotten() {
        if !permitted(check_requirements()) || !permitted(root()) {
            return;
        }
        let group = Group::make();
        let text = "[[rule]]\nname = \"a\"\nbackground = true\nlimit = \"8Mbit/s\"\n";
        let policy = policy::read("agent.toml", text).unwrap();
        let opened = File::open(&group.0).unwrap();
        let inode = opened.metadata().unwrap().ino();
        let orders = Orders {
            policy: &policy,
            controls: &[None],
            group: inode,
            is_whole: false,
            is_dry: false,
        };
        let pin = Pin::of_group(inode);
        let mut host = Host::attach(&opened, &orders, &pin).unwrap();
        host.holder = None;
        thread::sleep(LEASE + Duration::from_millis(100));
        let (mut program, rate) = group.connects();
        assert_eq!(rate, "1000000");

        let seen = || load::map(&host.object, "namespaces").keys().count();
        assert_eq!(seen(), 1);
        program.kill().unwrap();
        program.wait().unwrap();
        wait_until("the namespace is forgotten", || {
            host.pass().unwrap();
            seen() == 0
        });
        drop(host);
        pin.drop_program();
        pin.remove();
    }
}
