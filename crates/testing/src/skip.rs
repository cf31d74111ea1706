//! Skipping of tests that cannot run on this machine.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::thread;

/// The environment variable that makes tests fail instead of being skipped.
pub const NO_SKIPS: &str = "FAIRWIND_NO_SKIPS";
/// The environment variable with the path of a file to which a line is appended for each skipped test:
/// the reason, a tab, the test program and the test's name.
pub const SKIPPED: &str = "FAIRWIND_SKIPPED";

/// Returns what a test needs, or `None` after reporting that the test is skipped.
///
/// # Panics
///
/// If it is not available and [`NO_SKIPS`] is set.
#[track_caller]
pub fn or_skip<T>(needed: Result<T, impl Display>) -> Option<T> {
    match needed {
        Ok(needed) => Some(needed),
        Err(reason) => {
            assert!(
                std::env::var_os(NO_SKIPS).is_none(),
                "this test must run: {reason}"
            );
            eprintln!("skipped: {reason}");
            record(&reason.to_string());
            None
        }
    }
}

/// Whether a test that needs this can run; reports it as skipped if not.
///
/// # Panics
///
/// As [`or_skip`].
#[track_caller]
pub fn permitted(needed: Result<(), impl Display>) -> bool {
    or_skip(needed).is_some()
}

fn record(reason: &str) {
    let Some(file) = std::env::var_os(SKIPPED) else {
        return;
    };
    let program = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_stem().unwrap_or_default();
    let thread = thread::current();
    let test = thread.name().unwrap_or("?");
    let line = line(reason, &format!("{} {test}", program.display()));
    let opened = OpenOptions::new().append(true).create(true).open(&file);
    // A single write, as other tests may append at the same time.
    opened
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

fn line(reason: &str, test: &str) -> String {
    format!("{}\t{test}\n", reason.replace(['\n', '\t'], " "))
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
    fn a_skipped_test_is_one_line() {
        assert_eq!(line("root\nis\tneeded", "a::b"), "root is needed\ta::b\n");
    }
}
