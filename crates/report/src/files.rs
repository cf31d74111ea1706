//! How the files of a report are written.

use std::fs;
use std::path::{Path, PathBuf};

use fairwind_result::{ResultError, write_text};

/// Writes a file under another name and renames it, so that a reader never sees half of it.
pub(crate) fn replace(path: &Path, text: &str) -> Result<PathBuf, ResultError> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    write_text(&partial, text)?;
    fs::rename(&partial, path).map_err(ResultError::io(path))?;
    Ok(path.to_owned())
}
