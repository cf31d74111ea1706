//! Checksums of files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::data::Meter;
use crate::protocol::command::ByteRange;
use crate::protocol::digest::Algorithm;

/// The checksum of a part of a file, in hexadecimal digits.
///
/// # Errors
/// The file's; `UnexpectedEof` if it ends before the part does; `Interrupted` if the meter was stopped.
pub fn of(
    file: &File,
    range: ByteRange,
    algorithm: Algorithm,
    meter: &Meter,
) -> io::Result<String> {
    let mut hasher = algorithm.start();
    let mut buffer = vec![0; 256 << 10];
    let mut at = range.first;
    while at < range.end {
        if meter.is_stopped() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let want = usize::try_from(range.end - at)
            .unwrap_or(buffer.len())
            .min(buffer.len());
        file.read_exact_at(&mut buffer[..want], at)?;
        hasher.update(&buffer[..want]);
        at += want as u64;
    }
    Ok(hasher.finish())
}
