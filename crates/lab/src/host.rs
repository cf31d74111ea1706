//! A host: a network namespace with a loopback and one TAP device, and TCP configured for
//! measurements.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;

use fairwind_kernel::set_sysctl;

use crate::error::{During, LabError};

mod inherited;
mod interface;
mod machine;
mod namespace;
mod queueing;
mod route;

pub(crate) mod process;
pub(crate) mod tap;

pub use machine::Pair;
pub use tap::Offload;

pub(crate) use inherited::Inherited;
pub(crate) use namespace::Namespace;

use route::Route;
use tap::{Tap, vnet};

/// The name of every host's interface.
pub const INTERFACE: &str = "fw0";

/// Room for twice a window of 16 MB.
const BUFFER_MAX: u64 = 64 << 20;

/// Configuration of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// The address.
    pub address: Ipv4Addr,
    /// MTU: the largest packet that the host sends, 576 to 65,521 IP bytes.
    pub mtu: u16,
    /// Who segments what the host sends and receives.
    pub offload: Offload,
    /// Congestion control of the host's connections, by the kernel's name; `None`: the machine's
    /// default.
    pub congestion_control: Option<String>,
    /// `net.ipv4.tcp_rmem`: smallest, initial and largest receive buffer of a connection, bytes.
    pub tcp_rmem: [u64; 3],
    /// `net.ipv4.tcp_wmem`: the same for the send buffer.
    pub tcp_wmem: [u64; 3],
    /// Initial congestion window, packets; `None`: the kernel's 10.
    pub initial_window: Option<u32>,
    /// Additional addresses, each for connections with one peer address.
    pub pairings: Vec<Pairing>,
    /// Other sysctls to set in the host's namespace: names as `sysctl` has them
    /// (`net.ipv4.tcp_recovery`), and values.
    pub sysctls: Vec<(String, String)>,
}

impl HostConfig {
    /// A host with this address and usual settings: an MTU of 1500 bytes, buffers of up to 64 MiB.
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

/// An additional address of a host, for connections with one peer address, which have their own
/// congestion control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairing {
    /// The host's address.
    pub own: Ipv4Addr,
    /// The peer's address.
    pub other: Ipv4Addr,
    /// Congestion control of the connections between the two, by the kernel's name; `None`: the
    /// machine's default.
    pub congestion_control: Option<String>,
}

/// A host. It exists as long as a clone of this value, or a program in the host.
#[derive(Clone, Debug)]
pub struct Host {
    config: HostConfig,
    namespace: Namespace,
    tap: Arc<Tap>,
}

impl Host {
    /// Creates the host. Needs `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// Fails if the MTU is out of range, or the kernel refuses the namespace, the device, a sysctl,
    /// an address or a route.
    pub fn create(config: HostConfig) -> Result<Host, LabError> {
        if !(576..=65_521).contains(&config.mtu) {
            return Err(LabError::Failed(format!(
                "the MTU of {} is {} bytes; 576 to 65521 can be",
                config.address, config.mtu
            )));
        }
        let namespace = Namespace::create()?;
        let tap = namespace.within(|| {
            set_sysctls(&config)?;
            let tap = Tap::create(INTERFACE, config.offload)?;
            interface::bring_up("lo")?;
            let interface = interface::configure(INTERFACE, config.address, config.mtu)?;
            route::add(&Route {
                interface,
                congestion_control: config.congestion_control.as_deref(),
                initial_window: config.initial_window,
                ..Route::default()
            })?;
            for pairing in &config.pairings {
                interface::add_address(interface, pairing.own)
                    .during(format!("giving {INTERFACE} the address {}", pairing.own))?;
                route::add(&Route {
                    interface,
                    to: Some(pairing.other),
                    source: Some(pairing.own),
                    congestion_control: pairing.congestion_control.as_deref(),
                    initial_window: config.initial_window,
                })?;
            }
            Ok(tap)
        })?;
        Ok(Host {
            config,
            namespace,
            tap: Arc::new(tap),
        })
    }

