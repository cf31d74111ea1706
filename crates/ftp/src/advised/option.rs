//! Socket options that no crate wraps. The only file of this module with unsafe code.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// `SO_BUF_LOCK`'s bit for a send buffer that somebody has set, which ends the kernel's autotuning.
pub(super) const SEND_LOCKED: u32 = 1;
/// The same of the receive buffer.
pub(super) const RECEIVE_LOCKED: u32 = 2;

/// `SO_MAX_PACING_RATE` that is no limit.
const UNLIMITED: u64 = u64::MAX;

/// Limits the rate, bytes a second; none lifts the limit.
pub(super) fn set_pacing(socket: impl AsFd, rate: Option<u64>) -> io::Result<()> {
    let rate = rate.unwrap_or(UNLIMITED);
    set(socket, libc::SO_MAX_PACING_RATE, &rate.to_ne_bytes())
}

/// Which buffers somebody has set: [`SEND_LOCKED`], [`RECEIVE_LOCKED`]. Linux 5.14.
pub(super) fn buffer_locks(socket: impl AsFd) -> io::Result<u32> {
    let mut value = [0; 4];
    get(socket, libc::SOL_SOCKET, libc::SO_BUF_LOCK, &mut value)?;
    Ok(u32::from_ne_bytes(value))
}

/// Gives buffers that are not named back to the kernel's autotuning.
pub(super) fn set_buffer_locks(socket: impl AsFd, locks: u32) -> io::Result<()> {
    set(socket, libc::SO_BUF_LOCK, &locks.to_ne_bytes())
}

/// What the kernel counts of a connection (`struct tcp_info` of linux/tcp.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counters {
    /// Segments sent again.
    pub retransmits: u64,
    /// Smallest round trip, microseconds; none if there was none yet.
    pub min_rtt_us: Option<u32>,
    /// Bytes that the other end has acknowledged.
    pub acknowledged: u64,
}

impl Counters {
    /// Those of a connection; none if the kernel does not tell.
    pub(super) fn of(socket: impl AsFd) -> Option<Self> {
        // Up to tcpi_min_rtt, which Linux has since 4.6.
        let mut info = [0; 152];
        let length = get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).ok()?;
        (length == info.len()).then(|| Self::read(&info))
    }

    fn read(info: &[u8; 152]) -> Self {
        let word = |at: usize| u32::from_ne_bytes(*info[at..].first_chunk().expect("inside"));
        let long = |at: usize| u64::from_ne_bytes(*info[at..].first_chunk().expect("inside"));
        Self {
            retransmits: word(100).into(),
            // The kernel's "never" is all ones.
            min_rtt_us: Some(word(148)).filter(|&rtt| rtt != u32::MAX && rtt != 0),
            acknowledged: long(120),
        }
    }
}

fn set(socket: impl AsFd, option: libc::c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as `value` has.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    match failed {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Answers how many bytes there were.
fn get(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = value.len() as libc::socklen_t;
    const { assert!(size_of::<libc::socklen_t>() == 4) };
    // SAFETY: the kernel writes at most `length` bytes into `value`, which has as many.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &mut length,
        )
    };
    match failed {
        0 => Ok(length as usize),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_counts_what_is_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 10_000]).unwrap();
        far.read_exact(&mut [0; 10_000]).unwrap();
        // Data from the other end carries an acknowledgement.
        far.write_all(b"!").unwrap();
        near.read_exact(&mut [0]).unwrap();
        let counters = Counters::of(&near).unwrap();
        // The SYN counts as a byte.
        assert_eq!(counters.acknowledged, 10_001);
        assert_eq!(counters.retransmits, 0);
        assert!(counters.min_rtt_us.is_some_and(|rtt| rtt < 1_000_000));
    }

    #[test]
    fn a_buffer_that_was_set_is_given_back_to_autotuning() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(buffer_locks(&near).unwrap(), 0);
        let socket = socket2::SockRef::from(&near);
        socket.set_send_buffer_size(100_000).unwrap();
        assert_eq!(buffer_locks(&near).unwrap(), SEND_LOCKED);
        set_buffer_locks(&near, 0).unwrap();
        assert_eq!(buffer_locks(&near).unwrap(), 0);
    }
}
