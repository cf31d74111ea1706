//! One buffer of a live data connection, as right-sizing controls it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairwind_kernel::TcpInfo;
use fairwind_kernel::sockopt::set_window_clamp;

use super::budget::Share;
use super::estimator::Settings;
use super::record::{Cause, Resize, SharedRecord};
use crate::Direction;
use crate::buffers::{self, Granted};

/// A buffer, from the moment that right-sizing takes it over from the kernel.
#[derive(Debug)]
pub(super) struct SizedBuffer {
    socket: OwnedFd,
    pub(super) side: Direction,
    /// The size last set; none before the first.
    bytes: Option<u64>,
    /// Left to autotuning, which may reach more than programs may set.
    left_to_kernel: bool,
    /// A receive buffer that is to shrink once the window has: since when, and to what size.
    shrinking: Option<(Duration, u64)>,
    share: Share,
}

/// Whether the limit of a side has been reported.
static LIMIT_REPORTED: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];

impl SizedBuffer {
    /// The buffer at `side` of `socket`, within `share`.
    pub(super) fn new(socket: OwnedFd, side: Direction, share: Share) -> Self {
        Self {
            share,
            socket,
            side,
            bytes: None,
            left_to_kernel: false,
            shrinking: None,
        }
    }

    /// The size that the kernel reports, bytes.
    ///
    /// # Errors
    /// If the socket option cannot be read.
    pub(super) fn size(&self) -> io::Result<u64> {
        buffers::size(&self.socket, self.side)
    }

    /// The connection that it belongs to.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether it is no longer the kernel's.
    pub(super) fn is_set(&self) -> bool {
        self.bytes.is_some() && !self.left_to_kernel
    }

    /// [Asks](Self::ask) for a size, and records what it is then and why; returns it.
    ///
    /// # Errors
    /// As `ask`.
    pub(super) fn request(
        &mut self,
        now: Duration,
        wanted: u64,
        cause: Cause,
        record: &SharedRecord,
    ) -> io::Result<u64> {
        let (bytes, limit) = self.ask(now, wanted)?;
        let mut record = record.lock();
        if let Some(limit) = limit {
            tracing::warn!("right-sizing: {limit}");
            record.notes.push(limit);
        }
        let resize = Resize {
            time: now,
            bytes,
            cause,
        };
        // A size that the budget does not grant is the kernel's.
        if self.bytes.is_some() && record.resizes.last().map(|last| last.bytes) != Some(bytes) {
            tracing::debug!("right-sizing: {resize}");
            record.resized(resize);
        }
        Ok(bytes)
    }

    /// Requests a size. Returns the size that the buffer has then, and the limit that was met, which is
    /// reported once in the life of the process.
    ///
    /// With a budget, no more is granted than it has left, and no more than twice the bytes moved so far:
    /// a request alone gains nothing. What autotuning has already allocated is left alone.
    ///
    /// The first size is not smaller than what autotuning had reached. A receive buffer that is to shrink
    /// first offers a smaller window, and shrinks when what was offered before has arrived
    /// ([`settle`](Self::settle)): packets that were offered room always find it.
    ///
    /// # Errors
    /// If a socket option cannot be read or set.
    fn ask(&mut self, now: Duration, bytes: u64) -> io::Result<(u64, Option<String>)> {
        if self.left_to_kernel {
            return Ok((self.size()?, None));
        }
        let bytes = match self.bytes {
            None => {
                let size = self.size()?;
                let given = self.share.resize(bytes.min(self.earned()).max(size));
                if given < size {
                    self.share.resize(0);
                    return Ok((size, None));
                }
                given
            }
            Some(old) => self.share.resize(bytes.min(self.earned().max(old))),
        };
        if self.bytes == Some(bytes) && self.shrinking.is_none() {
            return Ok((bytes, None));
        }
        let shrinks = self.bytes.is_some_and(|old| bytes < old);
        if shrinks && self.side == Direction::Receive {
            self.shrinking = Some((now, bytes));
            set_window_clamp(&self.socket, clamped(bytes))?;
            return Ok((bytes, None));
        }
        self.shrinking = None;
        self.set(bytes)
    }

    /// Twice the bytes moved. An honest peer asks for twice what arrived in one round trip.
    fn earned(&self) -> u64 {
        if !self.share.is_limited() {
            return u64::MAX;
        }
        TcpInfo::of(&self.socket).map_or(0, |info| {
            2 * match self.side {
                Direction::Send => info.tcpi_bytes_acked,
                Direction::Receive => info.tcpi_bytes_received,
            }
        })
    }

    fn set(&mut self, bytes: u64) -> io::Result<(u64, Option<String>)> {
        let granted = buffers::set(&self.socket, self.side, clamped(bytes))?;
        self.bytes = Some(bytes);
        let (size, limited) = match granted {
            Granted::Whole => return Ok((bytes, None)),
            Granted::Cut(size) => {
                self.share.resize(size);
                (size, limit(self.side, bytes, size))
            }
            Granted::Autotuned(size) => {
                self.left_to_kernel = true;
                self.share.resize(0);
                (size, left(self.side, bytes))
            }
        };
        let first = !LIMIT_REPORTED[self.side as usize].swap(true, Ordering::Relaxed);
        Ok((size, first.then_some(limited)))
    }

