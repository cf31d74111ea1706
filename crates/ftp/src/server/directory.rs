//! An open directory, and what is known about a file.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use jiff::Timestamp;
use rustix::fs::{AtFlags, FileType, RawDir, Stat};
use rustix::io::Errno;

/// What is known about a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts(Stat);

impl Facts {
    /// Size, bytes.
    pub(super) fn size(&self) -> u64 {
        self.0.st_size as u64
    }

    /// Time of the last change of the content.
    pub(super) fn modified(&self) -> Timestamp {
        Timestamp::new(self.0.st_mtime, self.0.st_mtime_nsec as i32)
            .unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Whether it is a directory.
    pub(super) fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.0.st_mode) == FileType::Directory
    }

    /// Whether it is a regular file.
    pub(super) fn is_regular(&self) -> bool {
        FileType::from_raw_mode(self.0.st_mode) == FileType::RegularFile
    }

    /// Whether it is a symbolic link.
    pub(super) fn is_link(&self) -> bool {
        FileType::from_raw_mode(self.0.st_mode) == FileType::Symlink
    }

    /// Permission bits.
    pub(super) fn mode(&self) -> u32 {
        self.0.st_mode & 0o7777
    }

    /// Number of hard links.
    pub(super) fn links(&self) -> u64 {
        self.0.st_nlink
    }

    /// Device and inode.
    pub(super) fn identity(&self) -> (u64, u64) {
        (self.0.st_dev, self.0.st_ino)
    }
}

/// Facts about an open file.
///
/// # Errors
/// If fstat(2) fails.
pub(super) fn facts(file: impl AsFd) -> io::Result<Facts> {
    Ok(Facts(rustix::fs::fstat(file)?))
}

/// An open directory.
#[derive(Debug)]
pub(super) struct Directory(pub(super) OwnedFd);

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Directory {
    /// The names in it, sorted, except `.` and `..`.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        self.each_name(|name| {
            names.push(OsStr::from_bytes(name).to_owned());
            Ok(ControlFlow::Continue(()))
        })?;
        names.sort_unstable();
        Ok(names)
    }

    /// The names in it, if all are as wanted; otherwise none.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(super) fn names_if_all(&self, is_wanted: fn(&[u8]) -> bool) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        self.each_name(|name| {
            if is_wanted(name) {
                names.push(OsStr::from_bytes(name).to_owned());
                Ok(ControlFlow::Continue(()))
            } else {
                names.clear();
                Ok(ControlFlow::Break(()))
            }
        })?;
        Ok(names)
    }

    /// Passes the names in it, except `.` and `..`, to `take`, until that breaks off.
    ///
    /// # Errors
    /// Those of `take`; or if the directory cannot be read.
    pub(super) fn each_name(
        &self,
        mut take: impl FnMut(&[u8]) -> io::Result<ControlFlow<()>>,
    ) -> io::Result<()> {
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut entries = RawDir::new(&self.0, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = match entry {
                // It has been removed.
                Err(Errno::NOENT) => break,
                entry => entry?,
            };
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." && take(name)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Facts about a name in it; about the link itself if it is one.
    ///
    /// # Errors
    /// If there is no such name.
    pub(super) fn facts(&self, name: &OsStr) -> io::Result<Facts> {
        facts_in(&self.0, name)
    }
}

/// Facts about a name in a directory; about the link itself if it is one.
///
/// # Errors
/// If there is no such name.
pub(super) fn facts_in(directory: &OwnedFd, name: &OsStr) -> io::Result<Facts> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    Ok(Facts(rustix::fs::statat(directory, name, flags)?))
}
