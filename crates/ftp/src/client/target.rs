//! What a local path leads to, links followed: a regular file, or something that is read or written directly.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::Progress;

/// The number of symbolic links that Linux follows (path_resolution(7)).
const MOST_LINKS: usize = 40;
/// Interval at which a pipe is checked for a reader.
const READER_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A regular file, or a place where one can be created.
    File(PathBuf),
    /// Anything else except a directory.
    Flow(Flow),
}

/// Something that is read or written directly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flow {
    /// A pipe or a device.
    Special(PathBuf),
    /// A descriptor of this process, as under `/dev/stdout`.
    Descriptor(u32),
}

impl Target {
    /// What `path` leads to. Links are followed where the kernel would follow them.
    ///
    /// # Errors
    /// If it is a directory, has too many links, or cannot be examined.
    pub(super) fn find(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            // Fails for links that the kernel refuses to follow (fs.protected_symlinks).
            match fs::metadata(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let facts = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Self::File(path));
                }
                facts => facts?,
            };
            if facts.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            if facts.is_file() {
                return Ok(Self::File(path));
            }
            if !facts.is_symlink() {
                return Ok(Self::Flow(Flow::Special(path)));
            }
            if let Some(number) = descriptor(&path) {
                return Ok(Self::Flow(Flow::Descriptor(number)));
            }
            let next = fs::read_link(&path)?;
            path = path.parent().unwrap_or(Path::new("")).join(next);
        }
        Err(io::Error::from_raw_os_error(libc::ELOOP))
    }
}

impl Flow {
    /// Opens it for reading. A pipe does not need a writer yet.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn open_for_reading(&self) -> io::Result<File> {
        match self {
            Self::Descriptor(0) => Ok(io::stdin().as_fd().try_clone_to_owned()?.into()),
            Self::Descriptor(number) => File::open(own(*number)),
            Self::Special(path) => OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
                .open(path),
        }
    }

    /// Opens it for writing. Waits until a pipe has a reader; `None` if the user stops before.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn open_for_writing(&self, progress: &dyn Progress) -> io::Result<Option<File>> {
        let (path, mut inherited) = match self {
            Self::Special(path) => (path.clone(), None),
            Self::Descriptor(number) => {
                let open: File = match number {
                    1 => io::stdout().as_fd().try_clone_to_owned()?.into(),
                    2 => io::stderr().as_fd().try_clone_to_owned()?.into(),
                    _ => OpenOptions::new().write(true).open(own(*number))?,
                };
                // The flags of an inherited pipe are shared with other processes and must not be changed.
                if !is_pipe(&open.metadata()?) {
                    return Ok(Some(open));
                }
                (own(*number), Some(open))
            }
        };
        loop {
            let mut options = OpenOptions::new();
            options.write(true);
            match options
                .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
                .open(&path)
            {
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) && is_pipe_at(&path) => {}
                // A pipe created by another user may not be reopened.
                Err(error)
                    if error.kind() == io::ErrorKind::PermissionDenied && inherited.is_some() =>
                {
                    return Ok(inherited.take());
                }
                open => return open.map(Some),
            }
            if progress.stopped() {
                return Ok(None);
            }
            thread::sleep(READER_CHECK_INTERVAL);
        }
    }
}

/// Whether this path leads to this process's standard output.
pub fn is_standard_output(path: &Path) -> bool {
    matches!(Target::find(path), Ok(Target::Flow(Flow::Descriptor(1))))
}

fn own(number: u32) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{number}"))
}

fn is_pipe(facts: &Metadata) -> bool {
    facts.file_type().is_fifo()
}

fn is_pipe_at(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| is_pipe(&facts))
}

/// The descriptor that a link in /proc/self/fd (proc(5)) leads to.
fn descriptor(link: &Path) -> Option<u32> {
    let number = link.file_name()?.to_str()?.parse().ok()?;
    let folder = fs::canonicalize(link.parent()?).ok()?;
    (folder == fs::canonicalize("/proc/self/fd").ok()?).then_some(number)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_lead_to_the_file_that_is_meant_whether_it_is_there_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("d")).unwrap();
        symlink("d/second", at("first")).unwrap();
        symlink("../file", at("d/second")).unwrap();
        let found = Target::find(&at("first")).unwrap();
        assert_eq!(found, Target::File(at("d/../file")));
        fs::write(at("file"), "").unwrap();
        assert_eq!(Target::find(&at("first")).unwrap(), found);
        symlink("loop", at("loop")).unwrap();
        let endless = Target::find(&at("loop")).unwrap_err();
        assert_eq!(endless.raw_os_error(), Some(libc::ELOOP));
        assert!(Target::find(&at("d")).is_err());
    }

    #[test]
    fn what_is_open_or_special_is_known() {
        assert_eq!(
            Target::find(Path::new("/dev/stdout")).unwrap(),
            Target::Flow(Flow::Descriptor(1))
        );
        assert_eq!(
            Target::find(Path::new("/dev/fd/2")).unwrap(),
            Target::Flow(Flow::Descriptor(2))
        );
        assert_eq!(
            Target::find(Path::new("/dev/null")).unwrap(),
            Target::Flow(Flow::Special("/dev/null".into()))
        );
        assert!(is_standard_output(Path::new("/proc/self/fd/1")));
    }
}
