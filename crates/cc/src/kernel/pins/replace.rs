//! Replaces a pinned control by another build of it or by the same one with other parameters.

use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::{fs, io, ptr};

use libbpf_rs::{MapCore, MapHandle, libbpf_sys};

use super::{ABOUT, OPERATIONS, PinError, Pinned, SETTINGS, pinned_object};
use crate::kernel::LoadError;
use crate::native::Parameters;

/// Prefix of the names of pins to which the link has not been switched yet.
const NEW: &str = "new_";

/// The pins that a replacement makes, in the order in which they are renamed or removed.
const FILES: [&str; 3] = [SETTINGS, ABOUT, OPERATIONS];

/// Switches the link of a pinned control to another object. New connections get either the old or the
/// new one.
pub(super) fn replace(
    before: &Pinned,
    folder: &Path,
    parameters: &Parameters,
    name: &str,
) -> Result<(), PinError> {
    if let Err(error) = switch(before, folder, parameters, name) {
        // `settle` removes the rest later; the original error matters more than one from removing.
        let _ = forget(folder);
        return Err(error);
    }
    adopt(folder)
}

fn switch(
    before: &Pinned,
    folder: &Path,
    parameters: &Parameters,
    name: &str,
) -> Result<(), PinError> {
    let mut object = pinned_object(folder, parameters, name, NEW)?;

    // The attempt to register prepares the object for the switch. It is expected to fail because
    // the name is taken.
    match object.register() {
        Err(LoadError::AlreadyLoaded { .. }) => {}
        Err(error) => return Err(error.into()),
        Ok(_) => {
            let name = name.to_owned();
            return Err(PinError::NotPinned { name });
        }
    }
    let link = before.link().as_fd().as_raw_fd();
    let operations = object.operations().as_fd().as_raw_fd();
    // SAFETY: both descriptors are open, and no options are passed.
    match unsafe { libbpf_sys::bpf_link_update(link, operations, ptr::null()) } {
        0 => Ok(()),
        _ => Err(refused(name, &io::Error::last_os_error())),
    }
}

fn refused(name: &str, error: &io::Error) -> PinError {
    PinError::Load(LoadError::Refused {
        name: name.to_owned(),
        reason: error.to_string(),
        log: String::new(),
    })
}

/// Completes or undoes an interrupted replacement: adopts its pins if the link has been switched to
/// them, otherwise removes them. `registered` is the map that the link registers.
pub(super) fn settle(folder: &Path, registered: u32) -> Result<(), PinError> {
    // This pin is made first, and renamed or removed last.
    let Ok(operations) = MapHandle::from_pinned_path(new(folder, OPERATIONS)) else {
        return Ok(());
    };
    match operations.info() {
        Ok(info) if info.info.id == registered => adopt(folder),
        _ => forget(folder),
    }
}

fn adopt(folder: &Path) -> Result<(), PinError> {
    each_new(folder, |new, file| fs::rename(new, folder.join(file)))
}

fn forget(folder: &Path) -> Result<(), PinError> {
    each_new(folder, |new, _| fs::remove_file(new))
}

fn each_new(folder: &Path, change: impl Fn(&Path, &str) -> io::Result<()>) -> Result<(), PinError> {
    for file in FILES {
        let path = new(folder, file);
        match change(&path, file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(PinError::at(&path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn new(folder: &Path, file: &str) -> PathBuf {
    folder.join(format!("{NEW}{file}"))
}
