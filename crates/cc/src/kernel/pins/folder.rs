//! The folder of pins in the BPF file system: creates, locks and clears it.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::PinError;

/// `BPF_FS_MAGIC` of `linux/magic.h`.
const BPF_FS: i64 = 0xcafe_4a11;

/// Only the owner may access the pins.
const OWNER_ONLY: u32 = 0o700;

/// An exclusive lock on the folder, by flock(2), until dropped.
pub(super) struct Lock(File);

/// Opens the folder, creating it if necessary, and waits for an exclusive lock.
pub(super) fn lock(folder: &Path) -> Result<Lock, PinError> {
    if !folder.exists() {
        let parent = folder.parent().unwrap_or(folder);
        require_bpf_fs(parent)?;
        make(folder)?;
    }
    require_bpf_fs(folder)?;
    let file = File::open(folder).map_err(|error| PinError::at(folder, error))?;
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
        return Err(PinError::at(folder, io::Error::last_os_error()));
    }
    Ok(Lock(file))
}

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// Creates a folder for its owner only, unless it exists.
pub(super) fn make(folder: &Path) -> Result<(), PinError> {
    match DirBuilder::new().mode(OWNER_ONLY).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(PinError::at(folder, error))
        }
        _ => Ok(()),
    }
}

/// Removes a folder with all its pins; returns false if there was none.
pub(super) fn clear(folder: &Path) -> Result<bool, PinError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(PinError::at(folder, error)),
    };
    for entry in entries {
        let path = entry.map_err(|error| PinError::at(folder, error))?.path();
        fs::remove_file(&path).map_err(|error| PinError::at(&path, error))?;
    }
    fs::remove_dir(folder).map_err(|error| PinError::at(folder, error))?;
    Ok(true)
}

fn require_bpf_fs(folder: &Path) -> Result<(), PinError> {
    let path = CString::new(folder.as_os_str().as_bytes()).unwrap_or_default();
    // SAFETY: an all-zero statfs is valid, and the call writes into it only.
    let (failed, stat) = unsafe {
        let mut stat: libc::statfs = mem::zeroed();
        (libc::statfs(path.as_ptr(), &mut stat) != 0, stat)
    };
    if failed {
        return Err(PinError::at(folder, io::Error::last_os_error()));
    }
    if stat.f_type != BPF_FS {
        let folder = folder.to_owned();
        return Err(PinError::NoBpfFs { folder });
    }
    Ok(())
}
