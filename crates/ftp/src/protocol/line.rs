//! Lines of the control connection, decoded from arbitrary bytes: of bounded length, with Telnet commands
//! removed (RFC 959 section 4.1.3, RFC 854).
//!
//! A data byte 255 is sent twice. Many clients send it only once: if no Telnet command follows it, it and
//! the next byte are taken as the data that they are.

use std::borrow::Cow;
use std::collections::VecDeque;

/// A decoded line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, without CR LF or LF.
    Whole(Vec<u8>),
    /// A line that was longer than allowed; it has been discarded.
    TooLong,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Telnet {
    Text,
    /// After IAC.
    Command,
    /// After IAC and WILL, WONT, DO or DONT.
    Option,
}

/// Splits bytes into lines.
#[derive(Debug)]
pub(crate) struct LineDecoder {
    input: VecDeque<u8>,
    line: Vec<u8>,
    limit: usize,
    overrun: bool,
    telnet: Telnet,
}

/// Telnet's escape byte: begins a command, or is data if doubled.
pub(crate) const IAC: u8 = 255;
/// The lowest Telnet command (RFC 1184 section 2; RFC 854 begins with 240).
const FIRST_COMMAND: u8 = 236;

/// Escapes data for Telnet: 255 is sent twice.
pub(crate) fn escaped(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.contains(&IAC) {
        return Cow::Borrowed(bytes);
    }
    let mut escaped = Vec::with_capacity(bytes.len() + 1);
    for byte in bytes {
        escaped.push(*byte);
        if *byte == IAC {
            escaped.push(IAC);
        }
    }
    Cow::Owned(escaped)
}

/// Bytes as one line can hold them: control characters of ASCII become `?`. All bytes above 127 may be part of a name in
/// some encoding.
pub(crate) fn single_line(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .map(|byte| if byte.is_ascii_control() { b'?' } else { *byte })
        .collect()
}

