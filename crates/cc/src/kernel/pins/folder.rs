//! The folder of pins in the BPF file system: creates, locks and clears it.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::PinError;

/// `BPF_FS_MAGIC` of `linux/magic.h`.
const BPF_FS: i64 = 0xcafe_4a11;

/// Only the owner may access the pins.
const OWNER_ONLY: u32 = 0o700;

/// Opens the folder, creating it if necessary, and waits for an exclusive lock, which ends when the file is
/// closed.
pub(super) fn lock(folder: &Path) -> Result<File, PinError> {
    if !folder.exists() {
        let parent = folder.parent().unwrap_or(folder);
        require_bpf_fs(parent)?;
        make(folder)?;
    }
    require_bpf_fs(folder)?;
    let locked = File::open(folder).and_then(|file| file.lock().map(|()| file));
    locked.map_err(|error| PinError::at(folder, error))
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
    let stat = rustix::fs::statfs(folder).map_err(|error| PinError::at(folder, error.into()))?;
    if stat.f_type != BPF_FS {
        let folder = folder.to_owned();
        return Err(PinError::NoBpfFs { folder });
    }
    Ok(())
}
