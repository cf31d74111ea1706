//! Reading a connection's file.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use fairwind_instruments::layout::{TIME, undamaged};
use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::{CONNECTION_KEY, FileError};
use crate::record::Connection;

/// Writes the file as CSV: a line of names, then one line per sample; missing values are empty.
///
/// # Errors
///
/// Fails if the file cannot be read or is not a trace. Errors of `out` are returned in the inner result.
pub fn write_csv(path: &Path, out: &mut dyn Write) -> Result<io::Result<()>, FileError> {
    let reader = open(path)?;
    let names: Vec<String> = reader
        .metadata()
        .file_metadata()
        .schema_descr()
        .columns()
        .iter()
        .map(|column| column.name().to_owned())
        .collect();
    if let Err(error) = writeln!(out, "{}", names.join(",")) {
        return Ok(Err(error));
    }
    let wrong = |error: ParquetError| not_a_trace(path, error);
    let mut rows = undamaged(|| reader.get_row_iter(None)).map_err(wrong)?;
    while let Some(row) = undamaged(|| rows.next().transpose()).map_err(wrong)? {
        let cells: Vec<String> = row
            .get_column_iter()
            .map(|(_, field)| cell(field))
            .collect();
        if let Err(error) = writeln!(out, "{}", cells.join(",")) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

fn cell(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Double(value) => format!("{value:.9}"),
        Field::Str(value) => value.clone(),
        other => other.to_string(),
    }
}

/// Reads which connection the file belongs to.
///
/// # Errors
///
/// Fails if the file cannot be read, is not Parquet, or lacks the metadata of a connection.
pub fn connection(path: &Path) -> Result<Connection, FileError> {
    let reader = open(path)?;
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let text = metadata
        .into_iter()
        .flatten()
        .find(|entry| entry.key == CONNECTION_KEY)
        .and_then(|entry| entry.value.as_deref())
        .ok_or_else(|| not_a_trace(path, format!("it has no {CONNECTION_KEY}")))?;
    serde_json::from_str(text).map_err(|error| not_a_trace(path, error))
}

/// A column of integers, with a value or none for each row.
pub type Series = Vec<Option<i64>>;

/// Reads a column of integers; empty if the file lacks it.
///
/// # Errors
///
/// Fails if the file cannot be read or is not Parquet, or if the column does not hold integers.
pub fn series(path: &Path, name: &str) -> Result<Series, FileError> {
    let mut series = Series::new();
    each_group(path, name, |column, rows| {
        let ColumnReader::Int64ColumnReader(mut column) = column else {
            return Err(ParquetError::General(format!("{name} is not an integer")));
        };
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        column.read_records(rows, Some(&mut levels), None, &mut values)?;
        let mut values = values.into_iter();
        if levels.is_empty() {
            series.extend(values.map(Some));
        } else {
            let value = |level| if level > 0 { values.next() } else { None };
            series.extend(levels.into_iter().map(value));
        }
        Ok(())
    })?;
    Ok(series)
}

/// Reads the times of the rows, seconds since the trace began; empty if the file lacks them.
///
/// # Errors
///
/// Fails if the file cannot be read or is not Parquet, or if the column does not hold doubles.
pub fn times(path: &Path) -> Result<Vec<f64>, FileError> {
    let mut times = Vec::new();
    each_group(path, TIME, |column, rows| {
        let ColumnReader::DoubleColumnReader(mut column) = column else {
            return Err(ParquetError::General(format!("{TIME} is not a double")));
        };
        column.read_records(rows, None, None, &mut times)?;
        Ok(())
    })?;
    Ok(times)
}

/// Calls `read` for each row group with the column of this name and the number of rows.
fn each_group(
    path: &Path,
    name: &str,
    mut read: impl FnMut(ColumnReader, usize) -> Result<(), ParquetError>,
) -> Result<(), FileError> {
    let reader = open(path)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let columns = schema.columns();
    let Some(column) = columns.iter().position(|column| column.name() == name) else {
        return Ok(());
    };
    let mut all = (0..reader.num_row_groups()).map(|number| {
        let group = reader.get_row_group(number)?;
        let rows = group.metadata().num_rows() as usize;
        read(group.get_column_reader(column)?, rows)
    });
    undamaged(|| all.try_for_each(|group| group)).map_err(|error| not_a_trace(path, error))
}

fn open(path: &Path) -> Result<SerializedFileReader<File>, FileError> {
    let file = File::open(path).map_err(|error| FileError::new(path, error))?;
    undamaged(|| SerializedFileReader::new(file)).map_err(|error| not_a_trace(path, error))
}

fn not_a_trace(path: &Path, reason: impl Display) -> FileError {
    FileError::new(path, format!("not a trace: {reason}"))
}
