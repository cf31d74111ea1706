//! Unfinished uploads as files. Only the session that holds the lock of one renames or removes it, so its
//! name leads to the file that the session has open, whatever other clients ask for meanwhile.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use fairwind_kernel::LockedFile;
use jiff::Timestamp;
use rustix::fs::{AtFlags, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::directory::{Directory, Facts, facts};
use super::renaming::rename_to_free;
use crate::protocol::digest::Algorithm;

const SUFFIX: &[u8] = b".fairwind-part";

/// For names that are too long for [`SUFFIX`]; a different one, so that no two names share a file.
const SUFFIX_OF_LONG: &[u8] = b".fairwind-long";

/// Longest name in a directory, bytes (`NAME_MAX`).
const LONGEST_NAME: usize = 255;

/// Attribute with the user whose bytes the file gathers: nobody else can resume the upload. Where the
/// file system keeps no attributes, everyone who may write can.
const OWNER: &str = "user.fairwind.owner";

/// Why an upload cannot begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum UploadError {
    /// The same file is being uploaded.
    #[error("somebody is uploading this file")]
    Busy,
    /// It would begin beyond the end of what is there.
    #[error("there are only {0} bytes to resume after")]
    BehindTheEnd(u64),
    /// The file system refused.
    #[error(transparent)]
    File(#[from] io::Error),
}

impl From<Errno> for UploadError {
    fn from(error: Errno) -> Self {
        Self::File(error.into())
    }
}

/// Whether a name is that of an unfinished upload.
pub(super) fn is_partial(name: &[u8]) -> bool {
    name.starts_with(b".") && (name.ends_with(SUFFIX) || name.ends_with(SUFFIX_OF_LONG))
}

/// The name of the file that gathers the bytes of `name`.
fn partial_name(name: &OsStr) -> OsString {
    let mut partial = b".".to_vec();
    if 1 + name.len() + SUFFIX.len() <= LONGEST_NAME {
        partial.extend_from_slice(name.as_bytes());
        partial.extend_from_slice(SUFFIX);
    } else {
        let mut hasher = Algorithm::Sha256.start();
        hasher.update(name.as_bytes());
        partial.extend_from_slice(hasher.finish().as_bytes());
        partial.extend_from_slice(SUFFIX_OF_LONG);
    }
    OsString::from_vec(partial)
}

/// Facts about the file that an upload would replace.
pub(super) fn existing(directory: impl AsFd, name: &OsStr) -> Result<Option<Facts>, Errno> {
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

/// A locked unfinished upload: nobody else renames, removes or writes it.
#[derive(Debug)]
pub(super) struct Partial {
    /// The directory that contains it.
    pub(super) directory: OwnedFd,
    name: OsString,
    /// Its bytes.
    pub(super) file: LockedFile,
}

impl Partial {
    /// Opens and locks the unfinished upload of `name` in `directory`; creates it if there is none.
    ///
    /// # Errors
    /// [`UploadError::Busy`] if another session has it; [`UploadError::File`] if the file system refuses.
    pub(super) fn open(directory: OwnedFd, name: &OsStr) -> Result<Self, UploadError> {
        Self::named(directory, partial_name(name), OFlags::CREATE)
    }

    /// Opens and locks the unfinished upload of `name` in `directory`.
    ///
    /// # Errors
    /// As [`open`](Self::open); `ENOENT` if there is none.
    pub(super) fn existing(directory: OwnedFd, name: &OsStr) -> Result<Self, UploadError> {
        Self::named(directory, partial_name(name), OFlags::empty())
    }

    /// The unfinished upload of `name`, if there is one: while this is kept, nobody goes on with it.
    ///
    /// # Errors
    /// [`UploadError::Busy`] if another session uploads it.
    pub(super) fn hold(directory: &OwnedFd, name: &OsStr) -> Result<Option<Self>, UploadError> {
        match Self::existing(directory.try_clone()?, name) {
            Ok(partial) => Ok(Some(partial)),
            Err(UploadError::Busy) => Err(UploadError::Busy),
            // There is none, or it is not the user's to open.
            Err(_) => Ok(None),
        }
    }

    fn named(directory: OwnedFd, name: OsString, flags: OFlags) -> Result<Self, UploadError> {
        let file = lock(&directory, &name, flags)?;
        Ok(Self {
            directory,
            name,
            file,
        })
    }

    /// Bytes after which `owner` can resume the upload: none if they are someone else's or have expired.
    ///
    /// # Errors
    /// If the file's facts cannot be read.
    pub(super) fn gathered(&self, owner: &str, age: Duration) -> io::Result<u64> {
        gathered(&self.file, owner, age)
    }

    /// Whether somebody else than `owner` can resume the upload.
    ///
    /// # Errors
    /// If the file's facts cannot be read.
    pub(super) fn is_anothers(&self, owner: &str, age: Duration) -> io::Result<bool> {
        let known = facts(&self.file)?;
        Ok(known.size() > 0 && !is_older(&known, age) && !is_open_to(&self.file, owner))
    }

    /// Makes the bytes `owner`'s.
    pub(super) fn belongs_to(&self, owner: &str) {
        // Failure does no harm: the upload can be resumed all the same; where attributes are not kept, by
        // anyone.
        let _ = rustix::fs::fsetxattr(&self.file, OWNER, owner.as_bytes(), XattrFlags::empty());
    }

    /// Renames the file; with `replaces`, it may replace another one. From then on it is not an
    /// unfinished upload any more.
    ///
    /// # Errors
    /// If the file system refuses, or someone who bypasses the server has taken the file away.
    pub(super) fn rename(&self, name: &OsStr, replaces: bool) -> io::Result<()> {
        self.is_here()?;
        if replaces {
            rustix::fs::renameat(&self.directory, &self.name, &self.directory, name)?;
        } else {
            rename_to_free((&self.directory, &self.name), (&self.directory, name))?;
        }
        // Not before: if renaming fails, the bytes are still the owner's. The file system may keep no
        // attributes.
        let _ = rustix::fs::fremovexattr(&self.file, OWNER);
        Ok(())
    }

    /// Removes the file.
    ///
    /// # Errors
    /// As [`rename`](Self::rename).
    pub(super) fn remove(self) -> io::Result<()> {
        self.is_here()?;
        let (directory, name) = (&self.directory, &self.name);
        Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?)
    }

    /// Checks that the name leads to the open file.
    fn is_here(&self) -> io::Result<()> {
        if !leads_to(&self.directory, &self.name, &self.file)? {
            return Err(io::Error::other(
                "the unfinished upload has been taken away meanwhile",
            ));
        }
        Ok(())
    }
}

/// Opens an unfinished upload and locks it.
fn lock(directory: &OwnedFd, partial: &OsStr, flags: OFlags) -> Result<LockedFile, UploadError> {
    /// Attempts: another session may complete or remove the file between opening and locking it here.
    const ATTEMPTS: usize = 16;
    let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mode = Mode::from_raw_mode(0o666);
    for _ in 0..ATTEMPTS {
        let file = File::from(rustix::fs::openat(directory, partial, flags, mode)?);
        if !facts(&file)?.is_regular() {
            return Err(Errno::PERM.into());
        }
        let file = match LockedFile::try_lock(file) {
            Err(TryLockError::WouldBlock) => return Err(UploadError::Busy),
            Err(TryLockError::Error(error)) => return Err(error.into()),
            Ok(file) => file,
        };
        // The previous holder of the lock may have completed or removed the file.
        if leads_to(directory, partial, &file)? {
            return Ok(file);
        }
    }
    Err(UploadError::Busy)
}

fn leads_to(directory: &OwnedFd, name: &OsStr, file: &File) -> io::Result<bool> {
    let named = existing(directory, name)?;
    Ok(named.map(|named| named.identity()) == Some(facts(file)?.identity()))
}

fn gathered(file: &File, owner: &str, age: Duration) -> io::Result<u64> {
    let known = facts(file)?;
    if is_older(&known, age) || !is_open_to(file, owner) {
        return Ok(0);
    }
    Ok(known.size())
}

fn is_open_to(file: &File, owner: &str) -> bool {
    let mut value = [0u8; 512];
    match rustix::fs::fgetxattr(file, OWNER, &mut value[..]) {
        Ok(length) => &value[..length] == owner.as_bytes(),
        Err(Errno::RANGE) => false,
        Err(_) => true,
    }
}

fn is_older(facts: &Facts, age: Duration) -> bool {
    let since = Timestamp::now().duration_since(facts.modified());
    since > jiff::SignedDuration::try_from(age).unwrap_or(jiff::SignedDuration::MAX)
}

/// Bytes after which `owner` can resume the unfinished upload of `name`, whether or not it is running.
///
/// # Errors
/// If the file cannot be opened or read; `ENOENT` if there are no such bytes.
pub(super) fn size(
    directory: &OwnedFd,
    name: &OsStr,
    owner: &str,
    age: Duration,
) -> io::Result<u64> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(directory, partial_name(name), flags, Mode::empty())?;
    match gathered(&file.into(), owner, age)? {
        0 => Err(Errno::NOENT.into()),
        bytes => Ok(bytes),
    }
}

