//! A connection's file as text.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::{CONNECTION_KEY, FileError};
use crate::record::Connection;

/// Writes the file as CSV: a line of names, then a line a sample; missing values are empty.
///
/// # Errors
///
/// If the file is none of a trace. Errors of `out` come out as they are, inside.
pub fn write_csv(path: &Path, out: &mut dyn Write) -> Result<io::Result<()>, FileError> {
    let wrong = |error: &dyn Display| not_a_trace(path, error);
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
    let mut line = String::new();
    for row in reader.get_row_iter(None).map_err(|error| wrong(&error))? {
        let row = row.map_err(|error| wrong(&error))?;
        line.clear();
        for (number, (_, field)) in row.get_column_iter().enumerate() {
            if number > 0 {
                line.push(',');
            }
            match field {
                Field::Null => {}
                Field::Double(value) => line += &format!("{value:.9}"),
                Field::Long(value) => line += &value.to_string(),
                Field::Str(value) => line += value,
                other => line += &other.to_string(),
            }
        }
        line.push('\n');
        if let Err(error) = out.write_all(line.as_bytes()) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

/// Which connection the file is of.
///
/// # Errors
///
/// If the file is none of a trace.
pub fn connection(path: &Path) -> Result<Connection, FileError> {
    let reader = open(path)?;
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let text = metadata
        .into_iter()
        .flatten()
        .find(|entry| entry.key == CONNECTION_KEY)
        .and_then(|entry| entry.value.as_deref())
        .ok_or_else(|| not_a_trace(path, &format!("it has no {CONNECTION_KEY}")))?;
    serde_json::from_str(text).map_err(|error| not_a_trace(path, &error))
}

fn open(path: &Path) -> Result<SerializedFileReader<File>, FileError> {
    let file = File::open(path).map_err(|error| FileError::new(path, error))?;
    SerializedFileReader::new(file).map_err(|error| not_a_trace(path, &error))
}

fn not_a_trace(path: &Path, reason: &dyn Display) -> FileError {
    FileError::new(path, format!("not a trace: {reason}"))
}
