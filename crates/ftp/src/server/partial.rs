//! Unfinished uploads as files: what they are called, and that one session at a time has each.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::files::{Facts, facts};
use crate::protocol::VirtualPath;
use crate::protocol::digest::Algorithm;

const SUFFIX: &[u8] = b".fairwind-part";

/// Why an upload cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// Somebody is uploading the same file.
    #[error("somebody is uploading this file")]
    Busy,
    /// It is to begin behind the end of what is there.
    #[error("there are only {0} bytes to resume after")]
    BehindTheEnd(u64),
    /// The kernel's.
    #[error(transparent)]
    File(#[from] io::Error),
}

impl From<Errno> for UploadError {
    fn from(error: Errno) -> Self {
        Self::File(error.into())
    }
}

/// Whether a name is that of an unfinished upload.
pub fn is_partial(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".") && name.as_bytes().ends_with(SUFFIX)
}

/// The name that the bytes of `name` gather under.
pub fn partial_name(name: &OsStr) -> OsString {
    let mut partial = b".".to_vec();
    if name.len() + SUFFIX.len() < 255 {
        partial.extend_from_slice(name.as_bytes());
    } else {
        let mut hasher = Algorithm::Sha256.start();
        hasher.update(name.as_bytes());
        partial.extend_from_slice(hasher.finish().as_bytes());
    }
    partial.extend_from_slice(SUFFIX);
    OsString::from_vec(partial)
}

/// The path of the unfinished upload of `path`.
pub fn partial_path(path: &VirtualPath) -> Option<VirtualPath> {
    let (parent, name) = path.split()?;
    Some(parent.join(partial_name(name).as_bytes()))
}

/// Facts of the file that an upload would replace.
pub fn existing(directory: &OwnedFd, name: &OsStr) -> Result<Option<Facts>, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        open => open?,
    };
    match facts(&open).map_err(|_| Errno::IO)? {
        facts if facts.is_directory() => Err(Errno::ISDIR),
        facts if facts.is_regular() => Ok(Some(facts)),
        // A link, a pipe, a device: not to be replaced by a file.
        _ => Err(Errno::PERM),
    }
}

/// Opens the partial file for nobody else but us.
pub fn open_alone(directory: &OwnedFd, partial: &OsStr) -> Result<File, UploadError> {
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::openat(
        directory,
        partial,
        flags,
        Mode::from_raw_mode(0o666),
    )?);
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Err(UploadError::Busy),
        locked => locked?,
    }
    // Whoever had the lock before may have completed the file meanwhile; then the name is gone.
    let open = facts(&file)?;
    if !open.is_regular() {
        return Err(Errno::PERM.into());
    }
    match existing(directory, partial)? {
        Some(named) if named.identity() == open.identity() => Ok(file),
        _ => Err(UploadError::Busy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_length_have_a_partial_name() {
        let long = "n".repeat(255);
        let partial = partial_name(OsStr::new(&long));
        assert!(partial.len() <= 255 && is_partial(&partial));
        assert_eq!(partial_name(OsStr::new("x")), ".x.fairwind-part");
    }
}
