//! Uploads: bytes are gathered in a file of another name beside the target, whose place it takes once all
//! have arrived. What an interrupted upload has gathered waits there to be resumed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;

use fairwind_transfer::RateLimitedLog;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::access::Right;
use super::copying;
use super::directory::{Facts, facts};
use super::files::Root;
use super::partial::{Partial, UploadError, existing};
use super::quota::Charge;
use crate::protocol::VirtualPath;

/// Users can provoke it by the permissions of their directories.
static STAYS: RateLimitedLog = RateLimitedLog::new();

/// Where an upload begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// With an empty file.
    Afresh,
    /// At this byte of what is there (REST, STOR).
    At(u64),
    /// At the end of what is there (APPE).
    AtEnd,
}

/// A file being received. If it is neither completed nor discarded, it is abandoned when dropped.
#[derive(Debug)]
pub(super) struct Upload {
    /// The file's name.
    pub(super) name: OsString,
    /// None once it has been completed or discarded.
    partial: Option<Partial>,
    /// The position in the file at which the upload begins.
    pub(super) first: u64,
    replaces: bool,
    /// The complete file that is continued, until its bytes are in the partial one.
    continued: Option<OwnedFd>,
    /// What it takes of a quota.
    charge: Option<Charge>,
    /// Permission bits that a new file does not get; the process's decide if there are none here.
    pub(super) umask: Option<u32>,
}

impl Upload {
    /// Begins to gather the bytes of `path` for `owner`, who alone can resume the upload.
    ///
    /// # Errors
    /// [`UploadError`] if the file is being uploaded, `start` is beyond its end, or the file system
    /// refuses.
    pub(super) fn begin(
        root: &Root,
        path: &VirtualPath,
        start: Start,
        owner: &str,
    ) -> Result<Self, UploadError> {
        let (directory, name) = root.parent_to(path, Right::Create)?;
        let may_replace = root.require(&directory, Right::Write);
        let target = existing(&directory, &name)?;
        if target.is_some() {
            may_replace.as_ref().map_err(|_| Errno::ACCESS)?;
        }
        let quota = root.quota();
        let charge = quota.map(|quota| quota.receive(root.directory_itself()));
        let charge = charge.transpose()?;
        let partial = Partial::open(directory, &name)?;
        // What somebody else has begun is not replaced without the right to.
        if may_replace.is_err() && partial.is_anothers(owner, root.partial_age)? {
            return Err(Errno::ACCESS.into());
        }
        let mut upload = Self {
            charge,
            partial: Some(partial),
            name,
            first: 0,
            replaces: may_replace.is_ok(),
            continued: None,
            umask: None,
        };
        if let Some(charge) = &upload.charge {
            charge.begin(facts(upload.file())?.size(), target.is_some())?;
        }
        let gathered = upload.partial().gathered(owner, root.partial_age)?;
        upload.first = upload.position(target, gathered, start)?;
        upload.settle();
        upload.partial().belongs_to(owner);
        Ok(upload)
    }

