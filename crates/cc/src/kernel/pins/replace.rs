//! Another build of a control, or the same with other parameters, in place of a pinned one.

use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::{fs, io, ptr};

use libbpf_rs::{MapCore, MapHandle, libbpf_sys};

use super::{ABOUT, OPERATIONS, PinError, Pinned, SETTINGS, pinned_object};
use crate::kernel::LoadError;
use crate::native::Parameters;

/// Begins the names of pins that the link does not stand for yet.
const NEW: &str = "new_";

/// The pins that a replacement makes, in the order in which they are taken.
const FILES: [&str; 3] = [SETTINGS, ABOUT, OPERATIONS];

/// Switches the link of a pinned control to another object. New connections get the one or the
/// other, never none.
pub(super) fn replace(
    before: &Pinned,
    folder: &Path,
    parameters: &Parameters,
    name: &str,
) -> Result<(), PinError> {
    if let Err(error) = switch(before, folder, parameters, name) {
        // What stays is forgotten by the next look at it; why this failed is what matters.
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

    // Registering makes the object ready; that its name is taken is as it should be.
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

/// Ends what an interrupted replacement has begun: takes its pins if the link has been switched to
/// them, and forgets them if not. `registered` is the map that the link stands for.
pub(super) fn settle(folder: &Path, registered: u32) -> Result<(), PinError> {
    // Pinned first, renamed and removed last.
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
