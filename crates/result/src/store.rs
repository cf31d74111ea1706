//! Results in files: `result.json` and `summary.json`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{FORMAT_VERSION, RESULT_FILE, RunResult, SUMMARY_FILE, Summary};

/// Why a result or a time series could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// A file operation failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// What is there is not what it should be.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl ResultError {
    /// Turns the error of an operation on this file or folder into one that names it.
    pub fn io(path: &Path) -> impl Fn(std::io::Error) -> ResultError {
        move |source| ResultError::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// This file or folder is not what it should be.
    pub(crate) fn unusable(path: &Path, reason: impl ToString) -> ResultError {
        ResultError::Unusable {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// Turns an error about the content of this file into one that names it.
    pub(crate) fn of<E: ToString>(path: &Path) -> impl Fn(E) -> ResultError {
        move |error| ResultError::unusable(path, error)
    }

    /// The folder holds no result.
    pub fn missing(folder: &Path) -> ResultError {
        let reason =
            format!("no result here; a result folder holds {RESULT_FILE} or {SUMMARY_FILE}");
        ResultError::unusable(folder, reason)
    }
}

/// What a result folder holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    /// `result.json`: one run.
    Run(RunResult),
    /// `summary.json`: several seeds, each in its sub-folder.
    Summary(Summary),
}

impl Stored {
    /// Reads the result in `folder`, which may also be a `result.json` or `summary.json` itself.
    pub fn read(folder: &Path) -> Result<Stored, ResultError> {
        let files = [SUMMARY_FILE, RESULT_FILE];
        let path = if files.iter().any(|file| folder.ends_with(file)) {
            Some(folder.to_owned())
        } else {
            let mut paths = files.iter().map(|file| folder.join(file));
            paths.find(|path| path.is_file())
        };
        match path {
            Some(path) if path.ends_with(SUMMARY_FILE) => read_json(&path).map(Stored::Summary),
            Some(path) => read_json(&path).map(Stored::Run),
            None => Err(ResultError::missing(folder)),
        }
    }
}

impl RunResult {
    /// The text of `result.json`: indented, in the order of the fields, with a newline at the end.
    pub fn to_json(&self) -> String {
        json(self)
    }

    /// Writes `result.json` into `folder`.
    pub fn write(&self, folder: &Path) -> Result<(), ResultError> {
        write_text(&folder.join(RESULT_FILE), &self.to_json())
    }

    /// Reads `result.json` in `folder`.
    pub fn read(folder: &Path) -> Result<RunResult, ResultError> {
        read_json(&folder.join(RESULT_FILE))
    }
}

impl Summary {
    /// The text of `summary.json`: indented, in the order of the fields, with a newline at the end.
    pub fn to_json(&self) -> String {
        json(self)
    }

    /// Writes `summary.json` into `folder`.
    pub fn write(&self, folder: &Path) -> Result<(), ResultError> {
        write_text(&folder.join(SUMMARY_FILE), &self.to_json())
    }

    /// Reads `summary.json` in `folder`.
    pub fn read(folder: &Path) -> Result<Summary, ResultError> {
        read_json(&folder.join(SUMMARY_FILE))
    }
}

fn json(value: &impl Serialize) -> String {
    let mut text =
        serde_json::to_string_pretty(value).expect("results have string keys and finite numbers");
    text.push('\n');
    text
}

/// Writes `text` to `path` and syncs it to disk, so that a full disk is an error here.
pub fn write_text(path: &Path, text: &str) -> Result<(), ResultError> {
    let io = ResultError::io(path);
    let mut file = fs::File::create(path).map_err(&io)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(&io)?;
    file.sync_all().map_err(&io)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ResultError> {
    #[derive(Deserialize)]
    struct Version {
        format_version: u32,
    }
    let text = fs::read_to_string(path).map_err(ResultError::io(path))?;
    let malformed = |error: serde_json::Error| {
        ResultError::unusable(path, format!("not a readable result: {error}"))
    };
    // The version first: a later format may lack fields that this one needs.
    let version: Version = serde_json::from_str(&text).map_err(malformed)?;
    if version.format_version > FORMAT_VERSION {
        let found = version.format_version;
        let reason = format!(
            "result format {found}, but this fairwind reads up to {FORMAT_VERSION}; use a newer one"
        );
        return Err(ResultError::unusable(path, reason));
    }
    serde_json::from_str(&text).map_err(malformed)
}
