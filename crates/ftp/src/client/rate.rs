//! A limit on the rate of all transfers of a command together.
//!
//! What is received is taken from the socket at that rate, so that the window closes. What is sent is paced by the kernel,
//! and not handed to it faster.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_kernel::sockopt;
use fairwind_transfer::{Direction, Gate, RateClock};

/// How long a transfer may have been slower than the limit and make up for it.
const BURST: Duration = Duration::from_millis(100);
/// So many pieces are moved one by one, so that progress and a stop come soon.
const PIECES_A_SECOND: u64 = 50;
/// Smallest window offered, and fewest unsent bytes in a socket.
const LEAST: u32 = 4096;

/// A rate that all transfers with this value share.
#[derive(Debug)]
pub struct RateLimit {
    /// Bytes a second.
    rate: NonZeroU64,
    clock: RateClock,
}

impl RateLimit {
    /// A limit in bytes a second.
    pub fn new(rate: NonZeroU64) -> Arc<Self> {
        Arc::new(Self {
            rate,
            clock: RateClock::since(Instant::now()),
        })
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

impl Gate for RateLimit {
    fn piece(&self) -> usize {
        let piece = self.rate.get().div_ceil(PIECES_A_SECOND);
        usize::try_from(piece).unwrap_or(usize::MAX)
    }

    fn wait(&self, now: Instant) -> Duration {
        self.clock.wait(now)
    }

    fn spent(&self, bytes: usize, now: Instant) {
        self.clock.spent(bytes, self.rate.get(), BURST, now);
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
        limit.spent(500, begin);
        assert_eq!(limit.wait(begin), ms(400));
        limit.spent(500, begin);
        assert_eq!(limit.wait(begin), ms(900));
        limit.spent(100, begin + ms(950));
        assert_eq!(limit.wait(begin), ms(1_000));
    }

    #[test]
    fn a_transfer_takes_its_time() {
        let limit = limit(100_000);
        let (mut now, mut left) = (Instant::now(), 40_000);
        let begin = now;
        while left > 0 {
            now += limit.wait(now);
            let piece = limit.piece().min(left);
            limit.spent(piece, now);
            left -= piece;
        }
        now += limit.wait(now);
        // 400 ms, less the 100 ms that may be made up for.
        assert!(now - begin >= Duration::from_millis(300));
    }
}
