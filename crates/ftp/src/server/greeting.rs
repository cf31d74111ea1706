//! What clients read first: the banner of the greeting, and the message of the day after a login.

use std::io;
use std::path::{Path, PathBuf};

use super::config::Config;
use crate::file_reader::FileReader;
use crate::protocol::Reply;

/// Longest text, bytes.
const LONGEST: usize = 16 << 10;

/// The lines of a file.
fn lines(reader: &FileReader, path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let bytes = reader.read(path)?;
    if bytes.len() > LONGEST {
        let text = format!("{}: more than {LONGEST} bytes", path.display());
        return Err(io::Error::other(text));
    }
    Ok(reply_lines(&bytes))
}

/// The lines of a text, in whatever encoding it is.
pub(super) fn reply_lines(text: &[u8]) -> Vec<Vec<u8>> {
    let lines = text.trim_ascii_end().split(|byte| *byte == b'\n');
    lines.map(|line| line.trim_ascii_end().to_vec()).collect()
}

/// The texts of a configuration.
#[derive(Debug)]
pub(super) struct Greeting {
    banner: Vec<Vec<u8>>,
    motd: Vec<Vec<u8>>,
}

impl Greeting {
    /// Reads them.
    ///
    /// # Errors
    /// If a file cannot be read, or is longer than 16 KiB; the error names it.
    pub(super) fn read(config: &Config) -> io::Result<Self> {
        let read = |path: &Option<PathBuf>| match path {
            Some(path) => lines(&config.file_reader, path),
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

fn with(text: &[Vec<u8>], code: u16, last: &str) -> Reply {
    let mut lines = text.to_vec();
    lines.push(last.into());
    Reply::lines(code, lines)
}
