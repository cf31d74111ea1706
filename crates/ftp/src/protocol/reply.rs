//! Replies: a three-digit code and lines of text (RFC 959 section 4.2).

use std::fmt;

/// A reply of one or more lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// 100 to 599.
    pub code: u16,
    /// At least one line, without code and line ending.
    pub lines: Vec<String>,
}

impl Reply {
    /// A reply of one line.
    pub fn new(code: u16, text: impl Into<String>) -> Self {
        Self {
            code,
            lines: vec![text.into()],
        }
    }

    /// A reply of several lines; the last one closes it.
    pub fn lines(code: u16, lines: Vec<String>) -> Self {
        assert!(!lines.is_empty(), "a reply has a line");
        Self { code, lines }
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

    /// 4yz: it may work later.
    pub fn is_transient_failure(&self) -> bool {
        self.code / 100 == 4
    }

    /// All lines as one text, separated by line ends.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// The bytes as sent. Lines between the first and the last begin with a space: RFC 2389 requires that
    /// in FEAT, and it keeps them from being taken for the last line.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = String::new();
        let last = self.lines.len() - 1;
        for (index, line) in self.lines.iter().enumerate() {
            match index {
                _ if index == last => bytes.push_str(&format!("{} {line}\r\n", self.code)),
                0 => bytes.push_str(&format!("{}-{line}\r\n", self.code)),
                _ => bytes.push_str(&format!(" {line}\r\n")),
            }
        }
        bytes.into_bytes()
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.lines.join(" / "))
    }
}

/// Why lines are not a reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// A line that should begin with a code does not.
    #[error("not a reply: {0:?}")]
    Syntax(String),
    /// The reply is longer than a sane server sends.
    #[error("a reply of more than {LONGEST} bytes")]
    TooLong,
}

/// Longest reply that is read, bytes: a STAT of a directory of some ten thousand files.
pub const LONGEST: usize = 4 << 20;

/// Assembles replies from lines.
#[derive(Debug, Default)]
pub struct ReplyReader {
    code: Option<u16>,
    lines: Vec<String>,
    bytes: usize,
}

impl ReplyReader {
    /// Takes the next line, without its line ending; returns a reply once it is complete.
    ///
    /// # Errors
    /// [`ReplyError`]; the connection is of no further use then.
    pub fn take(&mut self, line: &str) -> Result<Option<Reply>, ReplyError> {
        self.bytes += line.len();
        if self.bytes > LONGEST {
            return Err(ReplyError::TooLong);
        }
        let head = head(line);
        match (self.code, head) {
            (None, Some((code, false, text))) => Ok(Some(self.finish(code, text))),
            (None, Some((code, true, text))) => {
                self.code = Some(code);
                self.lines.push(text.to_owned());
                Ok(None)
            }
            (None, None) => Err(ReplyError::Syntax(line.to_owned())),
            (Some(code), Some((end, false, text))) if end == code => {
                Ok(Some(self.finish(code, text)))
            }
            (Some(code), Some((same, true, text))) if same == code => {
                self.lines.push(text.to_owned());
                Ok(None)
            }
            (Some(_), _) => {
                self.lines
                    .push(line.strip_prefix(' ').unwrap_or(line).to_owned());
                Ok(None)
            }
        }
    }

    fn finish(&mut self, code: u16, text: &str) -> Reply {
        let mut lines = std::mem::take(&mut self.lines);
        lines.push(text.to_owned());
        *self = Self::default();
        Reply { code, lines }
    }
}

/// Code, whether more lines follow, and text.
fn head(line: &str) -> Option<(u16, bool, &str)> {
    let code: u16 = line
        .get(..3)
        .filter(|code| code.bytes().all(|b| b.is_ascii_digit()))?
        .parse()
        .ok()?;
    if !(100..600).contains(&code) {
        return None;
    }
    let rest = &line[3..];
    match rest.as_bytes().first() {
        None => Some((code, false, "")),
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
        let reply = Reply::lines(211, vec!["Features:".into(), "SIZE".into(), "End".into()]);
        assert_eq!(reply.encode(), b"211-Features:\r\n SIZE\r\n211 End\r\n");
        assert_eq!(Reply::new(200, "Done").encode(), b"200 Done\r\n");
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
        assert_eq!(reply.lines[2], " 234 A line beginning with numbers");
        assert_eq!(reader.take("200"), Ok(Some(Reply::new(200, ""))));
    }

    #[test]
    fn what_begins_without_a_code_is_no_reply() {
        assert!(ReplyReader::default().take("SSH-2.0-OpenSSH").is_err());
        assert!(ReplyReader::default().take("999 no").is_err());
        assert!(ReplyReader::default().take("2é0").is_err());
    }
}
