//! Progress reports of transfers, and requests to stop them.

use std::os::fd::BorrowedFd;

/// Called from the threads of transfers: at most once per 256 KiB, and about twenty times a second while
/// nothing moves.
pub trait Progress: Send + Sync {
    /// `bytes` more are to be transferred in all.
    fn expect(&self, bytes: u64) {
        let _ = bytes;
    }

    /// File number `file` starts, or restarts, at byte `at`.
    fn begins(&self, file: usize, at: u64) {
        let _ = (file, at);
    }

    /// File number `file` has reached byte `at`.
    fn reaches(&self, file: usize, at: u64) {
        let _ = (file, at);
    }

    /// A message for the user; the work goes on.
    fn note(&self, text: &str) {
        let _ = text;
    }

    /// Whether the user asked to stop.
    fn stopped(&self) -> bool {
        false
    }

    /// Becomes readable, or is hung up, when [`stopped`](Self::stopped) turns true, and stays so: that ends
    /// waits. `None` if the user cannot ask to stop.
    fn stop_signal(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Ignores every report and never stops.
#[derive(Debug, Default, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {}
