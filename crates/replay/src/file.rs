//! The files of recordings and exchanges, compressed with gzip: a first line that names the kind, lines of
//! a key and a value, an empty line, and a table (see `column.rs` for its encoding).

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

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
pub(crate) fn encoded<const KEYS: usize, const COLUMNS: usize>(
    first: &str,
    keys: [&str; KEYS],
    values: [&dyn Display; KEYS],
    rows: &[[i64; COLUMNS]],
) -> Vec<u8> {
    let lines = keys.iter().zip(values);
    let values: String = lines
        .map(|(key, value)| format!("{key} {value}\n"))
        .collect();
    let mut content = format!("{first}\n{values}\n").into_bytes();
    column::put_table(&mut content, rows);
    content
}

/// Takes everything but the table from the front of a file's content: the values of these keys.
pub(crate) fn take_values<const N: usize>(
    content: &mut &[u8],
    first: &str,
    keys: [&str; N],
) -> Result<[String; N], RecordingError> {
    if line(content)? != first {
        return Err(RecordingError::Malformed("it begins otherwise"));
    }
    let mut values = [const { String::new() }; N];
    for (value, key) in values.iter_mut().zip(keys) {
        let rest = line(content)?.strip_prefix(key);
        let rest = rest.and_then(|rest| rest.strip_prefix(' '));
        *value = rest
            .ok_or(RecordingError::Malformed("its head has other lines"))?
            .to_owned();
    }
    if !line(content)?.is_empty() {
        return Err(RecordingError::Malformed("no empty line before the table"));
    }
    Ok(values)
}

/// Takes the table from the front of the rest.
pub(crate) fn take_table<const N: usize>(
    rest: &mut &[u8],
) -> Result<Vec<[i64; N]>, RecordingError> {
    column::take_table(rest).ok_or(RecordingError::Malformed("the table is cut off"))
}

fn line<'a>(content: &mut &'a [u8]) -> Result<&'a str, RecordingError> {
    let end = content.iter().position(|&byte| byte == b'\n');
    let end = end.ok_or(RecordingError::Malformed("its head is cut off"))?;
    let (line, behind) = content.split_at(end);
    *content = &behind[1..];
    str::from_utf8(line).map_err(|_| RecordingError::Malformed("its head is not UTF-8"))
}
