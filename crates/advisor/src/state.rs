//! Where the service keeps what it knows.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Name of the database in the state directory.
const DATABASE: &str = "advisor.db";
/// Name of the file that a running service holds.
const LOCK: &str = "advisor.lock";

/// Why there is no state directory to work in.
#[derive(Debug, Error)]
pub enum StateError {
    /// Neither the environment nor the command line names one.
    #[error(
        "no state directory: set HOME, XDG_STATE_HOME or STATE_DIRECTORY, or name one with --state"
    )]
    Unnamed,
    /// It cannot be made or used.
    #[error("{path}: {error}")]
    Unusable {
        /// File or directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another service works in it.
    #[error("{0}: another advisor works here")]
    Taken(PathBuf),
}

/// The state directory: `named` if it is, else systemd's `STATE_DIRECTORY`, else
/// `fairwind` in `XDG_STATE_HOME` or `~/.local/state`. It is created if need be, for its owner only.
pub fn directory(named: Option<&Path>) -> Result<PathBuf, StateError> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => usual(|name| env::var_os(name)).ok_or(StateError::Unnamed)?,
    };
    let create = || -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
    };
    match create() {
        Ok(()) => Ok(path),
        Err(error) => Err(StateError::Unusable { path, error }),
    }
}

fn usual(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    if let Some(several) = variable("STATE_DIRECTORY") {
        // systemd separates several by colons; ours is the first.
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

/// Holds the state directory for one service; it is free again when the file is closed, however the
/// process ends.
pub fn hold(directory: &Path) -> Result<File, StateError> {
    let path = directory.join(LOCK);
    let unusable = |error| StateError::Unusable {
        path: path.clone(),
        error,
    };
    let options = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let file = options.map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
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

    #[test]
    fn a_directory_serves_one_service_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let held = hold(place.path()).unwrap();
        assert!(matches!(hold(place.path()), Err(StateError::Taken(_))));
        drop(held);
        assert!(hold(place.path()).is_ok());
    }
}
