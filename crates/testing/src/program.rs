//! Programs that tests write and then run.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Copies a program, or a script, so that it can be run at once by whoever may reach it.
///
/// A child of this process does the copying. If this process wrote the file, a child that another thread starts at
/// that moment would inherit the descriptor until it executes its own program, and the kernel does not run a file
/// that somebody has open for writing (`ETXTBSY`).
///
/// # Panics
///
/// If it cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("--").args([from, to]).status();
    assert!(copied.unwrap().success(), "{}", to.display());
    fs::set_permissions(to, Permissions::from_mode(0o755)).unwrap();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_copy_runs_while_other_threads_start_programs() {
        let folder = tempfile::tempdir().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        Command::new("true").status().unwrap();
                    }
                });
            }
            let ran = (0..100).map(|round| {
                let program = folder.path().join(format!("true-{round}"));
                copy_program(Path::new("/bin/true"), &program);
                Command::new(&program).status()
            });
            let failed = ran.filter(|status| !matches!(status, Ok(status) if status.success()));
            let failed = failed.count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(failed, 0);
        });
    }
}
