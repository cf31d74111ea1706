//! One file per connection: Parquet, with a column for the time, one for each instrument and one
//! for the name of the congestion control. The file's metadata describe the connection.

mod columns;
mod encode;
pub mod layout;
mod reader;
mod writer;

use std::path::{Path, PathBuf};

pub use columns::Columns;
pub(crate) use columns::{Block, Group, Source};
pub use reader::{Series, connection, series, times, write_csv};
pub(crate) use writer::ConnectionFile;

/// Last column: the name of the congestion control.
pub const CONTROL: &str = "CongestionControl";
/// Metadata key of the connection, as JSON: [`Connection`](crate::record::Connection).
pub const CONNECTION_KEY: &str = "fairwind.connection";

/// Why a file could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What went wrong.
    pub reason: String,
}

impl FileError {
    pub(crate) fn new(path: &Path, reason: impl ToString) -> FileError {
        FileError {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}
