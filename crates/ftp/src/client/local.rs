//! A file here in the making: `.NAME.part` beside its place, which it takes when all bytes have come,
//! have been verified and are on the disk.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use rustix::fs::{FlockOperation, Mode, XattrFlags};

use super::ClientError;
use super::clash::Settled;
use crate::protocol::digest::Algorithm;

/// Where the origin of what has come is noted, on file systems that have such attributes.
const ORIGIN: &str = "user.fairwind.origin";

/// The name of an unfinished file. A name too long for that is replaced by its checksum.
pub fn partial_name(name: &[u8]) -> Vec<u8> {
    // Also with the longer end of a stream's name.
    const LONGEST: usize = 255 - b"..stream".len();
    let middle = match name.len() <= LONGEST {
        true => name.to_vec(),
        false => {
            let mut hasher = Algorithm::Sha256.start();
            hasher.update(name);
            hasher.finish().into_bytes()
        }
    };
    [b".", middle.as_slice(), b".part"].concat()
}

/// The name of what comes in a stream and cannot be gone on with.
pub fn stream_name(name: &[u8]) -> Vec<u8> {
    let mut partial = partial_name(name);
    partial.truncate(partial.len() - b"part".len());
    partial.extend_from_slice(b"stream");
    partial
}

/// A file in the making. Nobody else writes to it meanwhile.
#[derive(Debug)]
pub struct Partial {
    target: PathBuf,
    path: PathBuf,
    file: File,
}

impl Partial {
    /// Opens what is there of `target`, or begins it.
    ///
    /// # Errors
    /// The target is no plain file; somebody else is writing it; the kernel's.
    pub fn open(target: &Path) -> Result<Self, ClientError> {
        let failed = |error: io::Error| ClientError::local(target)(error);
        let name = target
            .file_name()
            .ok_or_else(|| failed(io::Error::other("that is no file's name")))?;
        match fs::metadata(target) {
            Ok(facts) if !facts.is_file() => {
                return Err(failed(io::Error::other(
                    "there is something that is no plain file",
                )));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let path = target.with_file_name(OsString::from_vec(partial_name(name.as_bytes())));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(ClientError::local(&path))?;
        let partial = Self {
            target: target.to_owned(),
            path,
            file,
        };
        partial.lock()?;
        Ok(partial)
    }

    fn lock(&self) -> Result<(), ClientError> {
        let busy = || self.failed(io::Error::other("another transfer is writing this file"));
        match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(busy()),
            locked => locked.map_err(|error| self.failed(error.into()))?,
        }
        // Whoever had the lock before may have finished meanwhile: then the name leads elsewhere.
        match self.is_named().map_err(|error| self.failed(error))? {
            true => Ok(()),
            false => Err(busy()),
        }
    }

    /// Whether the name leads to the open file.
    fn is_named(&self) -> io::Result<bool> {
        let open = self.file.metadata()?;
        Ok(fs::symlink_metadata(&self.path)
            .is_ok_and(|named| named.ino() == open.ino() && named.dev() == open.dev()))
    }

    /// The name it has now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes that are there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn len(&self) -> Result<u64, ClientError> {
        Ok(self
            .file
            .metadata()
            .map_err(|error| self.failed(error))?
            .len())
    }

    /// What was noted of the origin of these bytes.
    pub fn origin(&self) -> Option<String> {
        let mut text = [0; 256];
        let length = rustix::fs::fgetxattr(&self.file, ORIGIN, &mut text).ok()?;
        String::from_utf8(text[..length].to_vec()).ok()
    }

    /// Notes where the bytes come from, if the file system lets it.
    pub fn note_origin(&self, origin: &str) {
        // Without it, only a server's checksum lets a later process go on with these bytes.
        let _ = rustix::fs::fsetxattr(&self.file, ORIGIN, origin.as_bytes(), XattrFlags::empty());
    }

    /// Forgets all bytes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn empty(&self) -> Result<(), ClientError> {
        self.file.set_len(0).map_err(|error| self.failed(error))
    }

    /// A writer that begins at byte `first`.
    pub fn writer(&self, first: u64) -> Writer<'_> {
        Writer {
            file: &self.file,
            at: first,
            end: None,
            over: false,
        }
    }

    /// The file is whole: it goes to the disk and takes its place among those that are `settled`, with
    /// the time of the original and the permissions of its predecessor.
    ///
    /// # Errors
    /// The place is taken by a settled file; the kernel's.
    pub fn complete(
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
        // It may not be there.
        let _ = rustix::fs::fremovexattr(&self.file, ORIGIN);
        self.file.sync_all()?;
        let file = self.file.metadata()?;
        settled.settle(&file, &self.target, || {
            if !self.is_named()? {
                let path = self.path.display();
                return Err(io::Error::other(format!("{path} is another file by now")));
            }
            fs::rename(&self.path, &self.target)
        })?;
        let directory = match self.target.parent() {
            Some(directory) if directory != Path::new("") => directory,
            _ => Path::new("."),
        };
        File::open(directory)?.sync_all()
    }

    /// What has come is of no use.
    pub fn discard(self) {
        // A file that stays is begun anew next time.
        let _ = self.file.set_len(0);
        let _ = fs::remove_file(&self.path);
    }

    /// What has come waits to be continued, if it is anything.
    pub fn abandon(self) {
        if self.len().is_ok_and(|length| length == 0) {
            self.discard();
        }
    }

    /// A failure of this file.
    pub fn failed(&self, error: io::Error) -> ClientError {
        ClientError::local(&self.path)(error)
    }
}

/// Writes to a place in a file, whatever else is done with it.
#[derive(Debug)]
pub struct Writer<'a> {
    file: &'a File,
    at: u64,
    end: Option<u64>,
    over: bool,
}

impl Writer<'_> {
    /// Refuses what would make the file longer than so many bytes.
    pub fn up_to(self, end: Option<u64>) -> Self {
        Self { end, ..self }
    }

    /// Something has been refused for that.
    pub fn is_over(&self) -> bool {
        self.over
    }
}

impl io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self
            .end
            .is_some_and(|end| self.at + bytes.len() as u64 > end)
        {
            self.over = true;
            return Err(io::Error::other("more bytes than were announced"));
        }
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
