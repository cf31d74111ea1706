//! Files that one holder at a time has locked.
//!
//! Source: flock(2).

use std::fs::{File, TryLockError};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};

/// A file under an exclusive lock, which ends when this is dropped, or with the process.
///
/// Closing the file would not be enough: a child that another thread has just forked has a copy of the
/// descriptor until it executes its program, and the lock belongs to all copies.
#[derive(Debug)]
pub struct LockedFile(File);

impl LockedFile {
    /// Locks a file.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if somebody else has locked it; [`TryLockError::Error`] if the file system
    /// has no locks.
    pub fn try_lock(file: File) -> Result<LockedFile, TryLockError> {
        file.try_lock()?;
        Ok(LockedFile(file))
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl AsFd for LockedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // If it fails, closing the file releases the lock as well, only later.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_holder_though_there_are_copies_of_the_descriptor() {
        let path = std::env::temp_dir().join(format!("fairwind-lock-{}", std::process::id()));
        let open = || File::create(&path).unwrap();
        let held = LockedFile::try_lock(open()).unwrap();
        assert!(matches!(
            LockedFile::try_lock(open()),
            Err(TryLockError::WouldBlock)
        ));
        // As a forked child has one.
        let copy = held.try_clone().unwrap();
        drop(held);
        assert!(LockedFile::try_lock(open()).is_ok());
        drop(copy);
        std::fs::remove_file(&path).unwrap();
    }
}
