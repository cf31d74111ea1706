//! What is in a directory: MLSD (RFC 3659), else LIST as UNIX and DOS write it, else NLST.
//!
//! Names come from a server that nobody has to trust: one that is not a plain name never becomes a
//! path on this host ([`Entry::local_name`]).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use jiff::Timestamp;

use super::data_connection::Channel;
use super::{ClientError, Session, unix_listing};
use crate::data::{Direction, Meter, Mover};
use crate::protocol::path::one_line;
use crate::protocol::time;

/// Longest listing that is read, bytes: about a million names.
const LONGEST: usize = 64 << 20;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Something else, or the server does not say.
    Other,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, as the server gave it.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Bytes, if the server says.
    pub size: Option<u64>,
    /// When it was changed, if the server says.
    pub modified: Option<Timestamp>,
    /// What tells it from all others, under any name, if the server says.
    pub unique: Option<String>,
}

impl Entry {
    /// An entry of which no more is known.
    pub fn new(name: Vec<u8>, kind: Kind) -> Self {
        Self {
            name,
            kind,
            size: None,
            modified: None,
            unique: None,
        }
    }

    /// The name as text of a single line.
    pub fn text(&self) -> String {
        one_line(&self.name).into_owned()
    }

    /// The name as one of a file here; none if it would lead anywhere else than into the directory.
    pub fn local_name(&self) -> Option<&OsStr> {
        match self.name.as_slice() {
            b"" | b"." | b".." => None,
            name if name.iter().any(|byte| matches!(byte, b'/' | 0)) => None,
            name => Some(OsStr::from_bytes(name)),
        }
    }
}

/// A line of MLSD or MLST: `fact=value;fact=value; name`.
pub fn facts(line: &[u8]) -> Option<Entry> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (facts, name) = (&line[..space], &line[space + 1..]);
    let facts = String::from_utf8_lossy(facts);
    if !(facts.is_empty() || facts.ends_with(';')) {
        return None;
    }
    let mut entry = Entry::new(name.to_vec(), Kind::Other);
    for fact in facts.split_terminator(';') {
        let (key, value) = fact.split_once('=')?;
        match key.to_ascii_lowercase().as_str() {
            "type" => entry.kind = kind(value),
            "size" => entry.size = value.parse().ok(),
            "modify" => entry.modified = time::parse(value),
            "unique" => entry.unique = Some(value.to_owned()),
            _ => {}
        }
    }
    // The directory itself and the one above it are not in it.
    if facts.to_ascii_lowercase().contains("type=cdir;") {
        entry.name = b".".to_vec();
    }
    Some(entry)
}

fn kind(value: &str) -> Kind {
    match value.to_ascii_lowercase().as_str() {
        "file" => Kind::File,
        "dir" | "cdir" | "pdir" => Kind::Directory,
        link if link.starts_with("os.unix=slink") || link.starts_with("os.unix=symlink") => {
            Kind::Link
        }
        _ => Kind::Other,
    }
}

impl Session {
    /// The entries of a directory, or the file itself, in the order of their names.
    ///
    /// # Errors
    /// The server refuses all ways to list it.
    pub fn list(&mut self, path: &[u8]) -> Result<Vec<Entry>, ClientError> {
        let mut entries = match self.features.has("MLST") && !self.plain_listings {
            true => match self.read_listing("MLSD", path) {
                Err(ClientError::Refused { reply, .. })
                    if matches!(reply.code, 500 | 502 | 504) =>
                {
                    self.plain_listings = true;
                    self.list_plainly(path)?
                }
                text => lines(&text?).filter_map(facts).collect(),
            },
            false => self.list_plainly(path)?,
        };
        entries.retain(|entry| !matches!(entry.name.as_slice(), b"." | b".."));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn list_plainly(&mut self, path: &[u8]) -> Result<Vec<Entry>, ClientError> {
        let text = self.read_listing("LIST", path)?;
        let mut entries = Vec::new();
        for line in lines(&text) {
            match unix_listing::parse(line) {
                unix_listing::Parsed::Entry(entry) => entries.push(entry),
                unix_listing::Parsed::Nothing => {}
                unix_listing::Parsed::Unknown => return self.list_names(path),
            }
        }
        Ok(entries)
    }

    /// Names alone; what they are is asked one by one.
    fn list_names(&mut self, path: &[u8]) -> Result<Vec<Entry>, ClientError> {
        let text = self.read_listing("NLST", path)?;
        let directory = super::place::join(path, b"");
        let mut entries = Vec::new();
        for line in lines(&text) {
            // Some servers put the directory before the name.
            let name = line.strip_prefix(directory.as_slice()).unwrap_or(line);
            let full = super::place::join(path, name);
            let entry = match Entry::new(name.to_vec(), Kind::Other) {
                safe if safe.local_name().is_some() => self.look(&full)?.unwrap_or(safe),
                unsafe_name => unsafe_name,
            };
            entries.push(Entry {
                name: name.to_vec(),
                ..entry
            });
        }
        Ok(entries)
    }

    fn read_listing(&mut self, verb: &str, path: &[u8]) -> Result<Vec<u8>, ClientError> {
        let Channel { stream, .. } = self.open_channel(verb, path, 0, Direction::Receive)?;
        let meter = Meter::default();
        let mut text = Bounded(Vec::new());
        let progress = self.options.progress.clone();
        let mut watcher = super::tcp::Stopper::new(progress, &meter);
        let moved = Mover::new(&stream, &meter, &mut watcher, self.options.patience)
            .and_then(|mover| mover.receive_into(&mut text, None));
        drop(stream);
        self.finish(moved, std::path::Path::new("listing"))?;
        Ok(text.0)
    }
}

/// A listing that does not grow without end.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > LONGEST {
            return Err(std::io::Error::other("a listing without end"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_and_names_keep_their_blanks() {
        // After the examples of RFC 3659 section 7.7.
        let entry =
            facts(b"Type=file;Size=1024990;Modify=19980615100045.014;Unique=a2; a  b ").unwrap();
        assert_eq!(entry.name, b"a  b ");
        assert_eq!((entry.kind, entry.size), (Kind::File, Some(1_024_990)));
        assert_eq!(
            entry.modified.unwrap().to_string(),
            "1998-06-15T10:00:45.014Z"
        );
        assert_eq!(entry.unique.as_deref(), Some("a2"));
        assert_eq!(facts(b"type=OS.unix=slink:/x; l").unwrap().kind, Kind::Link);
        assert_eq!(facts(b" bare").unwrap().name, b"bare");
        assert_eq!(facts(b"type=cdir; /pub").unwrap().name, b".");
        assert!(facts(b"-rw-r--r-- 1 a b 3 Jan 1 00:00 x").is_none());
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_no_local_name() {
        for name in ["..", ".", "", "../x", "/etc/passwd", "a/b", "a\0b"] {
            let entry = Entry::new(name.into(), Kind::File);
            assert_eq!(entry.local_name(), None, "{name:?}");
        }
        let entry = Entry::new(b"...".to_vec(), Kind::File);
        assert_eq!(entry.local_name(), Some(OsStr::new("...")));
    }
}
