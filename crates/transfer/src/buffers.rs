//! The buffers of a live TCP socket on Linux.
//!
//! - `SO_RCVBUF` and `SO_SNDBUF` are capped at `net.core.rmem_max` and `wmem_max` and then doubled, the
//!   second half being for bookkeeping; `SO_RCVBUFFORCE` and `SO_SNDBUFFORCE` are not capped but need
//!   `CAP_NET_ADMIN` (socket(7)).
//! - Either call turns off the kernel's autotuning of that buffer. Autotuning reaches
//!   `net.ipv4.tcp_rmem[2]` and `tcp_wmem[2]`, which may be more than a program can set; `SO_BUF_LOCK`
//!   (Linux 5.15) returns the buffer to autotuning.
//! - A larger receive buffer alone does not widen the window: the kernel has set `TCP_WINDOW_CLAMP` from
//!   the size that the buffer had, and does not raise it for a buffer that a program sets.
//! - The window scale is fixed in the handshake, from the largest of the buffer, `tcp_rmem[2]` and
//!   `rmem_max`; from the buffer alone if a program has set that (`tcp_select_initial_window`).

use std::io;
use std::os::fd::AsFd;

use fairwind_kernel::sockopt::{buffer_locks, set_buffer_locks, set_window_clamp};
use fairwind_kernel::sysctl_numbers;
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::Direction;

/// A clamp that limits no window: the largest that RFC 7323 allows.
const NO_CLAMP: u32 = 1 << 30;

/// Outcome of a request for a buffer size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granted {
    /// The buffer has the size asked for.
    Whole,
    /// The system's limit cut it to this size, bytes.
    Cut(u64),
    /// The limit for programs is below what autotuning may reach, so the buffer is autotuned, starting at
    /// this size, bytes.
    Autotuned(u64),
}

/// The kernel's limits, in bytes as passed to setsockopt: half of what sockets then have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// What an unprivileged program can set: `rmem_max`, `wmem_max`.
    pub settable: u64,
    /// What autotuning can reach: half of `tcp_rmem[2]`, `tcp_wmem[2]`.
    pub adapted: u64,
}

/// What concerns the buffer for the bytes that go this way: `SO_SNDBUF` or `SO_RCVBUF`.
impl Direction {
    /// The sysctl that caps what programs ask for.
    pub fn buffer_sysctl(self) -> &'static str {
        match self {
            Self::Send => "net.core.wmem_max",
            Self::Receive => "net.core.rmem_max",
        }
    }

    /// The current limits; Linux's defaults where they cannot be read.
    pub fn buffer_limits(self) -> Limits {
        let (adapted, default) = match self {
            Self::Send => ("net.ipv4.tcp_wmem", 4 << 20),
            Self::Receive => ("net.ipv4.tcp_rmem", 6 << 20),
        };
        Limits {
            settable: last_number(self.buffer_sysctl()).unwrap_or(212_992),
            adapted: last_number(adapted).unwrap_or(default) / 2,
        }
    }

    fn lock_bit(self) -> u32 {
        match self {
            Self::Send => 1,
            Self::Receive => 2,
        }
    }
}

fn last_number(sysctl: &str) -> Option<u64> {
    sysctl_numbers(sysctl)?.pop()
}

/// The buffer's size, in bytes as passed to setsockopt.
///
/// # Errors
/// If the socket option cannot be read.
pub fn size(socket: impl AsFd, side: Direction) -> io::Result<u64> {
    let doubled = match side {
        Direction::Send => sockopt::socket_send_buffer_size(socket)?,
        Direction::Receive => sockopt::socket_recv_buffer_size(socket)?,
    };
    Ok(doubled as u64 / 2)
}

/// Sets the buffer, beyond the limits for programs if this process may do that, and lets the window grow
/// with a receive buffer. A buffer that autotuning can make larger than this process may is left to it.
///
/// # Errors
/// If a socket option cannot be read or set.
pub fn set(socket: impl AsFd, side: Direction, bytes: u32) -> io::Result<Granted> {
    let socket = socket.as_fd();
    let granted = match force(socket, side, bytes) {
        Ok(()) => Granted::Whole,
        Err(Errno::PERM) => set_within_limits(socket, side, bytes)?,
        Err(error) => return Err(error.into()),
    };
    if side == Direction::Receive {
        set_window_clamp(socket, NO_CLAMP)?;
    }
    Ok(granted)
}

fn set_within_limits(socket: impl AsFd, side: Direction, bytes: u32) -> io::Result<Granted> {
    let limits = side.buffer_limits();
    let (wanted, settable) = (u64::from(bytes), limits.settable);
    let adapts = wanted > settable && limits.adapted > settable;
    // Never shrink a buffer that the kernel has already grown.
    if !adapts || size(&socket, side)? < settable {
        let bytes = wanted.min(settable) as usize;
        match side {
            Direction::Send => sockopt::set_socket_send_buffer_size(&socket, bytes)?,
            Direction::Receive => sockopt::set_socket_recv_buffer_size(&socket, bytes)?,
        }
    }
    if adapts {
        give_back(&socket, side)?;
        return Ok(Granted::Autotuned(size(&socket, side)?));
    }
    Ok(if wanted <= settable {
        Granted::Whole
    } else {
        Granted::Cut(settable)
    })
}

fn force(socket: impl AsFd, side: Direction, bytes: u32) -> Result<(), Errno> {
    match side {
        Direction::Send => sockopt::set_socket_send_buffer_size_force(socket, bytes as usize),
        Direction::Receive => sockopt::set_socket_recv_buffer_size_force(socket, bytes as usize),
    }
}

