//! Other namespaces for the calling thread.
//!
//! Source: namespaces(7), unshare(2), setns(2).

use std::io;
use std::os::fd::BorrowedFd;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// A type of namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceType {
    /// Mount points.
    Mount,
    /// Network devices, addresses, routes and sockets.
    Network,
    /// Process IDs. The calling thread's future children are in the namespace, it is not.
    Pid,
}

/// Moves the calling thread into a new namespace.
///
/// # Errors
///
/// If the process lacks `CAP_SYS_ADMIN`, or a limit of namespaces is reached.
pub fn unshare(namespace: NamespaceType) -> io::Result<()> {
    let flags = match namespace {
        NamespaceType::Mount => UnshareFlags::NEWNS,
        NamespaceType::Network => UnshareFlags::NEWNET,
        NamespaceType::Pid => UnshareFlags::NEWPID,
    };
    // SAFETY: only `FILES` would separate this thread's descriptors from those of the others.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Moves the calling thread into an existing network namespace, of which this is a descriptor (`/proc/PID/ns/net`).
///
/// # Errors
///
/// If the process lacks `CAP_SYS_ADMIN` there or here, or it is no network namespace.
pub fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(
        namespace,
        Some(LinkNameSpaceType::Network),
    )?)
}
