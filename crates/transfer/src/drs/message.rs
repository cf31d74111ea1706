//! `SBUF <timestamp> <buffer-size>`: the only message of the DRS channel (drsFTP, section 4).
//!
//! ```text
//! sbuf        ::= SBUF <SP> <timestamp> <SP> <buffer-size>
//! timestamp   ::= <number>      seconds, with a fraction
//! buffer-size ::= <number>      bytes
//! ```
//!
//! Each ends with CR LF; a bare LF is accepted. The sender of the file echoes the
//! bytes exactly as received.

use std::fmt;
use std::time::Duration;

/// Longest line, bytes, line ending included: a message has about forty.
pub(super) const LINE_LIMIT: usize = 128;

/// Decimals of a timestamp: microseconds, "as much precision as is available" (section 4).
const DECIMALS: usize = 6;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sbuf {
    /// When the receiver of the file sent it, by a clock of its own.
    pub timestamp: Duration,
    /// The receiver's buffer, which the sender is asked to have as well, bytes.
    pub buffer_size: u64,
}

impl Sbuf {
    /// Parses a line without its line ending; none if it is not a message. Numbers that overflow become
    /// the largest possible.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let mut words = text.split(' ');
        let (verb, timestamp, size) = (words.next()?, words.next()?, words.next()?);
        if !verb.eq_ignore_ascii_case("SBUF") || words.next().is_some() {
            return None;
        }
        Some(Self {
            timestamp: seconds(timestamp)?,
            buffer_size: whole(size)?,
        })
    }
}

impl fmt::Display for Sbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.timestamp.as_secs(), self.timestamp.subsec_micros());
        write!(f, "SBUF {seconds}.{micros:0DECIMALS$} {}", self.buffer_size)
    }
}

fn seconds(text: &str) -> Option<Duration> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let nanos: String = fraction
        .chars()
        .chain(std::iter::repeat('0'))
        .take(9)
        .collect();
    whole(fraction)?;
    Some(Duration::new(whole(seconds)?, nanos.parse().ok()?))
}

fn whole(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Splits the bytes received into lines, each with its line ending, in bounded memory.
#[derive(Debug, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// The current line is longer than allowed.
    overrun: bool,
}

/// A line of the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// As received, with its line ending.
    Whole(Vec<u8>),
    /// It was longer than [`LINE_LIMIT`] and has been discarded.
    TooLong,
}

impl Lines {
    /// The lines that end within `bytes`.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let ends = piece.ends_with(b"\n");
            if self.bytes.len() + piece.len() > LINE_LIMIT {
                self.overrun = true;
                self.bytes.clear();
            }
            if !self.overrun {
                self.bytes.extend(piece);
            }
            if ends {
                let line = std::mem::take(&mut self.bytes);
                lines.push(if std::mem::take(&mut self.overrun) {
                    Line::TooLong
                } else {
                    Line::Whole(line)
                });
            }
        }
        lines
    }
}