/// Removes an unfinished upload that has not grown for `age`, unless it is running; true if it did.
///
/// # Errors
/// If it is running, or cannot be removed.
pub(super) fn expire(
    directory: &Directory,
    partial: &OsStr,
    age: Duration,
) -> Result<bool, UploadError> {
    if !is_older(&directory.facts(partial)?, age) {
        return Ok(false);
    }
    let directory = directory.as_fd().try_clone_to_owned()?;
    let partial = Partial::named(directory, partial.to_owned(), OFlags::empty())?;
    // Another session may have resumed it before it was locked here.
    let is_older = is_older(&facts(&partial.file)?, age);
    if is_older {
        partial.remove()?;
    }
    Ok(is_older)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_length_have_a_partial_name_of_their_own() {
        let long = "n".repeat(255);
        let partial = partial_name(OsStr::new(&long));
        assert!(partial.len() <= 255 && is_partial(partial.as_bytes()));
        assert_eq!(partial_name(OsStr::new("x")), ".x.fairwind-part");
        let longest = "n".repeat(240);
        assert_eq!(partial_name(OsStr::new(&longest)).len(), 255);
        // The name that would have collided with the long one.
        let hash = &partial.to_str().unwrap()[1..65];
        assert_ne!(partial_name(OsStr::new(hash)), partial);
    }
}
