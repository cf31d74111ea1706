//! Access to the sockets of running programs.
//!
//! Source: pidfd_open(2), pidfd_getfd(2), pid_namespaces(7).

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use nix::errno::Errno;

use crate::application::socket;
use crate::host::process::socket_inode;

/// Sets the congestion control of every TCP socket in the PID namespace of `first_process` that
/// listens or is connected to one of these addresses. Returns the number of sockets that had
/// another one.
pub fn set_congestion_control(
    first_process: i32,
    ends: [Ipv4Addr; 2],
    name: &str,
) -> io::Result<usize> {
    let mut changed = 0;
    for (pid, fd, _) in sockets(first_process) {
        // The process may have exited or closed the descriptor.
        let Ok(socket) = take(pid, fd) else { continue };
        if !is_tcp(&socket) || !is_concerned(&socket, ends) {
            continue;
        }
        if socket::congestion_control(&socket)? != name {
            socket::set_congestion_control(&socket, name)?;
            changed += 1;
        }
    }
    Ok(changed)
}

/// True if a process in the PID namespace of `first_process` has the socket.
pub fn holds(first_process: i32, inode: u64) -> bool {
    sockets(first_process).any(|(_, _, held)| held == inode)
}

/// Process, descriptor and inode of each socket in the PID namespace.
fn sockets(first_process: i32) -> impl Iterator<Item = (i32, i32, u64)> {
    processes(first_process).into_iter().flat_map(|pid| {
        let fds = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten();
        fds.filter_map(move |fd| {
            let number = fd.file_name().to_str()?.parse().ok()?;
            let inode = socket_inode(&fs::read_link(fd.path()).ok()?)?;
            Some((pid, number, inode))
        })
    })
}

/// The processes in the PID namespace of `first_process`, except that one.
fn processes(first_process: i32) -> Vec<i32> {
    let namespace =
        |pid: i32| -> Option<PathBuf> { fs::read_link(format!("/proc/{pid}/ns/pid")).ok() };
    let Some(wanted) = namespace(first_process) else {
        return Vec::new();
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| pid != first_process && namespace(pid).as_ref() == Some(&wanted))
        .collect()
}

/// Duplicates another process' socket into this process.
fn take(pid: i32, fd: i32) -> nix::Result<OwnedFd> {
    // SAFETY: the calls take numbers only.
    let process = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: the descriptor has just been opened and has no other owner.
    let process = unsafe { OwnedFd::from_raw_fd(process as i32) };
    // SAFETY: as above.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) };
    let fd = Errno::result(fd)?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn is_tcp(socket: &OwnedFd) -> bool {
    let mut protocol = [0; 4];
    let got = socket::get(socket, libc::SOL_SOCKET, libc::SO_PROTOCOL, &mut protocol);
    got.is_ok() && i32::from_ne_bytes(protocol) == libc::IPPROTO_TCP
}

/// True if the socket listens, or is connected to one of the addresses.
fn is_concerned(socket: &OwnedFd, ends: [Ipv4Addr; 2]) -> bool {
    let mut listens = [0; 4];
    let got = socket::get(socket, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, &mut listens);
    if got.is_ok() && i32::from_ne_bytes(listens) != 0 {
        return true;
    }
    socket::peer(socket).is_some_and(|peer| ends.contains(&peer))
}
