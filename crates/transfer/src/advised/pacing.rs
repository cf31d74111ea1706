//! `SO_MAX_PACING_RATE`, which no crate wraps. The only unsafe code of this module.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// Limits the rate of a socket, bytes a second; none lifts the limit.
///
/// # Errors
/// If the socket option cannot be set.
pub(super) fn set(socket: impl AsFd, rate: Option<u64>) -> io::Result<()> {
    let rate = rate.unwrap_or(u64::MAX);
    // SAFETY: the kernel reads as many bytes as `rate` has.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const rate).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    };
    match failed {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
