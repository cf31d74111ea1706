//! The operations on a listener as system calls alone, which may be used between fork and exec.

use std::io;
use std::ptr::{self, NonNull};

use libc::{
    POLLHUP, POLLIN, SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND,
    SECCOMP_USER_NOTIF_FLAG_CONTINUE, c_int, pollfd, seccomp_notif, seccomp_notif_resp,
};

use crate::checked;

/// Bytes of the memory into which calls are received: more than any kernel's `struct seccomp_notif` will have.
pub(super) const PAGE: usize = 4096;

/// Answers: the call is to be done; it is said to be done.
pub(super) const PROCEED: u32 = SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
pub(super) const DONE: u32 = 0;

/// Waits until a call waits. Returns false if no process is left that would do one.
pub(super) fn wait(listener: c_int) -> io::Result<bool> {
    loop {
        let mut fds = [pollfd {
            fd: listener,
            events: POLLIN,
            revents: 0,
        }];
        poll(&mut fds)?;
        if fds[0].revents & POLLIN != 0 {
            return Ok(true);
        }
        if fds[0].revents & POLLHUP != 0 {
            return Ok(false);
        }
    }
}

/// Waits until something has happened to one of the descriptors.
pub(super) fn poll(fds: &mut [pollfd]) -> io::Result<()> {
    loop {
        // SAFETY: the kernel reads and writes these structures.
        let result = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) };
        match checked(result) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(drop),
        }
    }
}

/// Receives a call. Returns whether there was one: its process may have been killed meanwhile.
///
/// # Safety
///
/// The notification is in memory of [`PAGE`] bytes to which nobody refers.
pub(super) unsafe fn receive(
    listener: c_int,
    notification: NonNull<seccomp_notif>,
) -> io::Result<bool> {
    // The kernel demands zeros.
    // SAFETY: by the caller.
    unsafe { ptr::write_bytes(notification.as_ptr().cast::<u8>(), 0, PAGE) };
    // SAFETY: by the caller; the kernel writes its structure, which is shorter.
    let result = unsafe { libc::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, notification.as_ptr()) };
    match checked(result) {
        Ok(_) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::EINTR) => Ok(false),
            _ => Err(error),
        },
    }
}

/// Answers a call.
pub(super) fn answer(listener: c_int, id: u64, flags: u32) -> io::Result<()> {
    let mut response = seccomp_notif_resp {
        id,
        val: 0,
        error: 0,
        flags,
    };
    // SAFETY: the kernel reads the response.
    let result = unsafe { libc::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
    checked(result).map(drop)
}
