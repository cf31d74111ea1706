//! Access to the sockets of running programs.
//!
//! Source: pidfd_open(2), pidfd_getfd(2), pid_namespaces(7).

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;

use fairwind_kernel::{open_sockets, processes};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_tcp_congestion, socket_acceptconn, socket_protocol, tcp_congestion,
};
use rustix::net::{getpeername, ipproto};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// Sets the congestion control of every TCP socket in the PID namespace of `first_process` that
/// listens or is connected to one of these addresses. Returns the number of sockets that had
/// another one.
pub(super) fn switch_congestion_control(
    first_process: i32,
    ends: [Ipv4Addr; 2],
    name: &str,
) -> io::Result<usize> {
    let mut changed = 0;
    for (pid, fd, _) in sockets(first_process) {
        // The process may have exited or closed the descriptor.
        let Ok(socket) = duplicate(pid, fd) else {
            continue;
        };
        if !is_tcp(&socket) || !is_concerned(&socket, ends) {
            continue;
        }
        if tcp_congestion(&socket)? != name {
            set_tcp_congestion(&socket, name)?;
            changed += 1;
        }
    }
    Ok(changed)
}

/// True if a process in the PID namespace of `first_process` has the socket.
pub(super) fn holds(first_process: i32, inode: u64) -> bool {
    sockets(first_process).any(|(_, _, held)| held == inode)
}

/// Process, descriptor and inode of each socket in the PID namespace.
fn sockets(first_process: i32) -> impl Iterator<Item = (i32, RawFd, u64)> {
    programs(first_process)
        .into_iter()
        .flat_map(|pid| open_sockets(pid).map(move |(fd, inode)| (pid, fd, inode)))
}

/// The processes in the PID namespace of `first_process`, except that one.
fn programs(first_process: i32) -> Vec<i32> {
    let namespace =
        |pid: i32| -> Option<PathBuf> { fs::read_link(format!("/proc/{pid}/ns/pid")).ok() };
    let Some(wanted) = namespace(first_process) else {
        return Vec::new();
    };
    processes()
        .filter(|&pid| pid != first_process && namespace(pid).as_ref() == Some(&wanted))
        .collect()
}

/// Duplicates another process' socket into this process.
fn duplicate(pid: i32, fd: RawFd) -> Result<OwnedFd, Errno> {
    let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    pidfd_getfd(process, fd, PidfdGetfdFlags::empty())
}

fn is_tcp(socket: &OwnedFd) -> bool {
    socket_protocol(socket) == Ok(Some(ipproto::TCP))
}

/// True if the socket listens, or is connected to one of the addresses.
fn is_concerned(socket: &OwnedFd, ends: [Ipv4Addr; 2]) -> bool {
    socket_acceptconn(socket) == Ok(true) || peer(socket).is_some_and(|peer| ends.contains(&peer))
}

/// The peer's address, if there is a peer and it has an IPv4 address.
fn peer(socket: &OwnedFd) -> Option<Ipv4Addr> {
    let address = SocketAddr::try_from(getpeername(socket).ok()??).ok()?;
    // An IPv6 socket has it as `::ffff:a.b.c.d`.
    match address.ip().to_canonical() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}
