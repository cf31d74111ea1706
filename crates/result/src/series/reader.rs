//! Reads rows from the Parquet files.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use fairwind_instruments::layout::{TIME, undamaged};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use crate::ResultError;

/// A row of a series.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Seconds since the start of the run.
    pub time_s: f64,
    /// Index of the row's name among the names given to [`scan`].
    pub name: usize,
    /// Values of the requested columns, in that order.
    pub values: &'a [Option<i64>],
}

/// Calls `visit` for every row of a series whose name is among `names`, in the order of the file.
/// `name_column` is [`FLOW`](super::columns::FLOW) or [`LINK`](super::columns::LINK), `columns` the
/// requested integer columns. Reads one row group at a time, and only these columns of it.
pub fn scan(
    path: &Path,
    name_column: &str,
    names: &[&str],
    columns: &[&str],
    mut visit: impl FnMut(Row<'_>),
) -> Result<(), ResultError> {
    let file = File::open(path).map_err(ResultError::of(path))?;
    let wrong = |error: ParquetError| ResultError::unusable(path, format!("not a series: {error}"));
    let reader = undamaged(|| SerializedFileReader::new(file)).map_err(wrong)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let position = |name: &str| {
        schema
            .columns()
            .iter()
            .position(|column| column.name() == name)
            .ok_or_else(|| ResultError::unusable(path, format!("no column '{name}'")))
    };
    let time_at = position(TIME)?;
    let name_at = position(name_column)?;
    let columns_at = columns
        .iter()
        .map(|name| position(name))
        .collect::<Result<Vec<usize>, _>>()?;
    let number_of: HashMap<&[u8], usize> = names
        .iter()
        .enumerate()
        .map(|(number, name)| (name.as_bytes(), number))
        .collect();

    let mut row = vec![None; columns.len()];
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(wrong)?;
        let times = required::<DoubleType>(&*group, time_at).map_err(wrong)?;
        let named = required::<ByteArrayType>(&*group, name_at).map_err(wrong)?;
        let values = columns_at
            .iter()
            .map(|&at| integers(&*group, at))
            .collect::<Result<Vec<_>, _>>()
            .map_err(wrong)?;
        for (at, (&time_s, name)) in times.iter().zip(&named).enumerate() {
            let Some(&name) = number_of.get(name.data()) else {
                continue;
            };
            for (cell, column) in row.iter_mut().zip(&values) {
                *cell = column[at];
            }
            visit(Row {
                time_s,
                name,
                values: &row,
            });
        }
    }
    Ok(())
}

fn required<T: DataType>(group: &dyn RowGroupReader, at: usize) -> Result<Vec<T::T>, ParquetError> {
    let (levels, values) = undamaged(|| column::<T>(group, at))?;
    if levels.len() != values.len() {
        return Err(ParquetError::General(format!("column {at} lacks values")));
    }
    Ok(values)
}

fn integers(group: &dyn RowGroupReader, at: usize) -> Result<Vec<Option<i64>>, ParquetError> {
    let (levels, values) = undamaged(|| column::<Int64Type>(group, at))?;
    let mut values = values.into_iter();
    Ok(levels
        .into_iter()
        .map(|level| if level > 0 { values.next() } else { None })
        .collect())
}

/// A column of a row group: for every row a level, 1 if it has a value and 0 if not, and the
/// values.
fn column<T: DataType>(
    group: &dyn RowGroupReader,
    at: usize,
) -> Result<(Vec<i16>, Vec<T::T>), ParquetError> {
    let rows = usize::try_from(group.metadata().num_rows())
        .map_err(|_| ParquetError::General("a row group has a negative length".into()))?;
    let kind = group.metadata().schema_descr().column(at);
    if kind.physical_type() != T::get_physical_type() {
        return Err(ParquetError::General(format!(
            "column '{}' is of type {}, not {}",
            kind.name(),
            kind.physical_type(),
            T::get_physical_type()
        )));
    }
    let optional = kind.max_def_level() > 0;
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(at)?);
    let mut levels = Vec::new();
    let mut values = Vec::new();
    let mut read = 0;
    while read < rows {
        let wanted = optional.then_some(&mut levels);
        let (records, ..) = reader.read_records(rows - read, wanted, None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::General("a row group is cut short".into()));
        }
        read += records;
    }
    if !optional {
        levels = vec![1; values.len()];
    }
    if levels.len() != rows {
        return Err(ParquetError::General("columns differ in length".into()));
    }
    Ok((levels, values))
}
