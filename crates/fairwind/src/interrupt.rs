//! SIGINT, SIGTERM and SIGHUP ask a run to stop. The simulator then removes what it has written; the lab
//! keeps what it has measured.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on the signals only set a flag, which [`asked`] reads.
pub fn catch() -> Result<(), Failure> {
    ctrlc::set_handler(|| ASKED.store(true, Ordering::Relaxed)).map_err(Failure::work)
}

/// Whether a signal has arrived.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
