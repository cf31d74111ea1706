//! A host: a network namespace with a loopback and one TUN device, and TCP set up to be measured.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::LabError;
use crate::interface::{Interfaces, Settings};
use crate::machine::{self, Pair};
use crate::namespace::Namespace;
use crate::route::{self, Route};
use crate::tun::Tun;

pub use crate::tun::Offload;

/// The name of every host's interface.
pub const INTERFACE: &str = "fw0";

/// Packets that a host's device holds while the emulator is busy: no burst of one connection is
/// larger, and what is dropped for it is counted and told.
const DEVICE_QUEUE: u16 = 30_000;

/// A window of 16 MB fits twice over.
const BUFFER_MAX: u64 = 64 << 20;

/// What a host is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Its address.
    pub address: Ipv4Addr,
    /// Largest packet that it sends, in IP bytes, 576 to 65,521.
    pub mtu: u16,
    /// Who segments.
    pub offload: Offload,
    /// The congestion control of its connections, by the kernel's name; none: the machine's default.
    pub congestion_control: Option<String>,
    /// `net.ipv4.tcp_rmem`: least, first and largest receive buffer of a connection, in bytes.
    pub tcp_rmem: [u64; 3],
    /// `net.ipv4.tcp_wmem`: the same of the send buffer.
    pub tcp_wmem: [u64; 3],
    /// Packets that a connection may send before the first acknowledgement; none: the kernel's 10.
    pub initial_window: Option<u32>,
    /// More addresses, each for connections with one other.
    pub pairings: Vec<Pairing>,
    /// What else to set in the host's namespace: names as `sysctl` has them
    /// (`net.ipv4.tcp_recovery`), and values.
    pub sysctls: Vec<(String, String)>,
}

impl HostConfig {
    /// A host with this address and everything else as on most machines: an MTU of 1500 bytes, buffers
    /// of up to 64 MiB.
    pub fn new(address: Ipv4Addr) -> HostConfig {
        HostConfig {
            address,
            mtu: 1500,
            offload: Offload::default(),
            congestion_control: None,
            tcp_rmem: [4096, 131_072, BUFFER_MAX],
            tcp_wmem: [4096, 16_384, BUFFER_MAX],
            initial_window: None,
            pairings: Vec::new(),
            sysctls: Vec::new(),
        }
    }
}

/// An address of a host that is for connections with one other address: these have a congestion
/// control of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairing {
    /// The host's.
    pub own: Ipv4Addr,
    /// The other.
    pub other: Ipv4Addr,
    /// Of the connections between them, by the kernel's name; none: the machine's default.
    pub congestion_control: Option<String>,
}

/// A host, as long as this or a program in it lives.
#[derive(Clone, Debug)]
pub struct Host {
    config: HostConfig,
    namespace: Arc<Namespace>,
    tun: Arc<Tun>,
}

