//! The state directory.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fairwind_kernel::LockedFile;
use thiserror::Error;

/// Name of the database in the state directory.
const DATABASE: &str = "advisor.db";
/// Name of the file that a running service locks.
const LOCK: &str = "advisor.lock";
/// All files of the service.
const FILES: [&str; 4] = [DATABASE, "advisor.db-wal", "advisor.db-shm", LOCK];

/// Why the state directory cannot be used.
#[derive(Debug, Error)]
pub enum StateError {
    /// Neither the environment nor the command line names one.
    #[error(
        "no state directory: set HOME, XDG_STATE_HOME or STATE_DIRECTORY, or name one with --state"
    )]
    Unnamed,
    /// It cannot be created or used.
    #[error("{}: {error}; {}", path.display(), cure(error.kind()))]
    Unusable {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// Another service uses it.
    #[error("{0}: another advisor works here")]
    Taken(PathBuf),
}

/// What helps against an error of the file system.
fn cure(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space on its file system"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "the state directory and the advisor's files in it must be writable for the user of the service: \
             make them so, or name another state directory by --state"
        }
        _ => "name another state directory by --state",
    }
}

/// The state directory: `named`, else systemd's `STATE_DIRECTORY`, else `fairwind` in `XDG_STATE_HOME` or
/// `~/.local/state`. It is created if necessary. Its files are accessible only to their owner, and so is the
/// directory unless it has other files too.
pub fn directory(named: Option<&Path>) -> Result<PathBuf, StateError> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => usual(|name| env::var_os(name)).ok_or(StateError::Unnamed)?,
    };
    match prepare(&path) {
        Ok(()) => Ok(path),
        Err((path, error)) => Err(StateError::Unusable { path, error }),
    }
}

/// Creates the directory if necessary and removes the permissions of others from its files, even if an
/// earlier version or another umask left them open. The write-ahead log and its index get the permissions of
/// the database.
fn prepare(directory: &Path) -> Result<(), (PathBuf, io::Error)> {
    let created = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    created.map_err(|error| (directory.to_owned(), error))?;
    let database = directory.join(DATABASE);
    for name in FILES {
        let file = directory.join(name);
        keep_from_others(&file).map_err(|error| (file, error))?;
    }
    if !database.exists() {
        let mut options = File::options();
        let created = options.write(true).create(true).truncate(false).mode(0o600);
        created.open(&database).map_err(|error| (database, error))?;
    }
    // The permissions of a directory with other files are not the service's business.
    if holds_nothing_else(directory).map_err(|error| (directory.to_owned(), error))? {
        keep_from_others(directory).map_err(|error| (directory.to_owned(), error))?;
    }
    Ok(())
}

/// Removes the permissions of group and others, if the file exists.
fn keep_from_others(file: &Path) -> io::Result<()> {
    let mode = match fs::metadata(file) {
        Ok(metadata) => metadata.permissions().mode(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    match mode & 0o077 {
        0 => Ok(()),
        _ => fs::set_permissions(file, Permissions::from_mode(mode & 0o700)),
    }
}

fn holds_nothing_else(directory: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if !FILES.iter().any(|ours| name == *ours) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn usual(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    if let Some(several) = variable("STATE_DIRECTORY") {
        // systemd separates several directories by colons; the first is used.
        return env::split_paths(&several)
            .next()
            .filter(|path| path.is_absolute());
    }
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("fairwind"))
}

/// The database in the state directory.
pub fn database(directory: &Path) -> PathBuf {
    directory.join(DATABASE)
}

/// Locks the state directory for one service.
pub fn hold(directory: &Path) -> Result<LockedFile, StateError> {
    let path = directory.join(LOCK);
    let unusable = |error| StateError::Unusable {
        path: path.clone(),
        error,
    };
    let options = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path);
    let file = options.map_err(unusable)?;
    match LockedFile::try_lock(file) {
        Ok(file) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StateError::Taken(directory.to_owned())),
        Err(TryLockError::Error(error)) => Err(unusable(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(set: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = set.iter().find(|(set, _)| *set == name)?;
            Some(OsString::from(found.1))
        };
        usual(variable).map(|path| path.display().to_string())
    }

    #[test]
    fn the_environment_names_the_directory() {
        let home = ("HOME", "/home/a");
        let expected = |path: &str| Some(path.to_owned());
        assert_eq!(place(&[home]), expected("/home/a/.local/state/fairwind"));
        assert_eq!(
            place(&[home, ("XDG_STATE_HOME", "/s")]),
            expected("/s/fairwind")
        );
        assert_eq!(
            place(&[home, ("XDG_STATE_HOME", "s")]),
            expected("/home/a/.local/state/fairwind")
        );
        assert_eq!(
            place(&[home, ("STATE_DIRECTORY", "/var/lib/x:/y")]),
            expected("/var/lib/x")
        );
        assert_eq!(place(&[]), None);
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_an_earlier_version_left_open_is_closed() {
        let place = tempfile::tempdir().unwrap();
        let state = place.path().join("state");
        fs::create_dir(&state).unwrap();
        for name in FILES {
            fs::write(state.join(name), "").unwrap();
            fs::set_permissions(state.join(name), Permissions::from_mode(0o644)).unwrap();
        }
        fs::set_permissions(&state, Permissions::from_mode(0o755)).unwrap();
        directory(Some(&state)).unwrap();
        for name in FILES {
            assert_eq!(mode(&state.join(name)), 0o600, "{name}");
        }
        assert_eq!(mode(&state), 0o700);
    }

    #[test]
    fn a_directory_of_others_stays_as_it_is_and_what_is_ours_in_it_is_ours_alone() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("something"), "").unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        directory(Some(place.path())).unwrap();
        assert_eq!(mode(place.path()), 0o755);
        assert_eq!(mode(&place.path().join(DATABASE)), 0o600);
        let _held = hold(place.path()).unwrap();
        assert_eq!(mode(&place.path().join(LOCK)), 0o600);
    }

    #[test]
    fn a_directory_serves_one_service_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let held = hold(place.path()).unwrap();
        assert!(matches!(hold(place.path()), Err(StateError::Taken(_))));
        drop(held);
        assert!(hold(place.path()).is_ok());
    }
}
