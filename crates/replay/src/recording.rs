//! A recorded connection, and its file.
//!
//! A file is compressed with gzip. It contains the line `fairwind replay 1`; the lines `control`,
//! `path`, `kernel` and `hz`, each with a value; an empty line; a table with a row per call (see
//! `column.rs` for its encoding, `table.rs` for its columns).

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::call::{Call, Hook};
use crate::{column, table};

const FIRST_LINE: &str = "fairwind replay 1";

/// All calls of one connection, from the first on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The kernel's congestion control that was recorded: `reno` or `cubic`.
    pub control: String,
    /// The path of the connection, by its name in [`crate::path`].
    pub path: String,
    /// The kernel's release, as `uname -r`.
    pub kernel: String,
    /// Jiffies per second.
    pub hz: u32,
    /// The calls in order.
    pub calls: Vec<Call>,
}

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

impl Recording {
    /// Keeps only the first `acks` ACKs and their calls.
    pub fn keep_acks(&mut self, acks: usize) {
        let is_ack = |(_, call): &(usize, &Call)| matches!(call.hook, Hook::PktsAcked(_));
        let behind = self.calls.iter().enumerate().filter(is_ack).nth(acks);
        if let Some((index, _)) = behind {
            self.calls.truncate(index);
        }
    }

    /// Writes a file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created or written.
    pub fn write(&self, file: &Path) -> Result<(), RecordingError> {
        let mut encoder = GzEncoder::new(File::create(file)?, Compression::best());
        encoder.write_all(&self.encoded())?;
        encoder.finish()?;
        Ok(())
    }

    /// The content of a file before it is compressed.
    fn encoded(&self) -> Vec<u8> {
        let mut bytes = format!(
            "{FIRST_LINE}\ncontrol {}\npath {}\nkernel {}\nhz {}\n\n",
            self.control, self.path, self.kernel, self.hz
        )
        .into_bytes();
        column::put_table(&mut bytes, &table::from_calls(&self.calls));
        bytes
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or is not a recording.
    pub fn read(file: &Path) -> Result<Recording, RecordingError> {
        let mut bytes = Vec::new();
        GzDecoder::new(File::open(file)?).read_to_end(&mut bytes)?;
        Recording::parse(&bytes)
    }

    fn parse(mut rest: &[u8]) -> Result<Recording, RecordingError> {
        if line(&mut rest)? != FIRST_LINE {
            return Err(RecordingError::Malformed("it begins otherwise"));
        }
        let control = value(&mut rest, "control ")?;
        let path = value(&mut rest, "path ")?;
        let kernel = value(&mut rest, "kernel ")?;
        let hz = value(&mut rest, "hz ")?.parse().ok();
        let hz = hz.filter(|hz| (1..=10_000).contains(hz));
        let hz = hz.ok_or(RecordingError::Malformed("hz is not 1 to 10,000"))?;
        if !line(&mut rest)?.is_empty() {
            return Err(RecordingError::Malformed("no empty line before the table"));
        }
        let rows = column::take_table(&mut rest);
        let rows = rows.ok_or(RecordingError::Malformed("the table is cut off"))?;
        let calls = table::to_calls(&rows);
        Ok(Recording {
            control,
            path,
            kernel,
            hz,
            calls: calls.ok_or(RecordingError::Malformed(
                "a call has a number out of range",
            ))?,
        })
    }
}

pub(crate) fn line<'a>(bytes: &mut &'a [u8]) -> Result<&'a str, RecordingError> {
    let end = bytes.iter().position(|&byte| byte == b'\n');
    let end = end.ok_or(RecordingError::Malformed("its head is cut off"))?;
    let (line, behind) = bytes.split_at(end);
    *bytes = &behind[1..];
    str::from_utf8(line).map_err(|_| RecordingError::Malformed("its head is not UTF-8"))
}

pub(crate) fn value(bytes: &mut &[u8], key: &str) -> Result<String, RecordingError> {
    let value = line(bytes)?.strip_prefix(key);
    let value = value.ok_or(RecordingError::Malformed("its head has other lines"))?;
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::calls;

    pub(super) fn recording() -> Recording {
        Recording {
            control: "cubic".into(),
            path: "random loss".into(),
            kernel: "6.18.44".into(),
            hz: 250,
            calls: calls(),
        }
    }

    #[test]
    fn a_file_gives_back_what_was_written() {
        let file = std::env::temp_dir().join(format!("fairwind-recording-{}", std::process::id()));
        recording().write(&file).unwrap();
        let read = Recording::read(&file);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(read.unwrap(), recording());
    }

    #[test]
    fn what_is_no_recording_is_said() {
        let refused = |text: &str| Recording::parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(refused(""), "no recording: its head is cut off");
        assert_eq!(refused("PK\n"), "no recording: it begins otherwise");
        let head = "fairwind replay 1\ncontrol reno\npath p\nkernel 6\n";
        assert_eq!(
            refused(&format!("{head}hz 0\n\n")),
            "no recording: hz is not 1 to 10,000"
        );
        assert_eq!(
            refused(&format!("{head}hz 250\n\n\u{2}")),
            "no recording: the table is cut off"
        );
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged};
    use proptest::prelude::*;

    use super::tests::recording;
    use super::*;

    proptest! {
        #![proptest_config(cases(512))]

        #[test]
        fn a_recording_that_is_read_is_written_alike(bytes in damaged(&[recording().encoded()])) {
            if let Ok(recording) = Recording::parse(&bytes) {
                prop_assert!((1..=10_000).contains(&recording.hz));
                let again = Recording::parse(&recording.encoded()).unwrap();
                prop_assert_eq!(again, recording);
            }
        }
    }
}