impl Host {
    /// Makes the host. Needs `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn create(config: HostConfig) -> Result<Host, LabError> {
        if !(576..=65_521).contains(&config.mtu) {
            return Err(LabError::Network(format!(
                "the MTU of {} is {} bytes; 576 to 65521 can be",
                config.address, config.mtu
            )));
        }
        let namespace = Namespace::create()?;
        let tun = namespace.within(|| {
            set_sysctls(&config)?;
            let tun = Tun::create(INTERFACE, config.offload)?;
            let interfaces = Interfaces::open()?;
            interfaces.raise("lo")?;
            interfaces.set_up(
                INTERFACE,
                Settings {
                    address: config.address,
                    mtu: config.mtu,
                    queue: DEVICE_QUEUE,
                },
            )?;
            let interface = interfaces.index(INTERFACE)?;
            route::add(&Route {
                interface,
                congestion_control: config.congestion_control.as_deref(),
                initial_window: config.initial_window,
                ..Route::default()
            })?;
            for (number, pairing) in config.pairings.iter().enumerate() {
                interfaces.add_address(INTERFACE, number, pairing.own)?;
                route::add(&Route {
                    interface,
                    to: Some(pairing.other),
                    source: Some(pairing.own),
                    congestion_control: pairing.congestion_control.as_deref(),
                    initial_window: config.initial_window,
                })?;
            }
            Ok(tun)
        })?;
        Ok(Host {
            config,
            namespace: Arc::new(namespace),
            tun: Arc::new(tun),
        })
    }

    /// Puts a device of the emulator into this process' own network, which so becomes a host of the
    /// lab that is reached at the second address of the pair answered; the first is for the host that
    /// it speaks to. Nothing else of the machine's network is changed, and the device vanishes with
    /// the last clone of this. See [`crate::machine`].
    ///
    /// Connections that begin or end here have `congestion_control`, a name in the kernel, unless the
    /// program chooses; none: the machine's default.
    ///
    /// # Errors
    /// What the kernel refused, or that the machine's routes leave no pair of addresses.
    pub fn of_this_machine(
        offload: Offload,
        congestion_control: Option<String>,
    ) -> Result<(Host, Pair), LabError> {
        let (tun, pair) = machine::device(offload)?;
        let config = HostConfig {
            offload,
            congestion_control,
            ..HostConfig::new(pair.machine)
        };
        let interfaces = Interfaces::open()?;
        let settings = Settings {
            address: config.address,
            mtu: config.mtu,
            queue: DEVICE_QUEUE,
        };
        // As in the lab's own hosts; it is the new device's alone.
        let _ = set_sysctl(&format!("net.ipv6.conf.{}.disable_ipv6", tun.name()), "1");
        interfaces.set_up(tun.name(), settings)?;
        route::add(&Route {
            interface: interfaces.index(tun.name())?,
            to: Some(pair.host),
            congestion_control: config.congestion_control.as_deref(),
            ..Route::default()
        })?;
        Ok((
            Host {
                config,
                namespace: Arc::new(Namespace::current()?),
                tun: Arc::new(tun),
            },
            pair,
        ))
    }

    /// The same host by another of its addresses.
    pub fn at(&self, address: Ipv4Addr) -> Host {
        let mut host = self.clone();
        host.config.address = address;
        host
    }

    /// What it was made from.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// Packets that its device dropped because the emulator did not read them in time.
    ///
    /// # Errors
    /// If the kernel's table of interfaces cannot be read.
    pub fn device_drops(&self) -> Result<u64, LabError> {
        if let Some(uplink) = self.tun.uplink() {
            return Ok(uplink.lost());
        }
        let path = "/proc/thread-self/net/dev";
        let table = self.namespace.within(|| {
            fs::read_to_string(path)
                .map_err(|error| LabError::system(format!("reading {path}"), error))
        })?;
        Ok(transmit_drops(&table, self.tun.name()))
    }

    /// Does something on a thread in the host's network.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or the work fails.
    pub fn within<R: Send>(
        &self,
        work: impl FnOnce() -> Result<R, LabError> + Send,
    ) -> Result<R, LabError> {
        self.namespace.within(work)
    }

    /// The number of its network namespace: what `/proc/PID/ns/net` of the programs in it shows.
    pub fn namespace_inode(&self) -> u32 {
        self.namespace.inode()
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    pub(crate) fn tun(&self) -> &Arc<Tun> {
        &self.tun
    }
}

fn set_sysctls(config: &HostConfig) -> Result<(), LabError> {
    // Neighbour discovery would put packets on the path that nobody sent. A kernel without IPv6 has
    // no such file and needs none.
    let _ = set_sysctl("net.ipv6.conf.all.disable_ipv6", "1");
    let _ = set_sysctl("net.ipv6.conf.default.disable_ipv6", "1");
    // A run must not remember the one before.
    set_sysctl("net.ipv4.tcp_no_metrics_save", "1")?;
    set_sysctl("net.ipv4.ping_group_range", "0 2147483647")?;
    set_sysctl("net.ipv4.tcp_rmem", &words(config.tcp_rmem))?;
    set_sysctl("net.ipv4.tcp_wmem", &words(config.tcp_wmem))?;
    let set = |(name, value): &(String, String)| set_sysctl(name, value);
    config.sysctls.iter().try_for_each(set)
}

/// Sets what `name` means in the network namespace of the calling thread.
fn set_sysctl(name: &str, value: &str) -> Result<(), LabError> {
    fs::write(sysctl_path(name), value)
        .map_err(|error| LabError::system(format!("setting {name} to `{value}`"), error))
}

fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

fn words(numbers: [u64; 3]) -> String {
    numbers.map(|number| number.to_string()).join(" ")
}

/// The column `drop` of the transmitting side of an interface.
fn transmit_drops(table: &str, interface: &str) -> u64 {
    let line = table
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_drops_are_the_fourth_transmit_column() {
        let table = "Inter-|   Receive  |  Transmit\n    lo: 1 1 0 0 0 0 0 0 1 1 0 9 0 0 0 0\n   \
                     fw0: 10 1 0 5 0 0 0 0 20 2 0 7 0 0 0 0\n";
        assert_eq!(transmit_drops(table, "fw0"), 7);
        assert_eq!(transmit_drops("Inter-|\n", "fw0"), 0);
    }
}
