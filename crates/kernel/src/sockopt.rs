//! Socket options and counters that rustix does not have.
//!
//! Source: socket(7), tcp(7), sock_diag(7); net/core/sock.c and net/ipv4/tcp.c of Linux.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libc::{IPPROTO_TCP, SOL_SOCKET, c_int};

use crate::checked;

/// asm-generic/socket.h
const SO_BUF_LOCK: c_int = 72;
const SO_PEERPIDFD: c_int = 77;

/// Limits the rate at which TCP paces a socket (`SO_MAX_PACING_RATE`), bytes a second; `None` lifts the limit.
///
/// # Errors
///
/// If the kernel refuses the option.
pub fn set_max_pacing_rate(socket: impl AsFd, rate: Option<u64>) -> io::Result<()> {
    let rate = rate.unwrap_or(u64::MAX);
    set(
        socket,
        SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        &rate.to_ne_bytes(),
    )
}

/// Sets the maximum segment size (`TCP_MAXSEG`), bytes of payload and TCP options.
///
/// # Errors
///
/// If the size is out of the kernel's range.
pub fn set_max_segment_size(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set(socket, IPPROTO_TCP, libc::TCP_MAXSEG, &bytes.to_ne_bytes())
}

/// Sets the number of unsent bytes from which on the socket is not writable (`TCP_NOTSENT_LOWAT`).
///
/// # Errors
///
/// If this is not a TCP socket.
pub fn set_notsent_lowat(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = bytes.to_ne_bytes();
    set(socket, IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes)
}

/// Limits the window that a TCP socket offers (`TCP_WINDOW_CLAMP`), bytes; what has been offered already is not
/// taken back.
///
/// # Errors
///
/// If this is not a TCP socket.
pub fn set_window_clamp(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = bytes.to_ne_bytes();
    set(socket, IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, &bytes)
}

/// Lets a socket be written to only while less waits to be sent (`TCP_NOTSENT_LOWAT`), bytes.
///
/// # Errors
///
/// If this is not a TCP socket.
pub fn set_unsent(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = bytes.to_ne_bytes();
    set(socket, IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes)
}

/// Sets the priority of what a socket sends within this host (`SO_PRIORITY`), 0 to 6.
///
/// # Errors
///
/// If a greater one needs a right that this process lacks.
pub fn set_priority(socket: impl AsFd, priority: u32) -> io::Result<()> {
    let priority = priority.to_ne_bytes();
    set(socket, SOL_SOCKET, libc::SO_PRIORITY, &priority)
}

/// What [`set_priority`] sets; 0 if nobody has set it.
///
/// # Errors
///
/// If this is not a socket.
pub fn priority(socket: impl AsFd) -> io::Result<u32> {
    let mut priority = [0; 4];
    get(socket, SOL_SOCKET, libc::SO_PRIORITY, &mut priority)?;
    Ok(u32::from_ne_bytes(priority))
}