    /// Puts a device of the emulator into this process' own network namespace, which so becomes a
    /// host of the lab. It is reached at [`Pair::machine`] of the returned pair; [`Pair::host`] is
    /// for the lab's host at the other end. Nothing else of the machine's network is changed, and
    /// the device vanishes with the last clone of this.
    ///
    /// Connections that begin or end here use `congestion_control`, a name in the kernel, unless
    /// the program chooses one; `None`: the machine's default.
    ///
    /// # Errors
    /// Fails if the kernel refuses the device or its settings, or the machine's routes cover all
    /// pairs of addresses.
    pub fn of_this_machine(
        offload: Offload,
        congestion_control: Option<String>,
    ) -> Result<(Host, Pair), LabError> {
        let (tap, pair) = machine::device(offload)?;
        let config = HostConfig {
            offload,
            congestion_control,
            ..HostConfig::new(pair.machine)
        };
        // As in the lab's other hosts; the setting concerns the new device alone.
        let _ = set_sysctl(&format!("net.ipv6.conf.{}.disable_ipv6", tap.name()), "1");
        let interface = interface::configure(tap.name(), config.address, config.mtu)?;
        route::add(&Route {
            interface,
            to: Some(pair.host),
            congestion_control: config.congestion_control.as_deref(),
            ..Route::default()
        })?;
        Ok((
            Host {
                config,
                namespace: Namespace::current()?,
                tap: Arc::new(tap),
            },
            pair,
        ))
    }

    /// This host with another of its addresses as its first.
    pub fn at(&self, address: Ipv4Addr) -> Host {
        let mut host = self.clone();
        host.config.address = address;
        host
    }

    /// Its address.
    pub fn address(&self) -> Ipv4Addr {
        self.config.address
    }

    /// The configuration.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// Packets that the host's device dropped because the emulator did not read them in time.
    ///
    /// # Errors
    /// Fails if the kernel's table of interfaces cannot be read.
    pub fn device_drops(&self) -> Result<u64, LabError> {
        if let Some(uplink) = self.tap.uplink() {
            return Ok(uplink.lost());
        }
        let path = "/proc/thread-self/net/dev";
        let table = self
            .namespace
            .within(|| fs::read_to_string(path).during(format!("reading {path}")))?;
        Ok(transmit_drops(&table, self.tap.name()))
    }

    /// Runs `work` on a thread in the host's network namespace.
    ///
    /// # Errors
    /// Fails if the namespace cannot be entered, or with the error of `work`.
    pub fn within<R: Send>(
        &self,
        work: impl FnOnce() -> Result<R, LabError> + Send,
    ) -> Result<R, LabError> {
        self.namespace.within(work)
    }

    /// The inode of its network namespace, as `/proc/PID/ns/net` shows it for programs in the host.
    pub fn namespace_inode(&self) -> u32 {
        self.namespace.inode()
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    pub(crate) fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }
}

fn set_sysctls(config: &HostConfig) -> Result<(), LabError> {
    let set = |name: &str, value: &str| {
        set_sysctl(name, value).during(format!("setting {name} to `{value}`"))
    };
    // IPv6 neighbour discovery would add packets to the path. A kernel without IPv6 has no such
    // file and needs none.
    let _ = set_sysctl("net.ipv6.conf.all.disable_ipv6", "1");
    let _ = set_sysctl("net.ipv6.conf.default.disable_ipv6", "1");
    // A run must not inherit TCP metrics from an earlier one.
    set("net.ipv4.tcp_no_metrics_save", "1")?;
    set("net.ipv4.ping_group_range", "0 2147483647")?;
    set("net.ipv4.tcp_rmem", &words(config.tcp_rmem))?;
    set("net.ipv4.tcp_wmem", &words(config.tcp_wmem))?;
    let mut others = config.sysctls.iter();
    others.try_for_each(|(name, value)| set(name, value))
}

fn words(numbers: [u64; 3]) -> String {
    numbers.map(|number| number.to_string()).join(" ")
}

/// The column `drop` of an interface's transmit side.
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
