//! SIGINT, SIGTERM and SIGHUP ask a run to stop. A simulation then takes away what it has written;
//! the lab keeps what it has measured.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on the signals only leave a note that [`asked`] reads.
pub fn catch() -> Result<(), Failure> {
    ctrlc::set_handler(|| ASKED.store(true, Ordering::Relaxed)).map_err(Failure::work)
}

/// A signal has come.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
