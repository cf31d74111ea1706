//! Writes samples to Parquet files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairwind_instruments::layout;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use super::columns::{Column, FLOW, FLOW_COLUMNS, LINK, LINK_COLUMNS, flow_row, link_row, schema};
use crate::ResultError;
use crate::record::{FlowSample, LinkSample, Recorder};
use crate::{FLOWS_FILE, FORMAT_VERSION, LINKS_FILE};

/// Rows in a row group; with 24 columns about 12 MB are buffered until it is full.
const ROW_GROUP: usize = 1 << 16;
/// Names passed to the Parquet writer at a time.
const NAMES_AT_ONCE: usize = 4096;

/// Writes `flows.parquet` and `links.parquet` into a folder.
///
/// After the first error, samples are ignored, and [`ParquetRecorder::finish`] returns that error.
/// Without `finish` the files have no footer, so no reader accepts them as complete.
pub struct ParquetRecorder {
    flows: Table,
    links: Table,
    error: Option<ResultError>,
}

impl ParquetRecorder {
    /// Creates both files in `folder` for flows and links with these names, which samples refer to
    /// by index.
    pub fn create(
        folder: &Path,
        flows: &[String],
        links: &[String],
    ) -> Result<ParquetRecorder, ResultError> {
        Ok(ParquetRecorder {
            flows: Table::create(folder.join(FLOWS_FILE), FLOW, &FLOW_COLUMNS, flows)?,
            links: Table::create(folder.join(LINKS_FILE), LINK, &LINK_COLUMNS, links)?,
            error: None,
        })
    }

    /// Writes the remaining rows and the footers, and syncs the files to disk.
    pub fn finish(self) -> Result<(), ResultError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.flows.finish()?;
        self.links.finish()
    }
}

impl Recorder for ParquetRecorder {
    fn failed(&self) -> bool {
        self.error.is_some()
    }

    fn flow(&mut self, flow: usize, sample: &FlowSample) {
        if self.error.is_none() {
            let written = self.flows.push(sample.time_ns, flow, &flow_row(sample));
            self.error = written.err();
        }
    }

    fn link(&mut self, link: usize, sample: &LinkSample) {
        if self.error.is_none() {
            let written = self.links.push(sample.time_ns, link, &link_row(sample));
            self.error = written.err();
        }
    }
}

/// A file, and the row group being filled.
struct Table {
    path: PathBuf,
    file: SerializedFileWriter<File>,
    names: Vec<ByteArray>,
    times: Vec<f64>,
    named: Vec<u32>,
    columns: Vec<Values>,
}

/// A column of the row group: values, and a level per row, 1 where there is a value.
#[derive(Default)]
struct Values {
    values: Vec<i64>,
    levels: Vec<i16>,
}

impl Table {
    fn create(
        path: PathBuf,
        name_column: &str,
        columns: &[Column],
        names: &[String],
    ) -> Result<Table, ResultError> {
        let file = File::create(&path).map_err(ResultError::of(&path))?;
        let file = schema(name_column, columns)
            .and_then(|schema| {
                SerializedFileWriter::new(file, schema, Arc::new(properties(name_column, columns)))
            })
            .map_err(ResultError::of(&path))?;
        Ok(Table {
            path,
            file,
            names: names.iter().map(|n| ByteArray::from(n.as_str())).collect(),
            times: Vec::new(),
            named: Vec::new(),
            columns: columns.iter().map(|_| Values::default()).collect(),
        })
    }

    fn push(&mut self, time_ns: u64, name: usize, row: &[Option<i64>]) -> Result<(), ResultError> {
        debug_assert_eq!(row.len(), self.columns.len());
        if name >= self.names.len() {
            let reason = format!(
                "sample of number {name}, but there are {}",
                self.names.len()
            );
            return Err(ResultError::unusable(&self.path, reason));
        }
        self.times.push(time_ns as f64 / 1e9);
        self.named.push(name as u32);
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.levels.push(i16::from(value.is_some()));
            column.values.extend(value);
        }
        if self.times.len() == ROW_GROUP {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ResultError> {
        let written = self.write_row_group();
        written.map_err(ResultError::of(&self.path))?;
        self.times.clear();
        self.named.clear();
        for column in &mut self.columns {
            column.values.clear();
            column.levels.clear();
        }
        Ok(())
    }

    fn write_row_group(&mut self) -> Result<(), ParquetError> {
        let end = || ParquetError::General("fewer columns than the schema has".into());
        let mut group = self.file.next_row_group()?;

        let mut column = group.next_column()?.ok_or_else(end)?;
        column
            .typed::<DoubleType>()
            .write_batch(&self.times, None, None)?;
        column.close()?;

        let mut column = group.next_column()?.ok_or_else(end)?;
        for named in self.named.chunks(NAMES_AT_ONCE) {
            let names: Vec<ByteArray> = named
                .iter()
                .map(|&name| self.names[name as usize].clone())
                .collect();
            column
                .typed::<ByteArrayType>()
                .write_batch(&names, None, None)?;
        }
        column.close()?;

        for values in &self.columns {
            let mut column = group.next_column()?.ok_or_else(end)?;
            column
                .typed::<Int64Type>()
                .write_batch(&values.values, Some(&values.levels), None)?;
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    fn finish(mut self) -> Result<(), ResultError> {
        if !self.times.is_empty() {
            self.flush()?;
        }
        let file = self
            .file
            .into_inner()
            .map_err(ResultError::of(&self.path))?;
        file.sync_all().map_err(ResultError::of(&self.path))
    }
}

/// Snappy for everything; delta encoding for the integers, which are counters and slowly changing
/// windows; a dictionary for the names and for times, which many rows share.
fn properties(name_column: &str, columns: &[Column]) -> WriterProperties {
    let version = KeyValue::new(
        "fairwind.format_version".to_owned(),
        FORMAT_VERSION.to_string(),
    );
    let units = layout::units(columns.iter().map(|column| (column.name, column.unit)));
    let mut properties = layout::properties()
        .set_compression(Compression::SNAPPY)
        .set_column_dictionary_enabled(ColumnPath::from(layout::TIME), true)
        .set_column_dictionary_enabled(ColumnPath::from(name_column), true)
        .set_key_value_metadata(Some(vec![version, units]));
    for column in columns {
        properties = properties
            .set_column_encoding(ColumnPath::from(column.name), Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}