    /// Begins to gather bytes under a name that is not in use yet (STOU).
    ///
    /// # Errors
    /// As [`begin`](Self::begin); `EEXIST` if no free name is found.
    pub(super) fn begin_unique(
        root: &Root,
        directory: &VirtualPath,
        stem: &str,
        owner: &str,
    ) -> Result<Self, UploadError> {
        for number in 0..1_000 {
            let path = directory.join(format!("{stem}-{number}").as_bytes());
            match root.facts(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => continue,
            }
            match Self::begin(root, &path, Start::Afresh, owner) {
                Err(UploadError::Busy) => continue,
                begun => {
                    let mut upload = begun?;
                    upload.replaces = false;
                    return Ok(upload);
                }
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Prepares the partial file, of which `gathered` bytes may be kept; returns the position at which
    /// the upload begins.
    fn position(
        &mut self,
        target: Option<Facts>,
        gathered: u64,
        start: Start,
    ) -> Result<u64, UploadError> {
        let present = target.map_or(gathered, |target| target.size());
        let first = match start {
            Start::Afresh => 0,
            Start::At(first) => first,
            Start::AtEnd => present,
        };
        if first > present {
            return Err(UploadError::BehindTheEnd(present));
        }
        let kept = match target {
            Some(target) if first > 0 => {
                self.continued = Some(self.open_target(target)?);
                0
            }
            _ => first,
        };
        let mut file = self.file();
        // ext4 writes a file to disk on close if it was ever truncated to nothing, even from nothing: the
        // last reply would wait for that.
        if facts(file)?.size() != kept {
            file.set_len(kept)?;
        }
        file.seek(SeekFrom::Start(first))?;
        Ok(first)
    }

    fn open_target(&self, target: Facts) -> Result<OwnedFd, UploadError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let directory = &self.partial().directory;
        let source = rustix::fs::openat(directory, &self.name, flags, Mode::empty())?;
        if facts(&source)?.identity() != target.identity() {
            return Err(UploadError::Busy);
        }
        Ok(source)
    }

    /// Copies the bytes of a complete file that is continued. That file stays as it is until its
    /// successor is complete, so its bytes are taken over first: shared where the file system can, else
    /// copied by the kernel, which takes a while for a large file. False if `is_stopped` before all have
    /// been copied.
    ///
    /// # Errors
    /// If the bytes cannot be copied, or the file has become shorter meanwhile.
    pub(super) fn take_over(&mut self, is_stopped: impl Fn() -> bool) -> io::Result<bool> {
        let Some(source) = self.continued.take() else {
            return Ok(true);
        };
        if let Some(charge) = &self.charge {
            charge.grow_to(self.first)?;
        }
        let taken = copying::first_bytes(&source, self.file(), self.first, is_stopped);
        if !matches!(taken, Ok(true)) {
            // A piece of the old file is not worth resuming.
            self.file().set_len(0)?;
        }
        taken
    }

    /// Writes to the file that gathers the bytes, from where they continue, as far as the quota has room.
    pub(super) fn sink(&self) -> Box<dyn Write + '_> {
        let file = self.file();
        match &self.charge {
            Some(charge) => Box::new(charge.writer(file, self.first)),
            None => Box::new(file),
        }
    }

    /// The file, if bytes may be written to it without asking the quota.
    pub(super) fn unmetered(&self) -> Option<&File> {
        self.charge.is_none().then(|| self.file())
    }

    /// Tells the quota how large the file is now.
    fn settle(&self) {
        if let (Some(charge), Some(partial)) = (&self.charge, &self.partial)
            && let Ok(facts) = facts(&partial.file)
        {
            charge.settle(facts.size());
        }
    }

    /// The file that gathers the bytes, positioned where they continue.
    pub(super) fn file(&self) -> &File {
        &self.partial().file
    }

    fn partial(&self) -> &Partial {
        let partial = self.partial.as_ref();
        partial.expect("who completes or discards an upload has it no longer")
    }

    /// Forces the bytes to disk, so that [`complete`](Self::complete) cannot give the name to less, even
    /// after a power failure.
    ///
    /// # Errors
    /// If bytes have been lost.
    pub(super) fn force_bytes(&self) -> io::Result<()> {
        self.file().sync_data()
    }

    /// All bytes have arrived: the file takes its place, with the permissions of its predecessor. Returns
    /// the directory, in which the name is permanent once it is forced to disk ([`force_name`]).
    ///
    /// # Errors
    /// If the file cannot be renamed or its permissions cannot be set; `EDQUOT` if what it was to replace has gone
    /// elsewhere, and there is no room for both.
    pub(super) fn complete(mut self) -> io::Result<OwnedFd> {
        self.settle();
        self.take_place()?;
        let partial = self.partial.take();
        Ok(partial.expect("it has just been renamed").directory)
    }

    fn take_place(&self) -> io::Result<()> {
        let mut held = self.charge.as_ref().map(Charge::hold);
        let predecessor = match self.replaces {
            true => existing(&self.partial().directory, &self.name)?,
            false => None,
        };
        if let (Some(held), None) = (&mut held, &predecessor) {
            held.stay()?;
        }
        let mode = match (&predecessor, self.umask) {
            (Some(predecessor), _) => Some(predecessor.mode() & 0o777),
            (None, umask) => umask.map(|umask| 0o666 & !umask),
        };
        if let Some(mode) = mode {
            rustix::fs::fchmod(self.file(), Mode::from_raw_mode(mode))?;
        }
        self.partial().rename(&self.name, self.replaces)?;
        if let (Some(held), Some(predecessor)) = (&mut held, &predecessor) {
            held.replaced(predecessor.size());
        }
        Ok(())
    }

    /// The disk is full: keeps what has arrived if it can be resumed, and makes room if it cannot. Returns whether it
    /// stays.
    pub(super) fn abandon_on_full_disk(self) -> bool {
        let replaces_a_file = !matches!(existing(&self.partial().directory, &self.name), Ok(None));
        if replaces_a_file || self.force_bytes().is_err() {
            self.discard();
            false
        } else {
            self.abandon()
        }
    }

    /// The upload was interrupted: keeps what has arrived to be resumed, if that is anything and there is room for it
    /// besides what it was to replace. Returns whether it stays.
    pub(super) fn abandon(mut self) -> bool {
        self.leave()
    }

    fn leave(&mut self) -> bool {
        self.settle();
        let Some(partial) = &self.partial else {
            return false;
        };
        let is_empty = facts(&partial.file).is_ok_and(|facts| facts.size() == 0);
        let charge = self.charge.as_ref();
        // If it stays, it is one more than before.
        if is_empty || charge.is_some_and(|charge| charge.hold().stay().is_err()) {
            self.remove();
            return false;
        }
        self.partial = None;
        true
    }

    /// The upload was interrupted, and what has arrived is of no use to anyone.
    pub(super) fn discard(mut self) {
        self.remove();
    }

    fn remove(&mut self) {
        let Some(partial) = self.partial.take() else {
            return;
        };
        match partial.remove() {
            Ok(()) => self.charge.iter().for_each(Charge::remove),
            Err(error) => {
                let name = &self.name;
                STAYS.warn(|| format!("the unfinished upload of {name:?} stays: {error}"));
            }
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Forces the names in a directory to disk.
///
/// # Errors
/// If the directory cannot be opened for reading or synchronised.
pub(super) fn force_name(directory: &OwnedFd) -> io::Result<()> {
    // A descriptor that was opened only to resolve names (`O_PATH`) cannot be synchronised itself.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
    Ok(rustix::fs::fsync(directory)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::mem::MaybeUninit;
    use std::time::Duration;

    use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

    use super::*;

    fn at(text: &str) -> VirtualPath {
        VirtualPath::root().join(text.as_bytes())
    }

    fn begin(dir: &tempfile::TempDir, start: Start) -> Result<Upload, UploadError> {
        Upload::begin(
            &Root::open(dir.path(), Duration::MAX).unwrap(),
            &at("x"),
            start,
            "alice",
        )
    }

    #[test]
    fn a_file_appears_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let upload = begin(&dir, Start::Afresh).unwrap();
        upload.file().write_all(b"abc").unwrap();
        assert!(!dir.path().join("x").exists());
        upload.complete().unwrap();
        assert_eq!(fs::read(dir.path().join("x")).unwrap(), b"abc");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_broke_off_is_resumed_where_it_ended_or_before() {
        let dir = tempfile::tempdir().unwrap();
        let upload = begin(&dir, Start::Afresh).unwrap();
        upload.file().write_all(b"abcd").unwrap();
        upload.abandon();
        assert!(matches!(
            begin(&dir, Start::At(5)),
            Err(UploadError::BehindTheEnd(4))
        ));
        let upload = begin(&dir, Start::At(2)).unwrap();
        upload.file().write_all(b"CD").unwrap();
        upload.abandon();
        let upload = begin(&dir, Start::AtEnd).unwrap();
        assert_eq!(upload.first, 4);
        upload.file().write_all(b"e").unwrap();
        upload.complete().unwrap();
        assert_eq!(fs::read(dir.path().join("x")).unwrap(), b"abCDe");
    }

    #[test]
    fn a_complete_file_stays_until_its_successor_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x"), "old").unwrap();
        let mut upload = begin(&dir, Start::AtEnd).unwrap();
        assert!(upload.take_over(|| false).unwrap());
        upload.file().write_all(b"er").unwrap();
        assert_eq!(fs::read(dir.path().join("x")).unwrap(), b"old");
        upload.complete().unwrap();
        assert_eq!(fs::read(dir.path().join("x")).unwrap(), b"older");
    }

    #[test]
    fn what_is_taken_over_ends_where_the_upload_begins() {
        let dir = tempfile::tempdir().unwrap();
        let old: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
        fs::write(dir.path().join("x"), &old).unwrap();
        let mut upload = begin(&dir, Start::At(70_001)).unwrap();
        assert!(upload.take_over(|| false).unwrap());
        upload.file().write_all(b"new").unwrap();
        upload.complete().unwrap();
        let expected = [&old[..70_001], b"new"].concat();
        assert!(fs::read(dir.path().join("x")).unwrap() == expected);
    }

    #[test]
    fn taking_over_stops_when_asked_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x"), "old").unwrap();
        let mut upload = begin(&dir, Start::AtEnd).unwrap();
        // Where the file system shares blocks there is nothing to stop.
        if !upload.take_over(|| true).unwrap() {
            upload.abandon();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }

    /// ext4 writes a file that was truncated to disk when it is closed, while the client waits.
    #[test]
    fn a_new_file_is_not_cut_and_what_is_begun_anew_is() {
        let dir = tempfile::tempdir().unwrap();
        let watch = inotify::init(CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&watch, dir.path(), WatchFlags::MODIFY).unwrap();
        let changes = || {
            let mut buffer = [MaybeUninit::uninit(); 1_024];
            let mut events = Reader::new(&watch, &mut buffer);
            std::iter::from_fn(|| events.next().ok().map(drop)).count()
        };
        let upload = begin(&dir, Start::Afresh).unwrap();
        assert_eq!(changes(), 0);
        upload.file().write_all(b"abc").unwrap();
        upload.abandon();
        assert_eq!(changes(), 1);
        begin(&dir, Start::Afresh).unwrap();
        assert_eq!(changes(), 1);
    }

    #[test]
    fn one_uploads_a_file_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = begin(&dir, Start::Afresh).unwrap();
        assert!(matches!(begin(&dir, Start::Afresh), Err(UploadError::Busy)));
        first.abandon();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(begin(&dir, Start::Afresh).is_ok());
    }

    /// A child that another thread forks has copies of all descriptors until it executes its program.
    #[test]
    fn a_file_is_free_at_once_though_a_forked_child_has_the_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let abandon = |upload: Upload| assert!(upload.abandon());
        for end in [abandon, Upload::discard] {
            let upload = begin(&dir, Start::Afresh).unwrap();
            upload.file().write_all(b"abc").unwrap();
            let _copy = upload.file().try_clone().unwrap();
            end(upload);
            begin(&dir, Start::Afresh).unwrap();
        }
    }

    #[test]
    fn an_upload_that_is_forgotten_leaves_what_has_come_and_no_empty_file() {
        let dir = tempfile::tempdir().unwrap();
        drop(begin(&dir, Start::Afresh).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let upload = begin(&dir, Start::Afresh).unwrap();
        upload.file().write_all(b"abc").unwrap();
        drop(upload);
        assert_eq!(begin(&dir, Start::AtEnd).unwrap().first, 3);
    }

    #[test]
    fn what_could_not_take_its_place_is_still_its_owners() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), Duration::MAX).unwrap();
        let upload = Upload::begin_unique(&root, &VirtualPath::root(), "x", "alice").unwrap();
        upload.file().write_all(b"abc").unwrap();
        fs::write(dir.path().join("x-0"), "faster").unwrap();
        upload.complete().unwrap_err();
        fs::remove_file(dir.path().join("x-0")).unwrap();
        let go_on = |owner| Upload::begin(&root, &at("x-0"), Start::At(3), owner);
        assert!(matches!(go_on("bob"), Err(UploadError::BehindTheEnd(0))));
        assert_eq!(go_on("alice").unwrap().first, 3);
    }
}
