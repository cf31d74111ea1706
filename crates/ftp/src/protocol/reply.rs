//! Replies: a three-digit code and lines (RFC 959 section 4.2). A line may tell a name, which is any bytes.

use std::fmt;

use super::line::{escaped, single_line};
use super::path::one_line;

/// A reply of one or more lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// 100 to 599.
    pub code: u16,
    /// At least one line, without code and line ending. Names in it have their own bytes.
    pub lines: Vec<Vec<u8>>,
}

impl Reply {
    /// A reply of one line.
    pub fn new(code: u16, line: impl Into<Vec<u8>>) -> Self {
        Self {
            code,
            lines: vec![line.into()],
        }
    }

    /// A reply of several lines; the last one closes it.
    pub fn lines(code: u16, lines: Vec<impl Into<Vec<u8>>>) -> Self {
        assert!(!lines.is_empty(), "a reply has a line");
        Self {
            code,
            lines: lines.into_iter().map(Into::into).collect(),
        }
    }

    /// 1yz: another reply follows.
    pub fn is_preliminary(&self) -> bool {
        self.code / 100 == 1
    }

    /// 2yz: done.
    pub fn is_positive(&self) -> bool {
        self.code / 100 == 2
    }

    /// 3yz: the next command of the sequence is awaited.
    pub fn is_intermediate(&self) -> bool {
        self.code / 100 == 3
    }

    /// 4yz: it may work later. Only 452, a full disk, does not clear by waiting.
    pub fn is_transient_failure(&self) -> bool {
        self.code / 100 == 4 && self.code != 452
    }

    /// All lines as one text, separated by line ends, that does no harm to a terminal: control characters become `?`,
    /// and bytes that are not UTF-8 the replacement character.
    pub fn text(&self) -> String {
        self.joined("\n")
    }

    fn joined(&self, separator: &str) -> String {
        let lines: Vec<_> = self.lines.iter().map(|line| one_line(line)).collect();
        lines.join(separator)
    }

    /// The bytes as sent: control characters become `?`, and 255 is doubled, as in commands (RFC 1123 section 3.2.6).
    /// Lines between the first and the last begin with a space: RFC 2389 requires that in FEAT, and it keeps them from
    /// being taken for the last line.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let last = self.lines.len() - 1;
        for (index, line) in self.lines.iter().enumerate() {
            let head = match index {
                _ if index == last => format!("{} ", self.code),
                0 => format!("{}-", self.code),
                _ => " ".to_owned(),
            };
            bytes.extend_from_slice(head.as_bytes());
            bytes.extend_from_slice(&escaped(&single_line(line)));
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.joined(" / "))
    }
}

/// Longest reply that is read, bytes: a STAT of a directory of some ten thousand files.
pub const LONGEST: usize = 4 << 20;

/// Assembles replies from lines.
#[derive(Debug, Default)]
pub struct ReplyReader {
    code: Option<u16>,
    lines: Vec<Vec<u8>>,
    bytes: usize,
}

impl ReplyReader {
    /// Takes the next line, without its line ending; returns a reply once it is complete.
    ///
    /// # Errors
    /// Why the lines are not a reply; the connection is of no further use then.
    pub fn take(&mut self, line: impl AsRef<[u8]>) -> Result<Option<Reply>, String> {
        let line = line.as_ref();
        self.bytes += line.len();
        if self.bytes > LONGEST {
            return Err(format!("a reply of more than {LONGEST} bytes"));
        }
        let head = head(line);
        match (self.code, head) {
            (None, Some((code, false, text))) => Ok(Some(self.finish(code, text))),
            (None, Some((code, true, text))) => {
                self.code = Some(code);
                self.lines.push(text.to_owned());
                Ok(None)
            }
            (None, None) => Err(format!("not a reply: {:?}", one_line(line))),
            (Some(code), Some((end, false, text))) if end == code => {
                Ok(Some(self.finish(code, text)))
            }
            (Some(code), Some((same, true, text))) if same == code => {
                self.lines.push(text.to_owned());
                Ok(None)
            }
            (Some(_), _) => {
                self.lines
                    .push(line.strip_prefix(b" ").unwrap_or(line).to_owned());
                Ok(None)
            }
        }
    }

    fn finish(&mut self, code: u16, text: &[u8]) -> Reply {
        let mut lines = std::mem::take(&mut self.lines);
        lines.push(text.to_owned());
        *self = Self::default();
        Reply { code, lines }
    }
}

