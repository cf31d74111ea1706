//! A limit on the rate of all transfers of a command together.
//!
//! What is received is taken from the socket at that rate, so that the window closes. What is sent is paced by the kernel,
//! and not handed to it faster.

use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_kernel::sockopt;
use fairwind_transfer::Direction;
use parking_lot::Mutex;

use super::Progress;
use super::progress::wait;

/// How long a transfer may have been slower than the limit and make up for it.
const BURST: Duration = Duration::from_millis(100);
/// Smallest window offered, and fewest unsent bytes in a socket.
const LEAST: u32 = 4096;

/// A rate that all transfers with this value share.
#[derive(Debug)]
pub struct RateLimit {
    /// Bytes a second.
    rate: NonZeroU64,
    /// When the bytes that have been taken are due.
    due: Mutex<Instant>,
}

impl RateLimit {
    /// A limit in bytes a second.
    pub fn new(rate: NonZeroU64) -> Arc<Self> {
        Arc::new(Self {
            rate,
            due: Mutex::new(Instant::now()),
        })
    }

    /// The time that so many bytes take.
    fn time(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.rate.get() as f64)
    }

    /// Takes bytes at time `now`; returns when they are due.
    fn take(&self, bytes: u64, now: Instant) -> Instant {
        let mut due = self.due.lock();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        *due = (*due).max(earliest) + self.time(bytes);
        *due
    }

    /// Takes bytes and waits until they are due.
    ///
    /// # Errors
    /// If the user asks to stop.
    pub(super) fn wait(&self, bytes: u64, progress: &dyn Progress) -> io::Result<()> {
        let due = self.take(bytes, Instant::now());
        while Instant::now() < due {
            if progress.stopped() {
                return Err(io::Error::other("interrupted"));
            }
            // Progress reports without a signal to stop are asked often.
            wait(progress, &[], Some(due.min(Instant::now() + BURST)))?;
        }
        Ok(())
    }

    /// Keeps the kernel from running ahead of the limit: in what it sends at once, and in what it takes or offers to take
    /// beyond it.
    ///
    /// # Errors
    /// If an option cannot be set.
    pub(super) fn prepare(&self, socket: impl AsFd, direction: Direction) -> io::Result<()> {
        // About a quarter of a second for what waits to be sent; a second for a window, which may have to last for a
        // round trip.
        let rate = u32::try_from(self.rate.get()).unwrap_or(u32::MAX);
        match direction {
            Direction::Send => {
                sockopt::set_max_pacing_rate(&socket, Some(self.rate.get()))?;
                sockopt::set_notsent_lowat(&socket, (rate / 4).max(LEAST))
            }
            Direction::Receive => {
                let most = i32::MAX as u32;
                sockopt::set_window_clamp(&socket, rate.clamp(LEAST, most))
            }
        }
    }
}

/// A writer that takes bytes no faster than a limit.
pub(super) struct Limited<W> {
    /// What takes the bytes.
    pub sink: W,
    limit: Option<Arc<RateLimit>>,
    progress: Arc<dyn Progress>,
}

impl<W: Write> Limited<W> {
    pub(super) fn new(sink: W, limit: Option<Arc<RateLimit>>, progress: Arc<dyn Progress>) -> Self {
        Self {
            sink,
            limit,
            progress,
        }
    }
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(limit) = &self.limit else {
            return self.sink.write(bytes);
        };
        // In pieces, so that progress and a stop come soon.
        let piece = usize::try_from(limit.rate.get() / 10).unwrap_or(usize::MAX);
        let count = self.sink.write(&bytes[..bytes.len().min(piece.max(1))])?;
        limit.wait(count as u64, &*self.progress)?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(rate: u64) -> Arc<RateLimit> {
        RateLimit::new(NonZeroU64::new(rate).unwrap())
    }

    #[test]
    fn bytes_are_due_at_the_rate_whoever_takes_them() {
        let limit = limit(1_000);
        let begin = Instant::now() + Duration::from_secs(10);
        // After a long pause 100 ms are made up for.
        let ms = Duration::from_millis;
        assert_eq!(limit.take(500, begin), begin + ms(400));
        assert_eq!(limit.take(500, begin), begin + ms(900));
        assert_eq!(limit.take(100, begin + ms(950)), begin + ms(1_000));
    }

    #[test]
    fn a_writer_takes_its_time() {
        let limit = limit(100_000);
        let mut limited = Limited::new(Vec::new(), Some(limit), Arc::new(super::super::Silent));
        let begin = Instant::now();
        limited.write_all(&[7; 40_000]).unwrap();
        // 400 ms, less the 100 ms that may be made up for.
        assert!(begin.elapsed() >= Duration::from_millis(300));
        assert_eq!(limited.sink.len(), 40_000);
    }
}
