//! One agent for a control group.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

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
pub(super) struct Lock(#[expect(dead_code, reason = "who has it holds it")] LockedFile);

impl Lock {
    /// That of the control group with this inode.
    pub(super) fn of_group(group: u64) -> Result<Lock, LockError> {
        let path = PathBuf::from(FOLDER).join(format!("agent-{group}.lock"));
        let failed = |source| LockError::Failed {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(FOLDER).map_err(failed)?;
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(false);
        // Who cannot open it cannot lock it either.
        let file = options.mode(0o600).open(&path).map_err(failed)?;
        match LockedFile::try_lock(file) {
            Ok(file) => Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => Err(LockError::Taken(path)),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}
