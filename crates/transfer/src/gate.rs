//! What holds a transfer down to a rate, besides the path and the other host.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Decides how many bytes a transfer may move at once, and how long it has to wait for that. Transfers that
/// share a rate share a gate.
pub trait Gate: Sync {
    /// Most bytes to move next, at least 1.
    fn piece(&self) -> usize;

    /// How long after `now` the next bytes may be moved.
    fn wait(&self, now: Instant) -> Duration;

    /// `bytes` have been moved at `now`.
    fn spent(&self, bytes: usize, now: Instant);
}

/// A gate that is always open.
#[derive(Debug, Clone, Copy, Default)]
pub struct Open;

impl Gate for Open {
    fn piece(&self) -> usize {
        usize::MAX
    }

    fn wait(&self, _: Instant) -> Duration {
        Duration::ZERO
    }

    fn spent(&self, _: usize, _: Instant) {}
}

/// When the next bytes of a rate may be moved: a clock that is ahead of the time by what the bytes before them take
/// (the generic cell rate algorithm, ITU-T I.371).
#[derive(Debug, Default)]
pub struct RateClock(Mutex<Option<Instant>>);

impl RateClock {
    /// A clock whose bytes are counted since then.
    pub fn since(begin: Instant) -> Self {
        Self(Mutex::new(Some(begin)))
    }

    /// How long after `now` the next bytes may be moved.
    pub fn wait(&self, now: Instant) -> Duration {
        let next = *self.0.lock();
        next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now))
    }

    /// `bytes` have been moved at `now`; at most `burst` of the time in which none were is made up for. `rate` is in bytes a
    /// second, more than 0.
    pub fn spent(&self, bytes: usize, rate: u64, burst: Duration, now: Instant) {
        let time = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let mut next = self.0.lock();
        let earliest = now.checked_sub(burst).unwrap_or(now);
        *next = Some(next.map_or(now, |next| next.max(earliest)) + time);
    }
}
