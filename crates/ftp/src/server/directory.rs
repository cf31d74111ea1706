//! An open directory, and what is known about a file.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use jiff::Timestamp;
use rustix::fs::{AtFlags, Dir, FileType, RawDir, Stat};
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
    /// The names in it, except `.` and `..`: sorted if they take up to so many bytes; those of a larger directory
    /// as they come, so that they take no memory for as long as they wait to be taken.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(super) fn names(&self, most: usize) -> io::Result<Names> {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        let mut fits = true;
        self.each_name(|name| {
            places.push((bytes.len(), name.len()));
            bytes.extend_from_slice(name);
            fits = bytes.len() + size_of_val(&*places) <= most;
            Ok(if fits {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })?;
        if !fits {
            return Ok(Names::AsTheyCome(Dir::read_from(self)?));
        }
        places.sort_unstable_by_key(|(begin, length)| &bytes[*begin..][..*length]);
        Ok(Names::Sorted {
            places: places.into_iter(),
            bytes,
        })
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
            if is_of_a_file(name) && take(name)?.is_break() {
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

fn is_of_a_file(name: &[u8]) -> bool {
    name != b"." && name != b".."
}

/// The names in a directory.
pub(super) enum Names {
    /// In order.
    Sorted {
        /// All names.
        bytes: Vec<u8>,
        /// Where each begins, and its length.
        places: std::vec::IntoIter<(usize, usize)>,
    },
    /// Read while they are taken.
    AsTheyCome(Dir),
}

impl Iterator for Names {
    type Item = io::Result<OsString>;

    fn next(&mut self) -> Option<Self::Item> {
        let name = match self {
            Self::Sorted { bytes, places } => {
                let (begin, length) = places.next()?;
                Ok(bytes[begin..][..length].to_vec())
            }
            Self::AsTheyCome(entries) => loop {
                match entries.read()? {
                    Ok(entry) if !is_of_a_file(entry.file_name().to_bytes()) => {}
                    Ok(entry) => break Ok(entry.file_name().to_bytes().to_vec()),
                    Err(error) => break Err(error.into()),
                }
            },
        };
        Some(name.map(OsString::from_vec))
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(directory: &Directory, most: usize) -> Vec<String> {
        let names = directory.names(most).unwrap();
        names
            .map(|name| name.unwrap().into_string().unwrap())
            .collect()
    }

    #[test]
    fn names_are_sorted_if_they_are_few_and_none_is_missing_if_they_are_many() {
        let dir = tempfile::tempdir().unwrap();
        let mut expected: Vec<_> = (0..1_000).map(|number| format!("{number}")).collect();
        for name in &expected {
            fs::write(dir.path().join(name), "").unwrap();
        }
        expected.sort();
        let directory = Directory(fs::File::open(dir.path()).unwrap().into());
        assert_eq!(names(&directory, 100_000), expected);
        let directory = Directory(fs::File::open(dir.path()).unwrap().into());
        let mut many = names(&directory, 10_000);
        many.sort();
        assert_eq!(many, expected);
    }

    #[test]
    fn names_of_a_large_directory_are_not_held() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..100 {
            fs::write(dir.path().join(number.to_string()), "").unwrap();
        }
        let directory = Directory(fs::File::open(dir.path()).unwrap().into());
        assert!(matches!(
            directory.names(1_000).unwrap(),
            Names::AsTheyCome(_)
        ));
    }
}
