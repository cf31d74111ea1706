//! A descriptor by which one thread wakes another (eventfd(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// Readable from [`Wakeup::notify`] to [`Wakeup::reset`].
#[derive(Debug)]
pub(super) struct Wakeup(OwnedFd);

impl Wakeup {
    pub(super) fn new() -> io::Result<Wakeup> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(Wakeup(eventfd(0, flags)?))
    }

    pub(super) fn notify(&self) {
        // Fails only if the counter is full: then the descriptor is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub(super) fn reset(&self) {
        // Fails only if the counter is zero: then the descriptor is not readable.
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
