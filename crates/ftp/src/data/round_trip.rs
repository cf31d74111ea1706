//! What the kernel knows of a TCP connection.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// `TCP_INFO`; fields that the kernel is too old for are zero. None if the socket is none of TCP's.
pub fn tcp_info(socket: impl AsFd) -> Option<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which `info` has; all of its fields are integers,
    // for which zeroes are values.
    unsafe {
        let descriptor = socket.as_fd().as_raw_fd();
        let place = info.as_mut_ptr().cast();
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        match libc::getsockopt(descriptor, level, name, place, &mut length) {
            0 => Some(info.assume_init()),
            _ => None,
        }
    }
}

/// The smoothed round trip of a TCP connection (`tcpi_rtt`); none if the socket is none.
pub fn round_trip(socket: impl AsFd) -> Option<Duration> {
    tcp_info(socket).map(|info| Duration::from_micros(info.tcpi_rtt.into()))
}
