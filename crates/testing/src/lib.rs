//! What tests on the running kernel share.
//!
//! A test that cannot run says so and passes, except where the variable `CI` is set: there it fails,
//! so that nothing goes untested without anybody noticing.

mod network;
mod processors;
mod stalls;

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

pub use network::{bring_loopback_up, in_own_network};
pub use processors::{keep_to, processors};
pub use stalls::with_stalls;

/// How long something that is bound to happen may take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// What a test needs, or nothing and a word that it is skipped.
///
/// # Panics
///
/// In CI, if it is not there.
pub fn or_skip<T>(needed: Result<T, impl Display>) -> Option<T> {
    match needed {
        Ok(needed) => Some(needed),
        Err(error) if std::env::var_os("CI").is_some() => {
            panic!("this test must run in CI: {error}")
        }
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Whether a test can run that needs this.
///
/// # Panics
///
/// In CI, if it cannot.
pub fn permitted(needed: Result<(), impl Display>) -> bool {
    or_skip(needed).is_some()
}

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
    fn what_is_there_is_given_on() {
        assert_eq!(or_skip(Ok::<_, &str>(7)), Some(7));
        assert!(permitted(Ok::<_, &str>(())));
    }

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