/// Returns the buffer to autotuning, starting at its current size.
///
/// # Errors
/// If `SO_BUF_LOCK` cannot be read or set, as before Linux 5.15.
pub fn give_back(socket: impl AsFd, side: Direction) -> io::Result<()> {
    let locks = buffer_locks(&socket)?;
    set_buffer_locks(socket, locks & !side.lock_bit())
}

/// Before a socket connects or listens: makes sure that its window can grow to `bytes`.
///
/// Does nothing if the sysctls yield a sufficient scale anyway, and can do nothing without
/// `CAP_NET_ADMIN`: a buffer that an unprivileged program may set yields no larger scale than an
/// autotuned one. If the buffer has been widened ([`is_widened`]), [`settle_window_scale`] undoes that.
///
/// # Errors
/// If the buffer cannot be set for a reason other than missing privileges.
pub fn prepare_window_scale(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let limits = Direction::Receive.buffer_limits();
    let known = limits.settable.max(2 * limits.adapted);
    if window_scale(known) >= window_scale(bytes.into()) {
        return Ok(());
    }
    match force(socket, Direction::Receive, bytes) {
        Ok(()) | Err(Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether [`prepare_window_scale`] has widened the buffer of the socket, or of the one that it was
/// accepted from.
///
/// # Errors
/// If a socket option cannot be read.
pub fn is_widened(socket: impl AsFd, bytes: u32) -> io::Result<bool> {
    Ok(is_set(&socket, Direction::Receive)?
        && size(socket, Direction::Receive)? == u64::from(bytes))
}

/// Whether a program has set the buffer, so that it is not autotuned.
///
/// # Errors
/// If `SO_BUF_LOCK` cannot be read, as before Linux 5.15.
pub fn is_set(socket: impl AsFd, side: Direction) -> io::Result<bool> {
    Ok(buffer_locks(socket)? & side.lock_bit() != 0)
}

/// Once the connection is open: returns a receive buffer that was widened for the sake of the window
/// scale to autotuning, starting at its default size.
///
/// # Errors
/// If a socket option cannot be read or set.
pub fn settle_window_scale(socket: impl AsFd) -> io::Result<()> {
    let sizes = sysctl_numbers("net.ipv4.tcp_rmem").unwrap_or_default();
    let bytes = sizes.get(1).map_or(131_072, |&bytes| bytes as usize);
    sockopt::set_socket_recv_buffer_size(&socket, bytes / 2)?;
    give_back(socket, Direction::Receive)
}

/// The shift that Linux chooses for a window of `bytes` (RFC 7323 section 2.2: at most 14).
pub fn window_scale(bytes: u64) -> u32 {
    bytes.max(1).ilog2().saturating_sub(15).min(14)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::thread;

    use fairwind_testing::connection;

    use super::*;

    #[test]
    fn the_window_scale_is_that_of_linux() {
        // ilog2(space) - 15, between 0 and 14.
        assert_eq!(window_scale(65_535), 0);
        assert_eq!(window_scale(65_536), 1);
        assert_eq!(window_scale(6_291_456), 7);
        assert_eq!(window_scale(16 << 20), 9);
        assert_eq!(window_scale(64 << 20), 11);
        assert_eq!(window_scale(u64::MAX), 14);
    }

    #[test]
    fn a_buffer_has_the_size_that_was_asked_for() {
        let (socket, _far) = connection();
        for side in [Direction::Send, Direction::Receive] {
            assert_eq!(set(&socket, side, 150_000).unwrap(), Granted::Whole);
            assert_eq!(size(&socket, side).unwrap(), 150_000);
        }
    }

    #[test]
    fn a_buffer_given_back_is_the_kernels_again() {
        let (socket, mut far) = connection();
        set(&socket, Direction::Receive, 65_536).unwrap();
        give_back(&socket, Direction::Receive).unwrap();
        let sender = thread::spawn(move || far.write_all(&vec![7; 64 << 20]));
        let mut chunk = vec![0; 256 << 10];
        while (&socket).read(&mut chunk).unwrap() > 0 {}
        sender.join().unwrap().unwrap();
        assert!(size(&socket, Direction::Receive).unwrap() > 65_536);
    }

    /// The window as advertised to the peer.
    fn offered(socket: &TcpStream) -> u32 {
        fairwind_kernel::TcpInfo::of(socket).unwrap().tcpi_rcv_wnd
    }

    #[test]
    fn the_window_follows_a_buffer_that_grows() {
        let (socket, mut far) = connection();
        set(&socket, Direction::Receive, 65_536).unwrap();
        let sender = thread::spawn(move || far.write_all(&vec![7; 96 << 20]));
        let mut chunk = vec![0; 256 << 10];
        let mut moved = 0;
        // With the small buffer, and the widest with the large one.
        let (mut narrow, mut wide) = (None, 0);
        loop {
            match (&socket).read(&mut chunk).unwrap() {
                0 => break,
                count => moved += count,
            }
            if narrow.is_none() && moved > 32 << 20 {
                narrow = Some(offered(&socket));
                set(&socket, Direction::Receive, 2 << 20).unwrap();
            } else if narrow.is_some() {
                // At the end the window is what is left beside bytes that wait: nothing widens it any more.
                wide = wide.max(offered(&socket));
            }
        }
        sender.join().unwrap().unwrap();
        assert!(narrow.unwrap() <= 131_072, "{narrow:?} before");
        assert!(wide > 1 << 20, "{wide} after");
    }
}
