//! A socket of the command, for as long as this process has a duplicate of it.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use fairwind_kernel::{Process, TcpInfo, sockopt};
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_ip_tos, set_ipv6_tclass, set_tcp_congestion, socket_cookie, socket_domain, socket_protocol,
    tcp_congestion,
};
use rustix::net::{AddressFamily, ipproto};

use super::plan::Plan;

/// The traffic class of the Lower-Effort service: DSCP 1 (RFC 8622).
const LOWER_EFFORT: u8 = 1 << 2;
/// `IPPROTO_MPTCP`
const MPTCP: u32 = 262;

/// What a descriptor is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A socket of TCP over IPv4 or IPv6.
    Tcp,
    /// One of Multipath TCP, whose connections are several.
    Multipath,
    /// Anything else.
    Other,
}

/// What has become of a socket's congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Given {
    /// None was to be given.
    #[default]
    Nothing,
    /// It has it.
    Control,
    /// It keeps what its program has chosen.
    Own,
    /// The kernel has refused it.
    Refused,
}

/// The duplicate. Nothing else of the program waits for it: it is to be dropped within microseconds.
#[derive(Debug)]
pub(super) struct Taken(OwnedFd);

impl Taken {
    /// Takes the descriptor of a process.
    pub(super) fn from(process: &Process, descriptor: RawFd) -> Result<Taken, Errno> {
        process.take(descriptor).map(Taken)
    }

    pub(super) fn kind(&self) -> Kind {
        let domain = socket_domain(&self.0);
        if !matches!(domain, Ok(AddressFamily::INET | AddressFamily::INET6)) {
            return Kind::Other;
        }
        match socket_protocol(&self.0) {
            Ok(Some(ipproto::TCP)) => Kind::Tcp,
            Ok(Some(other)) if other.as_raw().get() == MPTCP => Kind::Multipath,
            _ => Kind::Other,
        }
    }

    /// The kernel's number for the socket, never reused.
    pub(super) fn cookie(&self) -> io::Result<u64> {
        Ok(socket_cookie(&self.0)?)
    }

    /// By which `/proc/PID/fd` has the socket.
    pub(super) fn inode(&self) -> io::Result<u64> {
        Ok(fstat(&self.0)?.st_ino)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Whether its address will be that of the peer, so far as is known before it has connected.
    pub(super) fn is_own(&self, peer: IpAddr) -> bool {
        let bound = self.local().map(|local| local.ip());
        let bound = bound.filter(|address| !address.is_unspecified());
        bound.or_else(|| source_to(peer)) == Some(peer)
    }

    /// Gives it what is planned.
    pub(super) fn give(&self, plan: &Plan, has_chosen: bool) -> Given {
        if let Some(rate) = plan.max_rate {
            let _ = sockopt::set_max_pacing_rate(&self.0, Some(rate.into()));
        }
        if plan.is_lower_effort {
            // A socket of IPv6 may have a connection over IPv4.
            let _ = set_ip_tos(&self.0, LOWER_EFFORT);
            let _ = set_ipv6_tclass(&self.0, LOWER_EFFORT.into());
        }
        match &plan.control {
            None => Given::Nothing,
            Some(_) if has_chosen && !plan.is_forced => Given::Own,
            Some(control) => match set_tcp_congestion(&self.0, control) {
                Ok(()) => Given::Control,
                Err(_) => Given::Refused,
            },
        }
    }

    /// Its congestion control, by the kernel's name.
    pub(super) fn control(&self) -> String {
        tcp_congestion(&self.0).unwrap_or_default()
    }

    pub(super) fn info(&self) -> io::Result<TcpInfo> {
        TcpInfo::of(&self.0)
    }

    /// From now on it offers a window of so many bytes at most.
    pub(super) fn offer(&self, window: u32) -> io::Result<()> {
        sockopt::set_window_clamp(&self.0, window)
    }

    /// Addresses and ports of this host and of the peer; none before it has them.
    pub(super) fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        let local = self.local()?;
        let remote = rustix::net::getpeername(&self.0).ok()?;
        Some((local, canonical(SocketAddr::try_from(remote?).ok()?)))
    }

    /// Address and port of this host.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        let local = rustix::net::getsockname(&self.0).ok()?;
        Some(canonical(SocketAddr::try_from(local).ok()?))
    }
}

/// The address by which this host reaches another.
fn source_to(peer: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match peer {
        IpAddr::V4(_) => [0; 4].into(),
        IpAddr::V6(_) => [0u16; 8].into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Nothing is sent; any port will do.
    socket.connect((peer, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// An address of IPv4 as such, also where an IPv6 socket has it.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
