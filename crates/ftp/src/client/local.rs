//! Partial downloads: `.NAME.part` beside the final name, which it takes once all bytes have arrived, are
//! verified and are on disk.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fairwind_kernel::LockedFile;
use jiff::Timestamp;
use rustix::fs::{Mode, XattrFlags};

use super::ClientError;
use super::clash::Settled;
use crate::protocol::digest::Algorithm;

/// Extended attribute that records the origin of the bytes, on file systems that support it.
const ORIGIN: &str = "user.fairwind.origin";

/// The name of a partial file. If it would be too long, the file's name is replaced by its SHA-256.
pub(super) fn partial_name(name: &[u8]) -> Vec<u8> {
    // Leaves room for the longer suffix of [`stream_name`].
    const LONGEST: usize = 255 - b"..stream".len();
    let middle = if name.len() <= LONGEST {
        name.to_vec()
    } else {
        let mut hasher = Algorithm::Sha256.start();
        hasher.update(name);
        hasher.finish().into_bytes()
    };
    [b".", middle.as_slice(), b".part"].concat()
}

/// The name under which a stream gathers, which cannot be resumed.
pub(super) fn stream_name(name: &[u8]) -> Vec<u8> {
    let mut partial = partial_name(name);
    partial.truncate(partial.len() - b"part".len());
    partial.extend_from_slice(b"stream");
    partial
}

/// The name under which the ranges of a file gather, with gaps.
pub(super) fn ranges_name(name: &[u8]) -> Vec<u8> {
    let mut partial = partial_name(name);
    partial.truncate(partial.len() - b"part".len());
    partial.extend_from_slice(b"ranges");
    partial
}

/// A partial file, locked against other transfers.
#[derive(Debug)]
pub(super) struct Partial {
    target: PathBuf,
    /// Its path while it is partial.
    pub(super) path: PathBuf,
    /// The open file.
    pub(super) file: LockedFile,
}

impl Partial {
    /// Opens the partial file of `target`, or creates it.
    ///
    /// # Errors
    /// If the target exists and is not a regular file, another transfer is writing it, or it cannot be
    /// opened.
    pub(super) fn open(target: &Path) -> Result<Self, ClientError> {
        Self::open_as(target, partial_name)
    }

