//! The round trip as the kernel knows it.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The smoothed round trip of a TCP connection (`tcpi_rtt`); none if the socket is none.
pub fn round_trip(socket: impl AsFd) -> Option<Duration> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which `info` has; all of its fields are integers,
    // for which zeroes are values.
    let info = unsafe {
        let descriptor = socket.as_fd().as_raw_fd();
        let place = info.as_mut_ptr().cast();
        if libc::getsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            place,
            &mut length,
        ) != 0
        {
            return None;
        }
        info.assume_init()
    };
    Some(Duration::from_micros(info.tcpi_rtt.into()))
}
