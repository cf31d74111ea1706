//! What tests on the running kernel share.
//!
//! A test that cannot run is skipped: it says why, and passes. With [`NO_SKIPS`] it fails, so that nothing
//! goes untested without anybody noticing; [`SKIPPED`] names a file that has a line for each.

mod network;
mod peers;
mod processors;
mod recordings;
mod skip;
mod stalls;

use std::thread;
use std::time::{Duration, Instant};

pub use network::{bring_loopback_up, in_own_network};
pub use peers::{proftpd_modules, room_of};
pub use processors::{keep_to, processors};
pub use recordings::recording;
pub use skip::{NO_SKIPS, SKIPPED, or_skip, permitted};
pub use stalls::with_stalls;

/// How long something that is bound to happen may take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// Whether this process is root's.
///
/// # Errors
///
/// That it is not.
pub fn root() -> Result<(), &'static str> {
    // SAFETY: the call takes nothing and only answers.
    match unsafe { libc::geteuid() } {
        0 => Ok(()),
        _ => Err("root is needed"),
    }
}

/// Whether it has happened after 20 s at most.
pub fn eventually(mut happened: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    loop {
        if happened() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(LOOK);
    }
}

/// Waits, 20 s at most.
///
/// # Panics
///
/// If it has not happened then.
#[track_caller]
pub fn wait_until(what: &str, happened: impl FnMut() -> bool) {
    assert!(eventually(happened), "not in {PATIENCE:?}: {what}");
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
