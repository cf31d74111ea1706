//! How the files of a report are written.

use std::fs;
use std::path::{Path, PathBuf};

use fairwind_result::series::SeriesError;
use fairwind_result::{ResultError, write_text};

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A result could not be read, or a file of the report could not be written.
    #[error(transparent)]
    Result(#[from] ResultError),
    /// The series could not be read.
    #[error(transparent)]
    Series(#[from] SeriesError),
}

/// Writes a file under another name and renames it, so that a reader never sees half of it.
pub(crate) fn replace(path: &Path, text: &str) -> Result<PathBuf, ReportError> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    write_text(&partial, text)?;
    fs::rename(&partial, path).map_err(ResultError::io(path))?;
    Ok(path.to_owned())
}