/// Code, whether more lines follow, and text.
fn head(line: &[u8]) -> Option<(u16, bool, &[u8])> {
    let digits = line.get(..3)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let code = std::str::from_utf8(digits).ok()?.parse().ok()?;
    if !(100..600).contains(&code) {
        return None;
    }
    let rest = &line[3..];
    match rest.first() {
        None => Some((code, false, b"")),
        Some(b' ') => Some((code, false, &rest[1..])),
        Some(b'-') => Some((code, true, &rest[1..])),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_between_the_first_and_the_last_are_indented() {
        let reply = Reply::lines(211, vec!["Features:", "SIZE", "End"]);
        assert_eq!(reply.encode(), b"211-Features:\r\n SIZE\r\n211 End\r\n");
        assert_eq!(Reply::new(200, "Done").encode(), b"200 Done\r\n");
    }

    #[test]
    fn bytes_of_names_are_sent_as_they_are_but_control_characters_and_255() {
        let reply = Reply::new(257, b"a\xe9\xc2\x85\xff\xc3\xa9\r\n200 \0\x7f".to_vec());
        assert_eq!(
            reply.encode(),
            b"257 a\xe9\xc2\x85\xff\xff\xc3\xa9??200 ??\r\n"
        );
        assert_eq!(reply.text(), "a\u{fffd}?\u{fffd}\u{e9}??200 ??");
    }

    #[test]
    fn a_reply_of_several_lines_ends_with_its_own_code() {
        let mut reader = ReplyReader::default();
        // The example of RFC 959 section 4.2.
        for line in [
            "123-First line",
            "Second line",
            "  234 A line beginning with numbers",
        ] {
            assert_eq!(reader.take(line), Ok(None));
        }
        let reply = reader.take("123 The last line").unwrap().unwrap();
        assert_eq!(reply.code, 123);
        assert_eq!(reply.lines[2], b" 234 A line beginning with numbers");
        assert_eq!(reader.take("200"), Ok(Some(Reply::new(200, ""))));
    }

    #[test]
    fn what_begins_without_a_code_is_no_reply() {
        assert!(ReplyReader::default().take("SSH-2.0-OpenSSH").is_err());
        assert!(ReplyReader::default().take("999 no").is_err());
        assert!(ReplyReader::default().take("2é0").is_err());
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, cuts, damaged, pieces};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::line::{Line, LineDecoder};

    /// What servers say: vsftpd, Pure-FTPd, ProFTPD, and the example of RFC 959 section 4.2.
    const STREAMS: [&[u8]; 6] = [
        b"220 (vsFTPd 3.0.3)\r\n331 Please specify the password.\r\n230 Login successful.\r\n",
        b"220-Welcome to Pure-FTPd [privsep]\r\n220-You are user number 1 of 50 allowed.\r\n\
          220 You will be disconnected after 15 minutes of inactivity.\r\n",
        b"211-Features:\r\n MDTM\r\n REST STREAM\r\n MLST type*;size*;modify*;\r\n \
          HASH SHA-256*;SHA-1;MD5\r\n211 End\r\n",
        b"213-Status of /:\r\ndrwxr-xr-x   2 ftp      ftp   4096 Mar  2 14:00 p\xfcb\r\n213 End\r\n",
        b"227 Entering Passive Mode (192,0,2,1,4,210).\r\n150 Here it comes\r\n226\r\n",
        b"123-First line\r\nSecond line\r\n  234 A line beginning with numbers\r\n\
          123 The last line\r\n",
    ];

    /// What a client reads, and the fault that ends it.
    fn read(pieces: &[&[u8]]) -> (Vec<Reply>, Option<String>) {
        let (mut decoder, mut reader) = (LineDecoder::new(LONGEST), ReplyReader::default());
        let mut replies = Vec::new();
        for piece in pieces {
            decoder.take(piece);
            while let Some(line) = decoder.next_line() {
                let taken = match line {
                    Line::Whole(line) => reader.take(line),
                    Line::TooLong => Err("a line that is too long".to_owned()),
                };
                match taken {
                    Ok(reply) => replies.extend(reply),
                    Err(error) => return (replies, Some(error)),
                }
            }
        }
        (replies, None)
    }

    fn reply() -> impl Strategy<Value = Reply> {
        let byte = prop_oneof![b' '..=b'~', 0x80..=u8::MAX, Just(u8::MAX)];
        let text = prop_oneof!["\\PC{0,20}", "[0-9]{3}[ -]\\PC{0,8}", " {0,3}[0-9]{0,3}"];
        let line = prop_oneof![text.prop_map(String::into_bytes), vec(byte, 0..20)];
        (100..600_u16, vec(line, 1..6)).prop_map(|(code, lines)| Reply { code, lines })
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn replies_are_read_as_they_were_written(replies in vec(reply(), 0..4), cuts in cuts()) {
            let bytes: Vec<u8> = replies.iter().flat_map(Reply::encode).collect();
            prop_assert_eq!(read(&pieces(&bytes, &cuts)), (replies, None));
        }

        #[test]
        fn replies_are_the_same_however_they_arrive(bytes in damaged(&STREAMS), cuts in cuts()) {
            let (replies, fault) = read(&pieces(&bytes, &cuts));
            for reply in &replies {
                prop_assert!((100..600).contains(&reply.code) && !reply.lines.is_empty());
                prop_assert!(!reply.text().replace('\n', "").chars().any(char::is_control));
                let lines = reply.lines.iter().map(|line| single_line(line)).collect();
                let sent = Reply { lines, ..*reply };
                prop_assert_eq!(read(&[&reply.encode()]), (vec![sent], None));
            }
            prop_assert_eq!((replies, fault), read(&[&bytes]));
        }
    }
}
