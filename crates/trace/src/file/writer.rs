//! Samples of a connection into its file, which has its name only when it is whole.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Type as PhysicalType;
use parquet::basic::{Compression, ConvertedType, Encoding, LogicalType, Repetition};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use super::{CONNECTION_KEY, CONTROL, FileError, TIME, UNITS_KEY};
use crate::event::Sample;
use crate::instrument::{INSTRUMENTS, Instrument, Moment};

/// A sample with the congestion control by its number in the connection's list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub sample: Sample,
    pub control: u16,
}

/// A file that is being written.
pub(crate) struct ConnectionFile {
    path: PathBuf,
    unfinished: PathBuf,
    writer: SerializedFileWriter<File>,
}

/// What rows are turned into columns with.
pub(crate) struct Clock {
    /// `CLOCK_MONOTONIC` at the beginning of the trace, nanoseconds.
    pub began_ns: u64,
    /// Jiffies a second.
    pub hz: u32,
    /// When the connection was opened; nothing, if before the trace.
    pub opened_ns: Option<u64>,
}

impl ConnectionFile {
    pub(crate) fn create(path: &Path) -> Result<ConnectionFile, FileError> {
        let mut unfinished = path.to_owned().into_os_string();
        unfinished.push(".part");
        let unfinished = PathBuf::from(unfinished);
        let file = File::create(&unfinished).map_err(|error| FileError::new(&unfinished, error))?;
        let writer = schema()
            .and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties())))
            .map_err(|error| FileError::new(path, error))?;
        Ok(ConnectionFile {
            path: path.to_owned(),
            unfinished,
            writer,
        })
    }

    /// Writes the rows as a group, with `columns` as a workplace.
    pub(crate) fn write(
        &mut self,
        rows: &[Row],
        controls: &[String],
        clock: &Clock,
        columns: &mut Columns,
    ) -> Result<(), FileError> {
        self.write_group(rows, controls, clock, columns)
            .map_err(|error| FileError::new(&self.path, error))
    }

    fn write_group(
        &mut self,
        rows: &[Row],
        controls: &[String],
        clock: &Clock,
        columns: &mut Columns,
    ) -> Result<(), ParquetError> {
        let end = || ParquetError::General("fewer columns than the schema has".into());
        let mut group = self.writer.next_row_group()?;

        let times: Vec<f64> = rows
            .iter()
            .map(|row| (row.sample.head.time_ns as i64 - clock.began_ns as i64) as f64 / 1e9)
            .collect();
        let mut column = group.next_column()?.ok_or_else(end)?;
        column
            .typed::<DoubleType>()
            .write_batch(&times, None, None)?;
        column.close()?;

        columns.fill(rows, clock);
        for (instrument, values) in INSTRUMENTS.iter().zip(&columns.0) {
            let levels = instrument.optional.then_some(&values.levels[..]);
            let mut column = group.next_column()?.ok_or_else(end)?;
            column
                .typed::<Int64Type>()
                .write_batch(&values.values, levels, None)?;
            column.close()?;
        }

        let names: Vec<ByteArray> = controls.iter().map(|n| ByteArray::from(&n[..])).collect();
        let named: Vec<ByteArray> = rows
            .iter()
            .filter_map(|row| names.get(usize::from(row.control)).cloned())
            .collect();
        let levels: Vec<i16> = rows
            .iter()
            .map(|row| i16::from(usize::from(row.control) < names.len()))
            .collect();
        let mut column = group.next_column()?.ok_or_else(end)?;
        column
            .typed::<ByteArrayType>()
            .write_batch(&named, Some(&levels), None)?;
        column.close()?;
        group.close()?;
        Ok(())
    }

    /// Writes what the connection was and the footer, and gives the file its name.
    pub(crate) fn finish(mut self, connection: String) -> Result<(), FileError> {
        let key = CONNECTION_KEY.to_owned();
        self.writer
            .append_key_value_metadata(KeyValue::new(key, connection));
        self.writer
            .finish()
            .map_err(|error| FileError::new(&self.unfinished, error))?;
        fs::rename(&self.unfinished, &self.path).map_err(|error| FileError::new(&self.path, error))
    }
}

/// The instruments of some rows; used again and again, since to get the memory anew costs more than
/// to fill it.
#[derive(Default)]
pub(crate) struct Columns(Vec<Values>);

/// Values, and for optional columns a level a row, 1 where there is a value.
#[derive(Default)]
struct Values {
    values: Vec<i64>,
    levels: Vec<i16>,
}

/// Rows that the processor's nearest cache holds.
const BLOCK: usize = 64;

impl Columns {
    fn fill(&mut self, rows: &[Row], clock: &Clock) {
        self.0.resize_with(INSTRUMENTS.len(), Values::default);
        for column in &mut self.0 {
            column.values.clear();
            column.levels.clear();
        }
        // A row is large: column after column over all rows would fetch each row for each column.
        for block in rows.chunks(BLOCK) {
            for (instrument, column) in INSTRUMENTS.iter().zip(&mut self.0) {
                for row in block {
                    let value = instrument.value(&Moment {
                        sample: &row.sample,
                        hz: clock.hz,
                        opened_ns: clock.opened_ns,
                    });
                    column.values.extend(value);
                    if instrument.optional {
                        column.levels.push(i16::from(value.is_some()));
                    }
                }
            }
        }
    }
}

fn schema() -> Result<TypePtr, ParquetError> {
    let time = Type::primitive_type_builder(TIME, PhysicalType::DOUBLE)
        .with_repetition(Repetition::REQUIRED)
        .build()?;
    let control = Type::primitive_type_builder(CONTROL, PhysicalType::BYTE_ARRAY)
        .with_repetition(Repetition::OPTIONAL)
        .with_converted_type(ConvertedType::UTF8)
        .with_logical_type(Some(LogicalType::String))
        .build()?;
    let mut fields = vec![Arc::new(time)];
    for instrument in &INSTRUMENTS {
        fields.push(Arc::new(column(instrument)?));
    }
    fields.push(Arc::new(control));
    let schema = Type::group_type_builder("schema")
        .with_fields(fields)
        .build()?;
    Ok(Arc::new(schema))
}

fn column(instrument: &Instrument) -> Result<Type, ParquetError> {
    let repetition = match instrument.optional {
        true => Repetition::OPTIONAL,
        false => Repetition::REQUIRED,
    };
    Type::primitive_type_builder(instrument.name, PhysicalType::INT64)
        .with_repetition(repetition)
        .build()
}

/// As the series of experiments: Snappy, integers as differences.
fn properties() -> WriterProperties {
    let units: serde_json::Map<String, serde_json::Value> = INSTRUMENTS
        .iter()
        .map(|instrument| (instrument.name.to_owned(), instrument.unit.into()))
        .chain([(TIME.to_owned(), "s".into())])
        .collect();
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("fairwind ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_column_dictionary_enabled(ColumnPath::from(CONTROL), true)
        .set_offset_index_disabled(true)
        .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None)
        .set_key_value_metadata(Some(vec![KeyValue::new(
            UNITS_KEY.to_owned(),
            serde_json::Value::Object(units).to_string(),
        )]));
    for instrument in &INSTRUMENTS {
        properties = properties.set_column_encoding(
            ColumnPath::from(instrument.name),
            Encoding::DELTA_BINARY_PACKED,
        );
    }
    properties.build()
}
