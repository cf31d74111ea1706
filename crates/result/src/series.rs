//! Time series in columns: `flows.parquet` and `links.parquet`.
//!
//! [`ParquetRecorder`] writes them while a run goes on, one row group at a time, so that memory
//! does not grow with the run. [`scan`](reader::scan) reads them back column by column, and
//! [`Decimator`](decimate::Decimator) thins a curve to what a plot can show.

pub mod columns;
pub mod curves;
pub mod decimate;
pub mod reader;
mod writer;

use std::path::{Path, PathBuf};

pub use writer::ParquetRecorder;

/// Why a series could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct SeriesError {
    /// The file.
    pub path: PathBuf,
    /// What went wrong.
    pub reason: String,
}

impl SeriesError {
    fn new(path: &Path, reason: impl ToString) -> SeriesError {
        SeriesError {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
