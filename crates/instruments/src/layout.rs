//! What the files of traces have in common with the series of experiments: a column of times,
//! integers, a text, and the units in the file's metadata.
//!
//! How their pages are encoded is not common. A trace pays for every ACK, so it encodes while it
//! samples, and leaves out what slows this down; a series is small on the disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::{Type, TypePtr};

/// Column of the time: seconds since the beginning, the first column.
pub const TIME: &str = "time_s";
/// Metadata key of the columns' units, as JSON.
const UNITS_KEY: &str = "fairwind.units";

/// The columns of a file, which begin with the [`TIME`].
///
/// # Errors
/// Fails if a column cannot be described.
pub fn schema(columns: Vec<TypePtr>) -> Result<TypePtr, ParquetError> {
    let time = Type::primitive_type_builder(TIME, PhysicalType::DOUBLE)
        .with_repetition(Repetition::REQUIRED)
        .build()?;
    let mut fields = vec![Arc::new(time)];
    fields.extend(columns);
    let schema = Type::group_type_builder("schema")
        .with_fields(fields)
        .build()?;
    Ok(Arc::new(schema))
}

/// A column of 64-bit integers.
///
/// # Errors
/// Fails if it cannot be described.
pub fn integer(name: &str, optional: bool) -> Result<TypePtr, ParquetError> {
    let integer = Type::primitive_type_builder(name, PhysicalType::INT64)
        .with_repetition(repetition(optional))
        .build()?;
    Ok(Arc::new(integer))
}

/// A column of text.
///
/// # Errors
/// Fails if it cannot be described.
pub fn text(name: &str, optional: bool) -> Result<TypePtr, ParquetError> {
    let text = Type::primitive_type_builder(name, PhysicalType::BYTE_ARRAY)
        .with_repetition(repetition(optional))
        .with_converted_type(ConvertedType::UTF8)
        .with_logical_type(Some(LogicalType::String))
        .build()?;
    Ok(Arc::new(text))
}

fn repetition(optional: bool) -> Repetition {
    if optional {
        Repetition::OPTIONAL
    } else {
        Repetition::REQUIRED
    }
}

/// The entry of the metadata with the units of the time and of these columns: name and unit.
pub fn units(columns: impl Iterator<Item = (&'static str, &'static str)>) -> KeyValue {
    let units: serde_json::Map<String, serde_json::Value> = columns
        .chain([(TIME, "s")])
        .map(|(name, unit)| (name.to_owned(), unit.into()))
        .collect();
    KeyValue::new(
        UNITS_KEY.to_owned(),
        serde_json::Value::Object(units).to_string(),
    )
}

/// What is read, or an error where the Parquet library panics instead of giving one, as on some damaged files.
///
/// # Errors
/// Fails if reading fails or panics.
pub fn undamaged<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(ParquetError::General("it is damaged".into())))
}

/// The properties of every file: who wrote it, and neither dictionaries nor an index of the pages.
pub fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_created_by(concat!("fairwind ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_dictionary_enabled(false)
        .set_offset_index_disabled(true)
}
