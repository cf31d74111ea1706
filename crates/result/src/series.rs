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

pub use writer::ParquetRecorder;

#[cfg(test)]
mod tests;