/// The kernel's number of a socket, never reused (`SO_COOKIE`).
///
/// # Errors
///
/// If this is not a socket.
pub fn cookie(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes = [0; 8];
    get(socket, SOL_SOCKET, libc::SO_COOKIE, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// A handle of the process that has connected a Unix socket from the other end (`SO_PEERPIDFD`, Linux 6.5).
///
/// # Errors
///
/// If the process is gone, or the kernel does not have the option (`ENOPROTOOPT`).
pub fn peer_process(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut bytes = [0; 4];
    get(socket, SOL_SOCKET, SO_PEERPIDFD, &mut bytes)?;
    // SAFETY: the kernel has opened this descriptor for nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(c_int::from_ne_bytes(bytes)) })
}

/// Which buffers a program has set, so that they are not autotuned (`SO_BUF_LOCK`, Linux 5.15): the send buffer
/// if bit 0 is set, the receive buffer if bit 1 is.
///
/// # Errors
///
/// If the kernel does not have the option.
pub fn buffer_locks(socket: impl AsFd) -> io::Result<u32> {
    let mut locks = [0; 4];
    get(socket, SOL_SOCKET, SO_BUF_LOCK, &mut locks)?;
    Ok(u32::from_ne_bytes(locks))
}

/// Sets what [`buffer_locks`] reads.
///
/// # Errors
///
/// If the kernel does not have the option.
pub fn set_buffer_locks(socket: impl AsFd, locks: u32) -> io::Result<()> {
    set(socket, SOL_SOCKET, SO_BUF_LOCK, &locks.to_ne_bytes())
}

/// Freezes a connection (`TCP_REPAIR`): from now on it sends nothing, not even when it is closed.
///
/// # Errors
///
/// If the process lacks `CAP_NET_ADMIN`.
pub fn enter_repair_mode(socket: impl AsFd) -> io::Result<()> {
    const TCP_REPAIR: c_int = 19;
    let on: c_int = 1;
    set(socket, IPPROTO_TCP, TCP_REPAIR, &on.to_ne_bytes())
}

/// Packets that the socket has dropped so far, for lack of room in its receive buffer for instance
/// (`SO_MEMINFO`, Linux 4.12).
///
/// # Errors
///
/// If the kernel does not have the option.
pub fn drops(socket: impl AsFd) -> io::Result<u32> {
    const SO_MEMINFO: c_int = 55;
    const SK_MEMINFO_DROPS: usize = 8;
    let mut counters = [0; 4 * (SK_MEMINFO_DROPS + 1)];
    if get(socket, SOL_SOCKET, SO_MEMINFO, &mut counters)? < counters.len() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let (_, drops) = counters
        .split_last_chunk()
        .expect("the last of nine numbers");
    Ok(u32::from_ne_bytes(*drops))
}

/// Bytes written to a TCP socket and not yet acknowledged (`SIOCOUTQ`).
///
/// # Errors
///
/// If this is not a socket.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<u32> {
    let mut bytes: c_int = 0;
    // SAFETY: the kernel writes an integer. SIOCOUTQ is TIOCOUTQ.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    checked(result)?;
    Ok(bytes as u32)
}

/// Reads an option. Returns the number of bytes written to `value`.
pub(crate) fn get(
    socket: impl AsFd,
    level: c_int,
    option: c_int,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `value`; no caller reads an option that refers to
    // other memory.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    checked(result)?;
    Ok(length as usize)
}

/// Sets an option from the bytes of `value`.
pub(crate) fn set(socket: impl AsFd, level: c_int, option: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads the bytes of `value`; no caller sets an option that refers to other memory.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    checked(result).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::{Duration, Instant};

    use fairwind_testing::connection;

    use super::*;

    fn number(socket: &TcpStream, level: c_int, option: c_int) -> u32 {
        let mut value = [0; 4];
        assert_eq!(get(socket, level, option, &mut value).unwrap(), 4);
        u32::from_ne_bytes(value)
    }

    #[test]
    fn options_that_are_set_are_read() {
        let (socket, _far) = connection();
        set_notsent_lowat(&socket, 16_384).unwrap();
        assert_eq!(
            number(&socket, IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
            16_384
        );
        set_max_pacing_rate(&socket, Some(125_000)).unwrap();
        assert_eq!(
            number(&socket, SOL_SOCKET, libc::SO_MAX_PACING_RATE),
            125_000
        );
        set_max_pacing_rate(&socket, None).unwrap();
        let no_limit = number(&socket, SOL_SOCKET, libc::SO_MAX_PACING_RATE);
        assert_eq!(no_limit, u32::MAX);
        assert!(set_max_segment_size(&socket, 1).is_err());
        set_window_clamp(&socket, 100_000).unwrap();
        let clamp = number(&socket, IPPROTO_TCP, libc::TCP_WINDOW_CLAMP);
        assert_eq!(clamp, 100_000);
    }

    #[test]
    fn the_process_at_the_other_end_is_known() {
        let (near, _far) = UnixStream::pair().unwrap();
        match peer_process(&near) {
            Ok(process) => {
                let info = format!("/proc/self/fdinfo/{}", process.as_raw_fd());
                let info = std::fs::read_to_string(info).unwrap();
                let own = format!("Pid:\t{}", std::process::id());
                assert!(info.lines().any(|line| line == own), "{info}");
            }
            // Before Linux 6.5.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT)),
        }
    }

    #[test]
    fn bytes_count_until_they_are_acknowledged() {
        let (mut near, mut far) = connection();
        near.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(sent) = near.write(&[0; 65_536]) {
            written += sent;
        }
        assert!(unacknowledged(&near).unwrap() > 0);
        far.read_exact(&mut vec![0; written]).unwrap();
        // A delayed acknowledgement takes 40 ms.
        let deadline = Instant::now() + Duration::from_secs(10);
        while unacknowledged(&near).unwrap() > 0 {
            assert!(Instant::now() < deadline);
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn datagrams_without_room_are_drops() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(drops(&socket).unwrap(), 0);
        let address = socket.local_addr().unwrap();
        let mut buffer = [0; 4];
        get(&socket, SOL_SOCKET, libc::SO_RCVBUF, &mut buffer).unwrap();
        for _ in 0..=u32::from_ne_bytes(buffer) / 1_000 {
            socket.send_to(&[0; 1_000], address).unwrap();
        }
        assert!(drops(&socket).unwrap() > 0);
    }
}
