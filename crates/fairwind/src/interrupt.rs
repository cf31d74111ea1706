//! SIGINT, SIGTERM and SIGHUP ask a run to stop. The simulator then removes what it has written; the lab
//! keeps what it has measured.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Has a byte once a signal has arrived.
static BELL: OnceLock<PipeReader> = OnceLock::new();

/// From now on the signals only set a flag, which [`asked`] reads, and ring a [`bell`].
pub(crate) fn catch() -> Result<(), Failure> {
    // A shell runs several commands.
    if BELL.get().is_some() {
        return Ok(());
    }
    let (bell, rope) = io::pipe().map_err(Failure::work)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // First the flag: who hears the bell finds it set.
        signal_hook::flag::register(signal, Arc::clone(&ASKED)).map_err(Failure::work)?;
        let rope = rope.try_clone().map_err(Failure::work)?;
        signal_hook::low_level::pipe::register(signal, rope).map_err(Failure::work)?;
    }
    // Only the first bell is heard, and nobody catches signals twice.
    let _ = BELL.set(bell);
    Ok(())
}

/// Becomes readable when a signal arrives, and stays so; `None` before [`catch`].
pub(crate) fn bell() -> Option<BorrowedFd<'static>> {
    BELL.get().map(AsFd::as_fd)
}

/// Lets what comes next begin as if no signal had arrived.
pub(crate) fn forget() {
    // First the bell: a signal that comes in between is at least seen.
    while let Some(mut bell) = BELL.get() {
        let mut fds = [PollFd::new(&bell, PollFlags::IN)];
        let rings = poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
        if !rings || bell.read(&mut [0; 16]).is_err() {
            break;
        }
    }
    ASKED.store(false, Ordering::Relaxed);
}

/// Whether a signal has arrived.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
