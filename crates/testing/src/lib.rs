//! Helpers for tests: on the running system, with a scripted advisor ([`advisor`]), with foreign input
//! ([`fuzz`]), behind a proxy ([`proxy`]), for generated pages ([`page`]).
//!
//! A test that cannot run is skipped: it reports the reason and passes. With [`NO_SKIPS`] it fails, so
//! that nothing goes untested unnoticed; [`SKIPPED`] names a file that gets a line for each skipped
//! test.

pub mod advisor;
pub mod fuzz;

mod network;
pub mod page;
mod peers;
mod processors;
mod proftpd;
mod program;
pub mod proxy;
mod recordings;
mod skip;
mod stalls;

use std::thread;
use std::time::{Duration, Instant};

pub use network::{bring_loopback_up, connection, free_address, in_new_network_namespace};
pub use peers::{install_root, proftpd_modules};
pub use processors::{keep_to, processors};
pub use proftpd::{Proftpd, ProftpdFolder, proftpd_module};
pub use program::copy_program;
pub use recordings::recording;
pub use skip::{NO_SKIPS, SKIPPED, or_skip, permitted};
pub use stalls::with_stalls;

/// Time limit for an expected event on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Checks that this process runs as root.
///
/// # Errors
///
/// If it does not.
pub fn root() -> Result<(), &'static str> {
    // SAFETY: the call has no arguments and always succeeds.
    match unsafe { libc::geteuid() } {
        0 => Ok(()),
        _ => Err("root is needed"),
    }
}

/// Polls `happened` until it returns true, for at most a minute. Returns whether it did.
pub fn eventually(mut happened: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + TIMEOUT;
    loop {
        if happened() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Polls `happened` until it returns true.
///
/// # Panics
///
/// If it does not within a minute; the message contains `what`.
#[track_caller]
pub fn wait_until(what: &str, happened: impl FnMut() -> bool) {
    assert!(eventually(happened), "not in {TIMEOUT:?}: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_later_is_waited_for() {
        let mut looks = 0;
        assert!(eventually(|| {
            looks += 1;
            looks == 3
        }));
        assert_eq!(looks, 3);
    }
}
