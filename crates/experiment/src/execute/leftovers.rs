//! The folders in which results are written, and the removal of those that killed processes left behind.
//!
//! The process that creates one holds a lock on it (flock(2)), which the kernel releases however the process
//! ends. A folder whose lock is free therefore belongs to nobody, and the next run for the same result
//! removes it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fairwind_kernel::LockedFile;
use tempfile::TempDir;

/// Length of the random end of a working folder's name.
const RANDOM_CHARACTERS: usize = 6;
/// Appended to the working folder's name, it names the replaced result while that is moved aside.
const REPLACED: &str = "-replaced";
/// New folders tried, in case other processes take each for a leftover before it is locked.
const ATTEMPTS: usize = 100;

/// A folder in which a result is written. It is removed with everything in it unless it is kept.
#[derive(Debug)]
pub(crate) struct Working {
    folder: TempDir,
    /// None on a file system without locks, where leftovers stay.
    _lock: Option<LockedFile>,
}

impl Working {
    /// Creates one in `parent` for the result called `name`.
    pub(crate) fn create(parent: &Path, name: &OsStr) -> io::Result<Working> {
        for _ in 0..ATTEMPTS {
            // By default a temporary folder is private; a result is as accessible as any other new folder.
            let folder = tempfile::Builder::new()
                .prefix(&prefix(name))
                .rand_bytes(RANDOM_CHARACTERS)
                .permissions(fs::Permissions::from_mode(0o777))
                .tempdir_in(parent)?;
            match lock(folder.path()) {
                // Another process took it for a leftover and is removing it.
                Err(error) if is_taken(&error) => {}
                lock => {
                    let _lock = lock.ok();
                    return Ok(Working { folder, _lock });
                }
            }
        }
        Err(io::Error::other("every new folder is removed at once"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where the result that this one replaces is moved aside.
    pub(crate) fn aside(&self) -> PathBuf {
        aside(self.path())
    }

    /// Keeps the folder, which has been renamed to the result's name.
    pub(crate) fn keep(self) {
        let _ = self.folder.keep();
    }
}

/// Removes what dead processes left behind of results called `name`. A result that was moved aside but not
/// replaced gets its name back.
pub(crate) fn remove(parent: &Path, name: &OsStr) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let names: Vec<OsString> = entries.map(|entry| entry.file_name()).collect();
    for entry in names.iter().filter(|entry| is_working_folder(entry, name)) {
        let folder = parent.join(entry);
        let Ok(_lock) = lock(&folder) else { continue };
        let aside = aside(&folder);
        let out = parent.join(name);
        if !out.exists() {
            let _ = fs::rename(&aside, &out);
        }
        let _ = fs::remove_dir_all(&aside);
        let _ = fs::remove_dir_all(&folder);
    }
}

fn prefix(name: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".unfinished-");
    prefix
}

/// Whether a folder of this name is one in which the result called `name` is written.
pub fn is_working_folder(entry: &OsStr, name: &OsStr) -> bool {
    let prefix = prefix(name);
    let random = entry.as_encoded_bytes();
    let random = random.strip_prefix(prefix.as_encoded_bytes());
    random.is_some_and(|random| {
        random.len() == RANDOM_CHARACTERS && random.iter().all(u8::is_ascii_alphanumeric)
    })
}

fn aside(folder: &Path) -> PathBuf {
    let mut aside = folder.as_os_str().to_owned();
    aside.push(REPLACED);
    PathBuf::from(aside)
}

fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::NotFound
    )
}

/// Locks a folder. Fails if another process holds the lock.
fn lock(folder: &Path) -> io::Result<LockedFile> {
    let file = LockedFile::try_lock(File::open(folder)?)?;
    // The previous holder may have removed the folder.
    if fs::metadata(folder)?.ino() != file.metadata()?.ino() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn what_nobody_has_is_removed_and_what_somebody_has_stays() {
        let parent = tempfile::tempdir().unwrap();
        let living = Working::create(parent.path(), OsStr::new("x")).unwrap();
        fs::create_dir_all(parent.path().join(".x.unfinished-aB3dE6/plots")).unwrap();
        for other in [".x.unfinished-notes", ".y.unfinished-aB3dE6", "x.toml"] {
            fs::create_dir(parent.path().join(other)).unwrap();
        }
        remove(parent.path(), OsStr::new("x"));
        let own = living.path().file_name().unwrap().to_str().unwrap();
        let mut left = vec![own, ".x.unfinished-notes", ".y.unfinished-aB3dE6", "x.toml"];
        left.sort_unstable();
        assert_eq!(names(parent.path()), left);
    }

    #[test]
    fn a_result_that_stood_aside_has_its_name_again() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        fs::create_dir(path(".x.unfinished-aB3dE6")).unwrap();
        fs::create_dir(path(".x.unfinished-aB3dE6-replaced")).unwrap();
        fs::write(path(".x.unfinished-aB3dE6-replaced/result.json"), "old").unwrap();
        remove(parent.path(), OsStr::new("x"));
        assert_eq!(names(parent.path()), ["x"]);
        assert_eq!(fs::read_to_string(path("x/result.json")).unwrap(), "old");
    }
}
