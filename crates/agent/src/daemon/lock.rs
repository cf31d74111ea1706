//! One agent for a control group.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fairwind_kernel::LockedFile;

/// Where the locks are.
const FOLDER: &str = "/run/fairwind";

/// Why there can be no agent.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// There is one.
    #[error("an agent takes care of these connections already ({})", .0.display())]
    Taken(PathBuf),
    /// The file cannot be made.
    #[error("{}: {source}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Held while an agent takes care of a control group.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _file: LockedFile,
}

impl Lock {
    /// That of the control group with this inode.
    pub(super) fn of_group(group: u64) -> Result<Lock, LockError> {
        Lock::at(Path::new(FOLDER), group)
    }

    fn at(folder: &Path, group: u64) -> Result<Lock, LockError> {
        let path = folder.join(format!("agent-{group}.lock"));
        let failed = |source| LockError::Failed {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(false);
        // Who cannot open it cannot lock it either.
        let options = options.mode(0o600);
        loop {
            let file = options.open(&path).map_err(failed)?;
            let file = match LockedFile::try_lock(file) {
                Ok(file) => file,
                Err(TryLockError::WouldBlock) => return Err(LockError::Taken(path)),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            };
            // Before it was locked, who had it may have removed it, and another made a new one.
            let inode = file.metadata().map_err(failed)?.ino();
            if fs::metadata(&path).is_ok_and(|there| there.ino() == inode) {
                return Ok(Lock { path, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is locked.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_file_is_there_as_long_as_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("agent-7.lock");
        let lock = Lock::at(folder.path(), 7).unwrap();
        assert!(file.exists());
        let taken = Lock::at(folder.path(), 7);
        assert!(matches!(taken, Err(LockError::Taken(path)) if path == file));
        drop(lock);
        assert!(!file.exists());
        // One that was killed has left it.
        fs::write(&file, "").unwrap();
        drop(Lock::at(folder.path(), 7).unwrap());
        assert!(!file.exists());
    }

    #[test]
    fn there_is_one_lock_however_often_it_is_taken_and_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let Ok(_lock) = Lock::at(path, 7) else {
                            continue;
                        };
                        // Nobody else makes it meanwhile.
                        let held = path.join("held");
                        File::create_new(&held).unwrap();
                        fs::remove_file(&held).unwrap();
                    }
                });
            }
        });
    }
}
