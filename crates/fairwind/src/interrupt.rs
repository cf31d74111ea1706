//! SIGINT, SIGTERM and SIGHUP ask a run to stop. The simulator then removes what it has written; the lab
//! keeps what it has measured.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Has a byte once a signal has arrived.
static BELL: OnceLock<PipeReader> = OnceLock::new();

/// From now on the signals only set a flag, which [`asked`] reads, and ring a [`bell`].
pub(crate) fn catch() -> Result<(), Failure> {
    let (bell, rope) = io::pipe().map_err(Failure::work)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // First the flag: who hears the bell finds it set.
        signal_hook::flag::register(signal, Arc::clone(&ASKED)).map_err(Failure::work)?;
        let rope = rope.try_clone().map_err(Failure::work)?;
        signal_hook::low_level::pipe::register(signal, rope).map_err(Failure::work)?;
    }
    // Only the first bell is heard, and no command catches signals twice.
    let _ = BELL.set(bell);
    Ok(())
}

/// Becomes readable when a signal arrives, and stays so; `None` before [`catch`].
pub(crate) fn bell() -> Option<BorrowedFd<'static>> {
    BELL.get().map(AsFd::as_fd)
}

/// Whether a signal has arrived.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
