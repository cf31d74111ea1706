//! A connection's file as text.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::FileError;

/// Writes the file as CSV: a line of names, then a line a sample; missing values are empty.
///
/// # Errors
///
/// If the file is none of a trace. Errors of `out` come out as they are, inside.
pub fn write_csv(path: &Path, out: &mut dyn Write) -> Result<io::Result<()>, FileError> {
    let wrong =
        |error: &dyn std::fmt::Display| FileError::new(path, format!("not a trace: {error}"));
    let file = File::open(path).map_err(|error| FileError::new(path, error))?;
    let reader = SerializedFileReader::new(file).map_err(|error| wrong(&error))?;
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
