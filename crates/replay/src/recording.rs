//! A recorded connection, and its file.
//!
//! A file (see `file.rs`) begins with `fairwind replay 1`; its table has a row per call (see `table.rs` for the columns).

use std::path::Path;

use crate::call::{Call, Hook};
use crate::{file, table};

pub use crate::file::RecordingError;

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
        file::write(file, &self.encoded())
    }

    fn encoded(&self) -> Vec<u8> {
        file::encoded(
            FIRST_LINE,
            &[
                ("control", &self.control),
                ("path", &self.path),
                ("kernel", &self.kernel),
                ("hz", &self.hz),
            ],
            &table::from_calls(&self.calls),
        )
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or is not a recording.
    pub fn read(file: &Path) -> Result<Recording, RecordingError> {
        Recording::parse(&file::read(file)?)
    }

    fn parse(mut rest: &[u8]) -> Result<Recording, RecordingError> {
        file::take_first(&mut rest, FIRST_LINE)?;
        Ok(Recording {
            control: file::take(&mut rest, "control")?,
            path: file::take(&mut rest, "path")?,
            kernel: file::take(&mut rest, "kernel")?,
            hz: hz(&file::take::<String>(&mut rest, "hz")?)?,
            calls: table::to_calls(&file::take_table(&mut rest)?).ok_or(
                RecordingError::Malformed("a call has a number out of range"),
            )?,
        })
    }
}

fn hz(value: &str) -> Result<u32, RecordingError> {
    let hz = value.parse().ok().filter(|hz| (1..=10_000).contains(hz));
    hz.ok_or(RecordingError::Malformed("hz is not 1 to 10,000"))
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
