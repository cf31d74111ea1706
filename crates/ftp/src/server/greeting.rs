//! What clients read first: the banner of the greeting, and the message of the day after a login.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::config::Config;
use crate::protocol::Reply;
use crate::protocol::path::one_line;

/// Longest text, bytes.
const LONGEST: usize = 16 << 10;

/// Reads the files of texts: directly, or through a process with more rights.
#[derive(Clone, Default)]
pub struct TextReader(Option<Arc<Read>>);

type Read = dyn Fn(&Path) -> io::Result<Vec<u8>> + Send + Sync;

impl TextReader {
    /// Reads them with `read`.
    pub fn by(read: impl Fn(&Path) -> io::Result<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(read)))
    }

    /// The lines of a text, as replies can have them.
    fn lines(&self, path: &Path) -> io::Result<Vec<String>> {
        let bytes = match &self.0 {
            Some(read) => read(path),
            None => std::fs::read(path),
        };
        let bytes = bytes.and_then(|bytes| match bytes.len() {
            0..=LONGEST => Ok(bytes),
            _ => Err(io::Error::other(format!("more than {LONGEST} bytes"))),
        });
        let bytes = bytes.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        let lines = bytes.trim_ascii_end().split(|byte| *byte == b'\n');
        Ok(lines
            .map(|line| one_line(line.trim_ascii_end()).into_owned())
            .collect())
    }
}

impl fmt::Debug for TextReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TextReader").finish_non_exhaustive()
    }
}

/// The texts of a configuration.
#[derive(Debug)]
pub(super) struct Greeting {
    banner: Vec<String>,
    motd: Vec<String>,
}

impl Greeting {
    /// Reads them.
    ///
    /// # Errors
    /// If a file cannot be read, or is longer than 16 KiB; the error names it.
    pub(super) fn read(config: &Config) -> io::Result<Self> {
        let read = |path: &Option<PathBuf>| match path {
            Some(path) => config.text_reader.lines(path),
            None => Ok(Vec::new()),
        };
        Ok(Self {
            banner: read(&config.banner)?,
            motd: read(&config.motd)?,
        })
    }

    /// The reply to a client that has connected.
    pub(super) fn banner(&self) -> Reply {
        with(&self.banner, 220, "fairwind FTP server ready")
    }

    /// The reply to a user who has logged in.
    pub(super) fn motd(&self) -> Reply {
        with(&self.motd, 230, "Login successful")
    }
}

fn with(text: &[String], code: u16, last: &str) -> Reply {
    let mut lines = text.to_vec();
    lines.push(last.to_owned());
    Reply::lines(code, lines)
}
