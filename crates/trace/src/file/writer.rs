//! Writing a connection's file, which gets its final name only when it is complete.

use std::fs::{self, File};
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use fairwind_instruments::layout;
use parquet::basic::Encoding;
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, TypePtr};

use super::columns::{Columns, Group, Integers};
use super::encode::Runs;
use super::{CONNECTION_KEY, CONTROL, FileError};

/// A file being written.
pub(crate) struct ConnectionFile {
    path: PathBuf,
    unfinished: PathBuf,
    writer: SerializedFileWriter<File>,
}

impl ConnectionFile {
    pub(crate) fn create(path: &Path, columns: &Columns) -> Result<ConnectionFile, FileError> {
        let mut unfinished = path.to_owned().into_os_string();
        unfinished.push(".part");
        let unfinished = PathBuf::from(unfinished);
        let file = File::create(&unfinished).map_err(|error| FileError::new(&unfinished, error))?;
        let properties = Arc::new(properties(columns));
        let writer = schema(columns)
            .and_then(|schema| SerializedFileWriter::new(file, schema, properties))
            .map_err(|error| FileError::new(path, error))?;
        Ok(ConnectionFile {
            path: path.to_owned(),
            unfinished,
            writer,
        })
    }

    /// Writes a row group. `controls` names the congestion controls by number.
    pub(crate) fn write(&mut self, group: Group, controls: &[String]) -> Result<(), FileError> {
        self.write_group(group, controls)
            .map_err(|error| FileError::new(&self.path, error))
    }

    fn write_group(&mut self, mut group: Group, controls: &[String]) -> Result<(), ParquetError> {
        let rows = group.rows as u32;
        let columns = self.writer.schema_descr().columns().to_vec();
        let mut out = self.writer.next_row_group()?;
        let times = data_page(group.times, rows, Encoding::PLAIN);
        let integers = group.integers.iter_mut();
        let integers = integers.map(|integers| (None, integer_page(integers, rows)));
        let names = (!controls.is_empty()).then(|| names_page(controls));
        let controls = controls_page(group.controls, controls.len(), rows);
        let pages = iter::once((None, times)).chain(integers);
        for (column, (names, page)) in columns.into_iter().zip(pages.chain([(names, controls)])) {
            let (bytes, close) = chunk(column, names, page)?;
            out.append_column(&bytes, close)?;
        }
        out.close()?;
        Ok(())
    }

    /// Bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.writer.bytes_written() as u64
    }

    /// Writes the connection's metadata and the footer, and renames the file. Returns its size, bytes.
    pub(crate) fn finish(mut self, connection: String) -> Result<u64, FileError> {
        let key = CONNECTION_KEY.to_owned();
        self.writer
            .append_key_value_metadata(KeyValue::new(key, connection));
        self.writer
            .finish()
            .map_err(|error| FileError::new(&self.unfinished, error))?;
        fs::rename(&self.unfinished, &self.path)
            .map_err(|error| FileError::new(&self.path, error))?;
        Ok(self.bytes())
    }
}

fn integer_page(integers: &mut Integers, rows: u32) -> Page {
    let mut content = Vec::with_capacity(integers.deltas.len() + 64);
    if let Some(levels) = &mut integers.levels {
        put_levels(levels, &mut content);
    }
    integers.deltas.finish(&mut content);
    data_page(content, rows, Encoding::DELTA_BINARY_PACKED)
}

/// Puts the definition levels and their length, which precede the values.
fn put_levels(levels: &mut Runs, content: &mut Vec<u8>) {
    let levels = levels.finish();
    content.extend((levels.len() as u32).to_le_bytes());
    content.extend(levels);
}

/// The dictionary: the names of the congestion controls, each after its length.
fn names_page(controls: &[String]) -> Page {
    let mut content = Vec::new();
    for name in controls {
        content.extend((name.len() as u32).to_le_bytes());
        content.extend(name.as_bytes());
    }
    Page::DictionaryPage {
        buf: content.into(),
        num_values: controls.len() as u32,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    }
}

/// The dictionary indices of the names; numbers without a name are missing values.
fn controls_page(controls: Runs, names: usize, rows: u32) -> Page {
    let mut levels = Runs::default();
    let mut numbers = Runs::wide();
    for (control, times) in controls.runs() {
        let is_named = usize::from(control) < names;
        levels.push(u16::from(is_named), times);
        if is_named {
            numbers.push(control, times);
        }
    }
    let mut content = Vec::new();
    put_levels(&mut levels, &mut content);
    // Bit width of an index.
    content.push(16);
    content.extend(numbers.finish());
    data_page(content, rows, Encoding::RLE_DICTIONARY)
}

fn data_page(content: Vec<u8>, rows: u32, encoding: Encoding) -> Page {
    Page::DataPage {
        buf: content.into(),
        num_values: rows,
        encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    }
}

/// A column chunk: its pages and its entry in the footer.
fn chunk(
    column: ColumnDescPtr,
    dictionary: Option<Page>,
    data: Page,
) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
    let rows = data.num_values();
    let encodings = match dictionary {
        Some(_) => vec![Encoding::PLAIN, Encoding::RLE, data.encoding()],
        None => vec![Encoding::RLE, data.encoding()],
    };
    let mut sink = TrackedWrite::new(Vec::with_capacity(data.buffer().len() + 64));
    let mut pages = SerializedPageWriter::new(&mut sink);
    let mut put = |page: Page| {
        let size = page.buffer().len();
        pages.write_page(CompressedPage::new(page, size))
    };
    let dictionary = dictionary.map(&mut put).transpose()?;
    let start = dictionary.as_ref().map_or(0, |spec| spec.bytes_written);
    put(data)?;
    let bytes: Bytes = sink.into_inner()?.into();
    let metadata = ColumnChunkMetaData::builder(column)
        .set_encodings(encodings)
        .set_num_values(i64::from(rows))
        .set_total_compressed_size(bytes.len() as i64)
        .set_total_uncompressed_size(bytes.len() as i64)
        .set_data_page_offset(start as i64)
        .set_dictionary_page_offset(dictionary.map(|spec| spec.offset as i64))
        .build()?;
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: u64::from(rows),
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok((bytes, close))
}

fn schema(columns: &Columns) -> Result<TypePtr, ParquetError> {
    let mut fields = Vec::new();
    for instrument in &columns.instruments {
        fields.push(layout::integer(instrument.name, instrument.optional)?);
    }
    for field in columns.states.iter().flat_map(|state| &state.fields) {
        fields.push(layout::integer(&field.column, true)?);
    }
    fields.push(layout::text(CONTROL, true)?);
    layout::schema(fields)
}

fn properties(columns: &Columns) -> WriterProperties {
    let instruments = columns.instruments.iter();
    let units = layout::units(instruments.map(|instrument| (instrument.name, instrument.unit)));
    layout::properties()
        .set_statistics_enabled(EnabledStatistics::None)
        .set_key_value_metadata(Some(vec![units]))
        .build()
}