    /// To be called regularly: shrinks a receive buffer that is to shrink, once the peer knows the
    /// smaller window and the data in flight has been read.
    ///
    /// # Errors
    /// If a socket option cannot be read or set.
    pub(super) fn settle(&mut self, now: Duration, round_trip: Duration) -> io::Result<()> {
        let Some((since, bytes)) = self.shrinking else {
            return Ok(());
        };
        let unread = rustix::io::ioctl_fionread(&self.socket)?;
        let offered = TcpInfo::of(&self.socket).map_or(0, |info| info.tcpi_rcv_wnd);
        let narrow = u64::from(offered) <= bytes + bytes / 8 && unread <= bytes / 2;
        if now < since + 2 * round_trip || !narrow {
            return set_window_clamp(&self.socket, clamped(bytes));
        }
        self.shrinking = None;
        self.set(bytes).map(drop)
    }

    /// Returns the buffer to autotuning.
    ///
    /// # Errors
    /// If the socket option cannot be set.
    pub(super) fn give_back(&mut self) -> io::Result<()> {
        self.shrinking = None;
        self.share.resize(0);
        match self.bytes.take() {
            Some(_) => buffers::give_back(&self.socket, self.side),
            None => Ok(()),
        }
    }
}

/// Limits the size that a lying or faulty peer asks for to what a sender may have.
pub(super) fn bounded(bytes: u64, settings: &Settings) -> u64 {
    bytes.clamp(settings.floor, settings.ceiling)
}

fn clamped(bytes: u64) -> u32 {
    bytes.min(1 << 30) as u32
}

fn limit(side: Direction, wanted: u64, size: u64) -> String {
    let sysctl = side.buffer_sysctl();
    format!(
        "this machine cuts {side} buffers at {size} bytes where the path wants {wanted}; sysctl -w {sysctl}={wanted} lifts that"
    )
}

fn left(side: Direction, wanted: u64) -> String {
    let sysctl = side.buffer_sysctl();
    format!(
        "programs may not set {side} buffers of the {wanted} bytes that the path wants, so the kernel sizes them; sysctl -w {sysctl}={wanted} lifts that"
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::thread;
    use std::time::Instant;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Packets of the size that real paths carry, not those of loopback.
        socket2::SockRef::from(&listener)
            .set_tcp_mss(1_448)
            .unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn limits_are_told_with_the_sysctl_that_lifts_them() {
        assert_eq!(
            limit(Direction::Send, 2_375_000, 212_992),
            "this machine cuts send buffers at 212992 bytes where the path wants 2375000; \
             sysctl -w net.core.wmem_max=2375000 lifts that"
        );
        assert_eq!(
            left(Direction::Receive, 2_375_000),
            "programs may not set receive buffers of the 2375000 bytes that the path wants, \
             so the kernel sizes them; sysctl -w net.core.rmem_max=2375000 lifts that"
        );
    }

    #[test]
    fn sizes_that_lie_are_bounded() {
        let settings = Settings::default();
        assert_eq!(bounded(1, &settings), 65_536);
        assert_eq!(bounded(2_400_000, &settings), 2_400_000);
        assert_eq!(bounded(u64::MAX, &settings), 33_554_432);
    }

    #[test]
    fn the_first_size_is_not_smaller_than_the_kernels() {
        let (socket, _far) = pair();
        let before = buffers::size(&socket, Direction::Send).unwrap();
        let mut sized =
            SizedBuffer::new(OwnedFd::from(socket), Direction::Send, Share::unlimited());
        assert_eq!(sized.ask(ms(0), 4_096).unwrap(), (before, None));
        assert_eq!(sized.ask(ms(1), 100_000).unwrap(), (100_000, None));
    }

    /// The reader is slower than the path: the receive buffer is full when it is told to shrink to a
    /// quarter, and no packet that was offered room may be lost.
    #[test]
    fn a_receive_buffer_that_shrinks_while_it_is_full_never_stalls_the_connection() {
        let (socket, far) = pair();
        let mut sized = SizedBuffer::new(
            socket.try_clone().unwrap().into(),
            Direction::Receive,
            Share::unlimited(),
        );
        sized.ask(ms(0), 400_000).unwrap();
        let (seen, mut far) = (far.try_clone().unwrap(), far);
        let sender = thread::spawn(move || {
            let bytes: Vec<u8> = (0..4_000_000u32).map(|n| (n % 251) as u8).collect();
            far.write_all(&bytes).unwrap();
        });
        let (start, mut moved) = (Instant::now(), 0usize);
        let mut chunk = vec![0; 20_000];
        let mut shrunk = false;
        while moved < 4_000_000 {
            let count = (&socket).read(&mut chunk).unwrap();
            for (at, byte) in chunk[..count].iter().enumerate() {
                assert_eq!(usize::from(*byte), (moved + at) % 251);
            }
            moved += count;
            if moved > 1_000_000 && !shrunk {
                shrunk = true;
                sized.ask(start.elapsed(), 100_000).unwrap();
            }
            sized.settle(start.elapsed(), ms(1)).unwrap();
            thread::sleep(ms(1));
        }
        sender.join().unwrap();
        assert_eq!(sized.size().unwrap(), 100_000);
        // A packet that found no room would have had to wait for a retransmission timeout. (A tail loss
        // probe, which a busy machine provokes, does not count as one.)
        assert_eq!(TcpInfo::of(&seen).unwrap().tcpi_total_rto, 0);
    }
}
