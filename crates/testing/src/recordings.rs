//! Recorded series that are too large for the repository.

use std::path::{Path, PathBuf};

/// The path of a file or folder in `../shared/data` beside the repository.
///
/// # Errors
///
/// If it does not exist.
pub fn recording(name: &str) -> Result<PathBuf, String> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = repository.join("../shared/data").join(name);
    match path.exists() {
        true => Ok(path),
        false => Err("recordings beside the repository are needed: ../shared/data".to_owned()),
    }
}