/// A line without its line ending.
pub(super) fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_seconds_with_a_fraction_and_bytes() {
        let sbuf = Sbuf {
            timestamp: Duration::new(1_082_714_400, 5_250_000),
            buffer_size: 2_400_000,
        };
        assert_eq!(sbuf.to_string(), "SBUF 1082714400.005250 2400000");
        assert_eq!(Sbuf::parse(b"SBUF 1082714400.005250 2400000"), Some(sbuf));
        assert_eq!(Sbuf::parse(b"sbuf 1082714400.00525 2400000"), Some(sbuf));
        assert_eq!(
            Sbuf::parse(b"SBUF 7 1").unwrap().timestamp,
            Duration::from_secs(7)
        );
    }

    #[test]
    fn what_is_no_message_is_none() {
        for line in [
            &b""[..],
            b"SBUF",
            b"SBUF 1.5",
            b"SBUF 1.5 ",
            b"SBUF  1.5 7",
            b"SBUF 1.5 7 8",
            b"SBUF -1 7",
            b"SBUF 1e9 7",
            b"SBUF 1.2.3 7",
            b"SBUF . 7",
            b"SBUF nan 7",
            b"SBUF 1.5 -7",
            b"SBUF 1.5 7.5",
            b"SBUF 1.5 0x10",
            b"STOR 1.5 7",
            b"SBUF 1.5 7\0",
            b"\xff\xfe SBUF",
        ] {
            assert_eq!(
                Sbuf::parse(line),
                None,
                "{:?}",
                String::from_utf8_lossy(line)
            );
        }
    }

    #[test]
    fn a_size_beyond_all_numbers_is_the_largest() {
        let sbuf = Sbuf::parse(b"SBUF 1.5 99999999999999999999999").unwrap();
        assert_eq!(sbuf.buffer_size, u64::MAX);
    }

    #[test]
    fn lines_are_cut_wherever_the_pieces_end_and_kept_as_they_came() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(b"SBUF 1"), []);
        assert_eq!(
            lines.take(b".5 7\r\nSBUF 2 8\nS"),
            [
                Line::Whole(b"SBUF 1.5 7\r\n".to_vec()),
                Line::Whole(b"SBUF 2 8\n".to_vec())
            ]
        );
        assert_eq!(trimmed(b"SBUF 1.5 7\r\n"), b"SBUF 1.5 7");
        assert_eq!(trimmed(b"SBUF 2 8\n"), b"SBUF 2 8");
    }

    #[test]
    fn a_line_too_long_is_one_fault_and_the_next_is_read() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(&[b'9'; 100]), []);
        assert_eq!(lines.take(&[b'9'; 5_000]), []);
        assert_eq!(
            lines.take(b"9\r\nSBUF 1 2\r\n"),
            [Line::TooLong, Line::Whole(b"SBUF 1 2\r\n".to_vec())]
        );
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, cuts, damaged, pieces};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const STREAMS: [&[u8]; 3] = [
        b"SBUF 1082714400.005250 2400000\r\nSBUF 1082714400.105250 4800000\r\n",
        b"sbuf 7 1\nSBUF 1.5 99999999999999999999999\r\n",
        b"DRS 00112233445566778899aabbccddeeff\r\nSBUF 0.000001 65536\r\n",
    ];

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![damaged(&STREAMS), vec(any::<u8>(), 0..2_000)]
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn memory_is_bounded_whatever_comes(bytes in stream(), cuts in cuts()) {
            let mut lines = Lines::default();
            for piece in pieces(&bytes, &cuts) {
                for line in lines.take(piece) {
                    if let Line::Whole(line) = line {
                        prop_assert!(line.len() <= LINE_LIMIT);
                    }
                }
                prop_assert!(lines.bytes.len() <= LINE_LIMIT);
            }
        }

        #[test]
        fn lines_are_the_same_however_they_arrive(bytes in stream(), cuts in cuts()) {
            let (mut lines, mut arrived) = (Lines::default(), Vec::new());
            for piece in pieces(&bytes, &cuts) {
                arrived.extend(lines.take(piece));
            }
            let expected = bytes.split_inclusive(|byte| *byte == b'\n');
            let expected = expected.filter(|line| line.ends_with(b"\n")).map(|line| {
                if line.len() <= LINE_LIMIT {
                    Line::Whole(line.to_vec())
                } else {
                    Line::TooLong
                }
            });
            prop_assert_eq!(arrived, expected.collect::<Vec<_>>());
        }

        #[test]
        fn what_is_written_is_read_again(micros in 0..u64::MAX / 2, buffer_size: u64) {
            let sbuf = Sbuf { timestamp: Duration::from_micros(micros), buffer_size };
            prop_assert_eq!(Sbuf::parse(sbuf.to_string().as_bytes()), Some(sbuf));
        }

        #[test]
        fn what_is_read_has_a_line_of_its_own(bytes in damaged(&STREAMS)) {
            for line in Lines::default().take(&bytes) {
                let Line::Whole(line) = line else { continue };
                let Some(sbuf) = Sbuf::parse(trimmed(&line)) else { continue };
                let written = sbuf.to_string();
                prop_assert!(written.len() + 2 <= LINE_LIMIT);
                let again = Sbuf::parse(written.as_bytes()).unwrap();
                prop_assert_eq!(again.buffer_size, sbuf.buffer_size);
                prop_assert_eq!(again.timestamp.as_micros(), sbuf.timestamp.as_micros());
            }
        }
    }
}
