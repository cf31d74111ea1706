//! What holds a transfer down to a rate, besides the path and the other host.

use std::time::{Duration, Instant};

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