impl LineDecoder {
    /// A decoder for lines of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            input: VecDeque::new(),
            line: Vec::new(),
            limit,
            overrun: false,
            telnet: Telnet::Text,
        }
    }

    /// Takes bytes. Call only when [`next_line`](Self::next_line) has no line left, so that memory
    /// stays bounded.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.input.extend(bytes);
    }

    /// Whether nothing has been taken that does not belong to a line already given.
    pub(crate) fn is_empty(&self) -> bool {
        self.input.is_empty()
            && self.line.is_empty()
            && !self.overrun
            && self.telnet == Telnet::Text
    }

    /// The next line, if it is complete.
    pub(crate) fn next_line(&mut self) -> Option<Line> {
        while let Some(byte) = self.input.pop_front() {
            if self.telnet == Telnet::Command && byte < FIRST_COMMAND {
                self.telnet = Telnet::Text;
                self.push(IAC);
            }
            match (self.telnet, byte) {
                (Telnet::Text, IAC) => self.telnet = Telnet::Command,
                (Telnet::Command, 251..=254) => self.telnet = Telnet::Option,
                (Telnet::Command, IAC) => {
                    self.telnet = Telnet::Text;
                    self.push(IAC);
                }
                (Telnet::Command | Telnet::Option, _) => self.telnet = Telnet::Text,
                (Telnet::Text, b'\n') => return Some(self.finish()),
                (Telnet::Text, byte) => self.push(byte),
            }
        }
        None
    }

    fn push(&mut self, byte: u8) {
        // One more than the limit: room for the CR of the line ending.
        if self.line.len() <= self.limit {
            self.line.push(byte);
        } else {
            self.overrun = true;
        }
    }

    fn finish(&mut self) -> Line {
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if std::mem::take(&mut self.overrun) || line.len() > self.limit {
            return Line::TooLong;
        }
        Line::Whole(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn lines(limit: usize, bytes: &[u8]) -> Vec<Line> {
        let mut decoder = LineDecoder::new(limit);
        decoder.take(bytes);
        std::iter::from_fn(|| decoder.next_line()).collect()
    }

    fn whole(text: &[u8]) -> Line {
        Line::Whole(text.to_vec())
    }

    #[test]
    fn lines_end_with_lf_with_or_without_cr() {
        assert_eq!(
            lines(9, b"NOOP\r\nQUIT\nhalf"),
            [whole(b"NOOP"), whole(b"QUIT")]
        );
    }

    #[test]
    fn a_line_too_long_is_one_fault_and_the_next_is_read() {
        assert_eq!(
            lines(4, b"NOOP\r\nNOOPS\r\nQUIT\r\n"),
            [whole(b"NOOP"), Line::TooLong, whole(b"QUIT")]
        );
    }

    #[test]
    fn telnet_commands_before_abor_are_taken_out() {
        // IP, then the Synch with its data mark: RFC 959 section 4.1.3 on ABOR.
        assert_eq!(lines(9, b"\xff\xf4\xff\xf2ABOR\r\n"), [whole(b"ABOR")]);
        assert_eq!(lines(9, b"\xff\xfd\x01A\xff\xff\r\n"), [whole(b"A\xff")]);
    }

    #[test]
    fn a_single_255_that_begins_no_command_is_data() {
        assert_eq!(
            lines(9, b"\xffa\xff\r\n\xff\nb\r\n"),
            [whole(b"\xffa\xff"), whole(b"\xff"), whole(b"b")]
        );
    }

    #[test]
    fn what_is_escaped_comes_out_as_it_was() {
        let name = b"\xff\xf4\xff\xffx\xff";
        let line = [&*escaped(name), b"\r\n"].concat();
        assert_eq!(lines(9, &line), [whole(name)]);
        assert_eq!(&*escaped(b"x\xff"), b"x\xff\xff");
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, cuts, damaged, pieces};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::tests::lines;
    use super::*;

    const LIMIT: usize = 64;

    const STREAMS: [&[u8]; 4] = [
        b"USER anonymous\r\nPASS me@example.org\r\nSYST\r\n",
        b"\xff\xf4\xff\xf2ABOR\r\nNOOP\r\n",
        b"CWD a\xff\xffb\r\nRETR \xffc\n",
        b"\xff\xfd\x01\xff\xfb\x03QUIT\r\n",
    ];

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![damaged(&STREAMS), vec(any::<u8>(), 0..5_000)]
    }

    /// Any byte of a line, most often one that Telnet or the line ending gives a meaning.
    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![
            Just(IAC),
            Just(b'\r'),
            FIRST_COMMAND..=IAC,
            0..b'\n',
            11..=IAC
        ]
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn memory_is_bounded_whatever_comes(bytes in stream()) {
            let mut decoder = LineDecoder::new(LIMIT);
            decoder.take(&bytes);
            while let Some(line) = decoder.next_line() {
                if let Line::Whole(line) = line {
                    prop_assert!(line.len() <= LIMIT);
                }
            }
            prop_assert!(decoder.line.len() <= LIMIT + 1 && decoder.input.is_empty());
        }

        #[test]
        fn lines_are_the_same_however_they_arrive(bytes in stream(), cuts in cuts()) {
            let mut decoder = LineDecoder::new(LIMIT);
            let mut arrived = Vec::new();
            for piece in pieces(&bytes, &cuts) {
                decoder.take(piece);
                arrived.extend(std::iter::from_fn(|| decoder.next_line()));
            }
            prop_assert_eq!(arrived, lines(LIMIT, &bytes));
        }

        #[test]
        fn what_is_escaped_comes_out_as_it_was(bytes in vec(byte(), 0..=LIMIT)) {
            let line = [&*escaped(&bytes), b"\r\n"].concat();
            prop_assert_eq!(lines(LIMIT, &line), [Line::Whole(bytes)]);
        }
    }
}