    /// The same, for a partial file with a name of another kind.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(super) fn open_as(
        target: &Path,
        partial_name: fn(&[u8]) -> Vec<u8>,
    ) -> Result<Self, ClientError> {
        let failed = |error: io::Error| ClientError::local(target)(error);
        let name = target
            .file_name()
            .ok_or_else(|| failed(io::Error::other("that is not a file name")))?;
        let predecessor = match fs::metadata(target) {
            Ok(facts) if !facts.is_file() => {
                return Err(failed(io::Error::other(
                    "there is something that is not a regular file",
                )));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            facts => facts.ok(),
        };
        // Who may not read the file that is replaced may not read the bytes of the next one either.
        let mode = predecessor.map_or(0o666, |facts| facts.mode() & 0o666 | 0o600);
        let path = target.with_file_name(OsString::from_vec(partial_name(name.as_bytes())));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(mode)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(ClientError::local(&path))?;
        let busy = || io::Error::other("another transfer is writing this file");
        let locked = LockedFile::try_lock(file).map_err(|error| match error {
            TryLockError::WouldBlock => busy(),
            TryLockError::Error(error) => error,
        });
        let file = locked.map_err(ClientError::local(&path))?;
        let partial = Self {
            target: target.to_owned(),
            path,
            file,
        };
        // The transfer that held the lock before may have finished: then the name no longer leads to this
        // file.
        match partial.is_named() {
            Ok(true) => {
                let narrowed = partial.narrow(mode);
                narrowed.map_err(|error| partial.failed(error))?;
                Ok(partial)
            }
            Ok(false) => Err(partial.failed(busy())),
            Err(error) => Err(partial.failed(error)),
        }
    }

    /// The same, unless it is a file that this command has put in its final place.
    ///
    /// # Errors
    /// If it is.
    pub(super) fn unless_settled(self, settled: &Settled) -> Result<Self, ClientError> {
        let facts = self.file.metadata();
        let free = facts.and_then(|facts| settled.check(&facts));
        free.map_err(|error| self.failed(error))?;
        Ok(self)
    }

    /// Takes the permissions beyond `mode` from a file that was there already.
    fn narrow(&self, mode: u32) -> io::Result<()> {
        let now = self.file.metadata()?.mode() & 0o777;
        if now & !mode & 0o066 == 0 {
            return Ok(());
        }
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(now & mode))?;
        Ok(())
    }

    /// Whether the partial name still leads to the open file.
    fn is_named(&self) -> io::Result<bool> {
        let open = self.file.metadata()?;
        Ok(fs::symlink_metadata(&self.path)
            .is_ok_and(|named| named.ino() == open.ino() && named.dev() == open.dev()))
    }

    /// Its length in bytes.
    ///
    /// # Errors
    /// If the metadata cannot be read.
    pub(super) fn len(&self) -> Result<u64, ClientError> {
        Ok(self
            .file
            .metadata()
            .map_err(|error| self.failed(error))?
            .len())
    }

    /// The recorded origin of the bytes.
    pub(super) fn origin(&self) -> Option<String> {
        let mut text = [0; 256];
        let length = rustix::fs::fgetxattr(&self.file, ORIGIN, &mut text).ok()?;
        String::from_utf8(text[..length].to_vec()).ok()
    }

    /// Records where the bytes come from, if the file system supports it.
    fn note_origin(&self, origin: &str) {
        // Without it, only a server's checksum allows a later process to resume.
        let _ = rustix::fs::fsetxattr(&self.file, ORIGIN, origin.as_bytes(), XattrFlags::empty());
    }

    /// Empties the file for the bytes of another origin, which is recorded if it is known.
    ///
    /// # Errors
    /// If the file cannot be truncated.
    pub(super) fn begin_anew(&self, origin: Option<String>) -> Result<(), ClientError> {
        self.file.set_len(0).map_err(|error| self.failed(error))?;
        if let Some(origin) = origin {
            self.note_origin(&origin);
        }
        Ok(())
    }

    /// A writer starting at byte `first`.
    pub(super) fn writer(&self, first: u64) -> Writer<'_> {
        Writer {
            file: &self.file,
            at: first,
        }
    }

    /// Puts the complete file in its final place: synced to disk, recorded in `settled`, with the
    /// modification time of the original and the permissions of the file that it replaces.
    ///
    /// # Errors
    /// If a settled file is in its place, or a system call fails.
    pub(super) fn complete(
        self,
        modified: Option<Timestamp>,
        settled: &Settled,
    ) -> Result<(), ClientError> {
        self.settle(modified, settled)
            .map_err(ClientError::local(&self.target))
    }

    fn settle(&self, modified: Option<Timestamp>, settled: &Settled) -> io::Result<()> {
        if let Some(modified) = modified {
            self.file.set_modified(SystemTime::from(modified))?;
        }
        if let Ok(predecessor) = fs::metadata(&self.target) {
            rustix::fs::fchmod(&self.file, Mode::from_raw_mode(predecessor.mode() & 0o777))?;
        }
        // The attribute may not exist.
        let _ = rustix::fs::fremovexattr(&self.file, ORIGIN);
        self.file.sync_all()?;
        let file = self.file.metadata()?;
        // Before the file has its name: what fails now is tried again.
        let directory = open_directory_of(&self.target)?;
        settled.settle(&file, &self.target, || {
            if !self.is_named()? {
                let path = self.path.display();
                return Err(io::Error::other(format!("{path} is another file by now")));
            }
            fs::rename(&self.path, &self.target)
        })?;
        sync(directory)
    }

    /// Deletes the partial file, whose bytes are useless.
    pub(super) fn discard(self) {
        // If it cannot be removed, the next transfer starts it anew.
        let _ = self.file.set_len(0);
        let _ = fs::remove_file(&self.path);
    }

    /// Keeps the partial file to be resumed, unless it is empty.
    pub(super) fn abandon(self) {
        if self.len().is_ok_and(|length| length == 0) {
            self.discard();
        }
    }

    /// Wraps an error of this file.
    pub(super) fn failed(&self, error: io::Error) -> ClientError {
        ClientError::local(&self.path)(error)
    }
}

