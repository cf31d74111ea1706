//! SIGINT, SIGTERM and SIGHUP ask a run to stop. The simulator then removes what it has written; the lab
//! keeps what it has measured.

use std::io::{self, PipeReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

static ASKED: AtomicBool = AtomicBool::new(false);

/// Has a byte once a signal has arrived.
static BELL: OnceLock<PipeReader> = OnceLock::new();

/// From now on the signals only set a flag, which [`asked`] reads, and ring a [`bell`].
pub(crate) fn catch() -> Result<(), Failure> {
    let (bell, mut rope) = io::pipe().map_err(Failure::work)?;
    // Set already only if the signals are caught already: then setting the handler fails.
    let _ = BELL.set(bell);
    let ask = move || {
        if !ASKED.swap(true, Ordering::Relaxed) {
            // Fails only if nobody can hear it.
            let _ = rope.write_all(&[0]);
        }
    };
    ctrlc::set_handler(ask).map_err(Failure::work)
}

/// Becomes readable when a signal arrives, and stays so; `None` before [`catch`].
pub(crate) fn bell() -> Option<BorrowedFd<'static>> {
    BELL.get().map(AsFd::as_fd)
}

/// Whether a signal has arrived.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
