//! The files of recordings and exchanges, compressed with gzip: a first line that names the kind, lines of
//! a key and a value, an empty line, and a table (see `column.rs` for its encoding).

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::column;

/// Why a recording or an exchange could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its content is not that of a recording.
    #[error("no recording: {0}")]
    Malformed(&'static str),
}

pub(crate) fn write(file: &Path, content: &[u8]) -> Result<(), RecordingError> {
    let mut encoder = GzEncoder::new(File::create(file)?, Compression::best());
    encoder.write_all(content)?;
    encoder.finish()?;
    Ok(())
}

pub(crate) fn read(file: &Path) -> Result<Vec<u8>, RecordingError> {
    let mut content = Vec::new();
    GzDecoder::new(File::open(file)?).read_to_end(&mut content)?;
    Ok(content)
}

/// The content of a file.
pub(crate) fn encoded<const COLUMNS: usize>(
    first: &str,
    head: &[(&str, &dyn Display)],
    rows: &[[i64; COLUMNS]],
) -> Vec<u8> {
    let lines = head.iter().map(|(key, value)| format!("{key} {value}\n"));
    let mut content = format!("{first}\n{}\n", lines.collect::<String>()).into_bytes();
    column::put_table(&mut content, rows);
    content
}

/// Takes the first line from the front of a file's content.
pub(crate) fn take_first(content: &mut &[u8], first: &str) -> Result<(), RecordingError> {
    if line(content)? != first {
        return Err(RecordingError::Malformed("it begins otherwise"));
    }
    Ok(())
}

/// Takes the line of this key from the front of the rest: its value.
pub(crate) fn take<T: FromStr>(rest: &mut &[u8], key: &str) -> Result<T, RecordingError> {
    let value = line(rest)?.strip_prefix(key);
    let value = value.and_then(|value| value.strip_prefix(' '));
    let value = value.ok_or(RecordingError::Malformed("its head has other lines"))?;
    let value = value.parse().ok();
    value.ok_or(RecordingError::Malformed("its head has a bad number"))
}

/// Takes the end of the head and the table from the front of the rest.
pub(crate) fn take_table<const N: usize>(
    rest: &mut &[u8],
) -> Result<Vec<[i64; N]>, RecordingError> {
    if !line(rest)?.is_empty() {
        return Err(RecordingError::Malformed("no empty line before the table"));
    }
    column::take_table(rest).ok_or(RecordingError::Malformed("the table is cut off"))
}

fn line<'a>(content: &mut &'a [u8]) -> Result<&'a str, RecordingError> {
    let end = content.iter().position(|&byte| byte == b'\n');
    let end = end.ok_or(RecordingError::Malformed("its head is cut off"))?;
    let (line, behind) = content.split_at(end);
    *content = &behind[1..];
    str::from_utf8(line).map_err(|_| RecordingError::Malformed("its head is not UTF-8"))
}