/// Creates a directory and those above it that are missing, and brings their names to the disk.
///
/// # Errors
/// If one of them can neither be created nor is there.
pub fn make_directories(path: &Path) -> io::Result<()> {
    if path == Path::new("") || path.is_dir() {
        return Ok(());
    }
    make_directories(directory_of(path))?;
    let above = open_directory_of(path)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => {
            made?;
            sync(above)
        }
    }
}

/// Brings the name of a file to the disk, unless this process may not read its directory.
///
/// # Errors
/// If its directory cannot be opened for another reason, or synchronised.
pub fn sync_name(path: &Path) -> io::Result<()> {
    sync(open_directory_of(path)?)
}

fn sync(directory: Option<File>) -> io::Result<()> {
    directory.map_or(Ok(()), |directory| directory.sync_all())
}

/// The directory in which a name is; `None` if it may be written and searched at most, and so cannot be synchronised.
fn open_directory_of(path: &Path) -> io::Result<Option<File>> {
    match File::open(directory_of(path)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        opened => opened.map(Some),
    }
}

/// The directory in which a name is.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    }
}

/// Writes at its own offset, independent of the file's.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    file: &'a File,
    at: u64,
}

impl io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write_at(bytes, self.at)?;
        self.at += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_complete_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("x");
        fs::write(&target, "old").unwrap();
        let partial = Partial::open(&target).unwrap();
        partial.writer(0).write_all(b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"old");
        assert!(folder.path().join(".x.part").exists());
        let when = "2020-01-01T00:00:00Z".parse().unwrap();
        partial.complete(Some(when), &Settled::default()).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        let modified = fs::metadata(&target).unwrap().modified().unwrap();
        assert_eq!(Timestamp::try_from(modified).unwrap(), when);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn directories_are_made_as_far_as_they_are_missing() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b/c");
        for _ in 0..2 {
            make_directories(&deep).unwrap();
            assert!(deep.is_dir());
        }
        make_directories(Path::new("")).unwrap();
        fs::write(folder.path().join("x"), "").unwrap();
        assert!(make_directories(&folder.path().join("x")).is_err());
        assert!(make_directories(&folder.path().join("x/y")).is_err());
    }

    #[test]
    fn only_one_transfer_writes_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("x");
        let _first = Partial::open(&target).unwrap();
        let second = Partial::open(&target).unwrap_err().to_string();
        assert!(
            second.ends_with("another transfer is writing this file"),
            "{second}"
        );
    }

    #[test]
    fn what_replaces_a_private_file_is_private_from_the_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("x");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        fs::write(folder.path().join("usual"), "").unwrap();
        let usual = mode(&folder.path().join("usual"));
        // It stays, as if the transfer had been interrupted.
        drop(Partial::open(&target).unwrap());
        let part = folder.path().join(".x.part");
        assert_eq!(mode(&part), usual);
        for (private, begun) in [(0o600, true), (0o640, false), (0o400, false)] {
            if !begun {
                fs::remove_file(&part).unwrap();
            }
            fs::write(&target, "old").unwrap();
            fs::set_permissions(&target, fs::Permissions::from_mode(private)).unwrap();
            let partial = Partial::open(&target).unwrap();
            assert_eq!(mode(&part) & !private, 0o600 & !private);
            partial.complete(None, &Settled::default()).unwrap();
            assert_eq!(mode(&target), private);
            fs::remove_file(&target).unwrap();
            drop(Partial::open(&target).unwrap());
        }
    }

    #[test]
    fn an_unfinished_file_that_is_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("precious"), "p").unwrap();
        std::os::unix::fs::symlink("precious", folder.path().join(".x.part")).unwrap();
        assert!(Partial::open(&folder.path().join("x")).is_err());
        assert_eq!(fs::read(folder.path().join("precious")).unwrap(), b"p");
    }

    #[test]
    fn names_stay_within_what_file_systems_take() {
        assert_eq!(partial_name(b"x"), b".x.part");
        assert_eq!(partial_name(&[b'a'; 247]).len(), 253);
        assert_eq!(stream_name(&[b'a'; 247]).len(), 255);
        assert_eq!(stream_name(b"x"), b".x.stream");
        assert_eq!(partial_name(&[b'a'; 255]).len(), 70);
    }
}
