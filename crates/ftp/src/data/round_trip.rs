//! What the kernel reports about a TCP connection.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// `TCP_INFO`; fields that the kernel is too old for are zero. None if this is not a TCP socket.
pub fn tcp_info(socket: impl AsFd) -> Option<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which `info` has; all of its fields are integers,
    // for which zero is a valid value.
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

/// The shortest recent round-trip time of a TCP connection (`tcpi_min_rtt`); none if this is not a TCP
/// socket, or nothing has been acknowledged yet.
pub fn shortest_round_trip(socket: impl AsFd) -> Option<Duration> {
    sampled(tcp_info(socket)?.tcpi_min_rtt)
}

/// Decodes `tcpi_min_rtt`, microseconds; before the first sample it is all ones.
pub fn sampled(min_rtt: u32) -> Option<Duration> {
    (1..u32::MAX)
        .contains(&min_rtt)
        .then(|| Duration::from_micros(min_rtt.into()))
}

/// Whether the connection's latest sample of its delivery rate was limited by the application, which had
/// no more to send (`tcpi_delivery_rate_app_limited`, Linux 4.9); none if this is not a TCP socket.
pub fn application_limited(socket: impl AsFd) -> Option<bool> {
    // A bit of the eighth byte, which libc's structure omits.
    let mut head = [0_u8; 8];
    let mut length = size_of_val(&head) as libc::socklen_t;
    let descriptor = socket.as_fd().as_raw_fd();
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the kernel writes at most `length` bytes, which `head` has.
    let read = unsafe {
        let place = head.as_mut_ptr().cast();
        libc::getsockopt(descriptor, level, name, place, &mut length)
    };
    let bit = if cfg!(target_endian = "big") {
        0x80
    } else {
        0x01
    };
    (read == 0).then_some(head[7] & bit != 0)
}
