//! Hosts, links and sockets for tests of networks.

#![allow(dead_code, reason = "each of the tests' binaries needs some of them")]

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use fairwind_lab::LabError;
use fairwind_lab::host::{Host, HostConfig};
use fairwind_lab::network::{Network, NodeId, PipeId};
use fairwind_path::delay::{Delay, DelayConfig};
use fairwind_path::pipe::PipeConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::units::{self, Bandwidth};

/// The port of the sockets.
pub(crate) const PORT: u16 = 5001;

/// Whether the test can run.
pub(crate) fn permitted() -> bool {
    fairwind_testing::permitted(fairwind_lab::privilege::check())
}

pub(crate) fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

pub(crate) fn host(last: u8) -> Host {
    Host::create(HostConfig::new(address(last))).unwrap()
}

/// A UDP socket in the host, wherever it is used from.
pub(crate) fn socket(host: &Host) -> UdpSocket {
    let bind = || UdpSocket::bind(("0.0.0.0", PORT)).map_err(|e| LabError::Failed(e.to_string()));
    let socket = host.within(bind).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    socket
}

pub(crate) fn delayed(ms: u64) -> PipeConfig {
    PipeConfig {
        delay: DelayConfig {
            base: Delay::Constant(units::Duration::from_millis(ms)),
            ..DelayConfig::default()
        },
        ..PipeConfig::default()
    }
}

/// A pipe of this bandwidth with room for 1000 packets.
pub(crate) fn narrow(mbps: u64) -> PipeConfig {
    PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(mbps)),
        capacity: Capacity::Packets(1000),
        ..PipeConfig::default()
    }
}

/// A pipe in each direction.
pub(crate) fn link(
    network: &mut Network,
    a: NodeId,
    b: NodeId,
    config: &PipeConfig,
) -> [PipeId; 2] {
    [("there", a, b), ("back", b, a)]
        .map(|(name, from, to)| network.add_pipe(name, from, to, config.clone()).unwrap())
}
