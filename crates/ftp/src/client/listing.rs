//! Directory listings: MLSD (RFC 3659), else LIST in the formats of UNIX and DOS, else NLST.
//!
//! Names come from an untrusted server: one that is not a plain file name never becomes a local path
//! ([`Entry::local_name`]).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fairwind_transfer::{Bounds, Direction, Meter, Mover, Watchers};
use jiff::Timestamp;

use super::ahead::Behind;
use super::data_connection::Channel;
use super::moving::ProgressWatcher;
use super::{ClientError, Session, unix_listing};
use crate::bounded::Bounded;
use crate::protocol::path::one_line;
use crate::protocol::time;

/// Longest accepted listing, bytes.
const LONGEST: u64 = 64 << 20;
/// Most lines of a listing: each takes more memory than its bytes.
const MAX_LINES: usize = 1_000_000;

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
    /// The server lists the name but does not know it when asked, or the line cannot be parsed: a name with a
    /// line end in it looks like that.
    Unknown,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name as the server sent it.
    pub name: Vec<u8>,
    /// The kind of the entry.
    pub kind: Kind,
    /// Size in bytes, if the server says.
    pub size: Option<u64>,
    /// Modification time, if the server says.
    pub modified: Option<Timestamp>,
    /// The `unique` fact (RFC 3659 section 7.5.2), equal for all names of the same object, if the server
    /// says.
    pub unique: Option<String>,
}

impl Entry {
    /// An entry of which nothing else is known.
    pub fn new(name: Vec<u8>, kind: Kind) -> Self {
        Self {
            name,
            kind,
            size: None,
            modified: None,
            unique: None,
        }
    }

    /// The name as text on a single line.
    pub fn text(&self) -> String {
        one_line(&self.name).into_owned()
    }

    /// Bytes that a server can make as many as it likes.
    pub(super) fn room(&self) -> usize {
        self.name.len() + self.unique.as_ref().map_or(0, String::len)
    }

    /// The name as that of a local file; `None` if it would lead out of its directory.
    pub fn local_name(&self) -> Option<&OsStr> {
        match self.name.as_slice() {
            b"" | b"." | b".." => None,
            name if name.iter().any(|byte| matches!(byte, b'/' | 0)) => None,
            name => Some(OsStr::from_bytes(name)),
        }
    }
}

/// Whether a listing says what its names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Facts {
    /// It does.
    Listed,
    /// It has names only; what each is has to be asked separately.
    ToBeAsked,
}

/// The entries of a directory.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) entries: Vec<Entry>,
    facts: Facts,
    /// The server may have kept back names that begin with a dot.
    pub(super) may_lack_hidden: bool,
}

/// What a server sends for LIST or NLST.
struct Text {
    bytes: Vec<u8>,
    /// It was not asked for names that begin with a dot, or did not understand that.
    is_plain: bool,
}

impl Text {
    fn plain(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            is_plain: true,
        }
    }

    /// What it says, by its entries: a server that shows one name with a dot shows all.
    fn of(&self, entries: Vec<Entry>, facts: Facts) -> Listing {
        let shows_hidden = entries.iter().any(|entry| entry.name.starts_with(b"."));
        Listing {
            entries,
            facts,
            may_lack_hidden: self.is_plain && !shows_hidden,
        }
    }
}

/// Parses a line of MLSD or MLST: `fact=value;fact=value; name`.
pub(super) fn facts(line: &[u8]) -> Option<Entry> {
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
    // The directory itself must not be taken for one of its entries.
    if facts.to_ascii_lowercase().contains("type=cdir;") {
        entry.name = b".".to_vec();
    }
    Some(entry)
}

/// The entry in a line of MLSD; a line that cannot be parsed becomes the name of an unknown entry.
fn entry(line: &[u8]) -> Entry {
    facts(line).unwrap_or_else(|| Entry::new(line.to_vec(), Kind::Unknown))
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
    /// Lists the entries of a directory, or the file itself, sorted by name.
    ///
    /// # Errors
    /// If the server refuses every way to list it, or nothing of this name exists.
    pub fn list(&mut self, path: &[u8]) -> Result<Vec<Entry>, ClientError> {
        self.list_all(path).map(|listing| listing.entries)
    }

    /// The same for a directory of a tree, which further data connections follow.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub(super) fn list_of_tree(&mut self, path: &[u8]) -> Result<Listing, ClientError> {
        self.walks = true;
        let listing = self.list_all(path);
        self.walks = false;
        listing
    }

    fn list_all(&mut self, path: &[u8]) -> Result<Listing, ClientError> {
        self.can_read(path)?;
        let mut listing = self.list_unasked(path)?;
        let entries = &mut listing.entries;
        if listing.facts == Facts::ToBeAsked {
            for entry in &mut *entries {
                self.ask_what_is(path, entry)?;
            }
        }
        entries.retain(|entry| !matches!(entry.name.as_slice(), b"." | b".."));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listing)
    }

    /// All names in a directory, including those that begin with a dot. Sends no name in a command: how names
    /// are to be sent is what the result is used to find out.
    ///
    /// # Errors
    /// If the server refuses every way to list it, or nothing of this name exists.
    pub(super) fn names_in(&mut self, directory: &[u8]) -> Result<HashSet<Vec<u8>>, ClientError> {
        let entries = self.list_unasked(directory)?.entries;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    /// The entries of a directory as far as a listing describes them.
    fn list_unasked(&mut self, path: &[u8]) -> Result<Listing, ClientError> {
        if self.features.has("MLST") && !self.plain_listings {
            match self.read_listing("MLSD", path) {
                Err(ClientError::Refused { reply, .. })
                    if matches!(reply.code, 500 | 502 | 504) =>
                {
                    self.plain_listings = true;
                }
                text => {
                    let entries: Vec<Entry> = lines(&text?).map(entry).collect();
                    if entries.is_empty() && !path.is_empty() {
                        self.must_be_directory(path)?;
                    }
                    return Ok(Listing {
                        entries,
                        facts: Facts::Listed,
                        may_lack_hidden: false,
                    });
                }
            }
        }
        self.list_plainly(path)
    }

    fn list_plainly(&mut self, path: &[u8]) -> Result<Listing, ClientError> {
        let text = self.read_inside("LIST", path)?;
        let mut entries = Vec::new();
        for line in lines(&text.bytes) {
            match unix_listing::parse(line) {
                unix_listing::Parsed::Entry(entry) => entries.push(entry),
                unix_listing::Parsed::Nothing => {}
                unix_listing::Parsed::Unknown => {
                    return self.list_names(path);
                }
            }
        }
        Ok(text.of(entries, Facts::Listed))
    }

    /// Lists the names alone.
    fn list_names(&mut self, path: &[u8]) -> Result<Listing, ClientError> {
        let text = self.read_inside("NLST", path)?;
        let directory = super::place::join(path, b"");
        let entry = |line: &[u8]| {
            // Some servers prefix the names with the directory.
            let name = line.strip_prefix(directory.as_slice()).unwrap_or(line);
            Entry::new(name.to_vec(), Kind::Unknown)
        };
        let entries = lines(&text.bytes).map(entry).collect();
        Ok(text.of(entries, Facts::ToBeAsked))
    }

    /// Asks what a name is, if the name can be used in a command.
    fn ask_what_is(&mut self, directory: &[u8], entry: &mut Entry) -> Result<(), ClientError> {
        if entry.local_name().is_none() {
            return Ok(());
        }
        match self.look(&super::place::join(directory, &entry.name)) {
            Ok(Some(found)) => {
                *entry = Entry {
                    name: std::mem::take(&mut entry.name),
                    ..found
                };
                Ok(())
            }
            Ok(None) | Err(ClientError::Name(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Changes to a directory, lists it with LIST or NLST, and changes back: some servers take the argument
    /// of these commands for a pattern or an option, and show a missing directory as an empty one. If the
    /// directory cannot be entered, it is listed by its path, and an empty listing counts as a refusal.
    fn read_inside(&mut self, verb: &str, path: &[u8]) -> Result<Text, ClientError> {
        if path.is_empty() {
            return self.read_hidden_too(verb);
        }
        let Some(home) = self.home()? else {
            return self.read_listing(verb, path).map(Text::plain);
        };
        let went = self.control.ask("CWD", path)?;
        if !went.is_positive() {
            let refused = self.control.refused(went);
            let text = self.read_listing(verb, path)?;
            if text.trim_ascii().is_empty() {
                return Err(refused);
            }
            return Ok(Text::plain(text));
        }
        let text = self.read_hidden_too(verb);
        if let Ok(_) | Err(ClientError::Refused { .. }) = text {
            self.control.must("CWD", &home)?;
        }
        text
    }

    /// The listing of the working directory, including names that begin with a dot if the server takes the
    /// option `-a` of ls(1).
    fn read_hidden_too(&mut self, verb: &str) -> Result<Text, ClientError> {
        match self.read_listing(verb, b"-a") {
            Ok(bytes) if !bytes.trim_ascii().is_empty() => Ok(Text {
                bytes,
                is_plain: false,
            }),
            Ok(_) | Err(ClientError::Refused { .. }) => {
                self.read_listing(verb, b"").map(Text::plain)
            }
            Err(error) => Err(error),
        }
    }

    fn read_listing(&mut self, verb: &str, path: &[u8]) -> Result<Vec<u8>, ClientError> {
        let behind = match self.walks {
            true => Behind::Port,
            false => Behind::Nothing,
        };
        let Channel {
            stream,
            mut protection,
            ..
        } = self.open_channel_before(verb, path, 0, Direction::Receive, behind)?;
        let meter = Meter::default();
        let endless = || std::io::Error::other("a listing without end");
        let mut text = Bounded::new(Vec::new(), LONGEST, endless);
        let mut watcher = ProgressWatcher {
            progress: self.options.progress.clone(),
            meter: &meter,
            file: None,
            checksum: None,
            others: Watchers::default(),
        };
        let bounds = Bounds::patience(self.options.patience);
        let protected = protection.as_mut().map(|protection| protection as _);
        let moved = Mover::new(&stream, &meter, &mut watcher, bounds)
            .and_then(|mover| mover.protected_by(protected).receive_into(&mut text, None));
        drop(stream);
        let reply = self.finish(moved, std::path::Path::new("listing"))?;
        // So vsftpd says that what looks like an empty directory is one that it may not read.
        if reply.text().contains("failed to open directory") {
            return Err(self.control.refused(reply));
        }
        if lines(&text.sink).nth(MAX_LINES).is_some() {
            return Err(self
                .control
                .protocol_error("a listing of more than a million lines"));
        }
        Ok(text.sink)
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

#[cfg(test)]
mod fuzz {
    use std::path::Path;

    use fairwind_testing::fuzz::{cases, damaged};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Of RFC 3659, ProFTPD, Pure-FTPd, vsftpd and IIS.
    const LINES: [&[u8]; 10] = [
        b"Type=file;Size=1024990;Modify=19980615100045.014;Unique=a2; a  b ",
        b"type=cdir;modify=20260302140007;perm=el;unique=801g2;UNIX.mode=0755; .",
        b"modify=20260302140007;perm=adfr;size=7;type=file;unique=801U1;UNIX.group=0; x",
        b"type=OS.unix=slink:/pub;size=3; to",
        b"type=pdir;size=4096;modify=20260302140007; ..",
        b"-rw-r--r--    1 0        0          131072 Nov 21 12:00 a  b",
        b"drwxr-xr-x+   2 ftp      ftp          4096 Jan  1  2020 p\xfcb",
        b"lrwxrwxrwx    1 0 0 4 Nov 21 12:00 x -> ../etc/passwd",
        b"02-23-26  10:03AM       <DIR>          pub",
        b"02-23-2026  10:03AM              5120 a b.txt",
    ];

    fn line() -> impl Strategy<Value = Vec<u8>> {
        let known = [&b""[..], b"type=file; ", b"-rw-r--r-- 1 a b 7 Jan 01 2020 "];
        let rest = vec(any::<u8>(), 0..80);
        let begun = (prop::sample::select(known.to_vec()), rest)
            .prop_map(|(before, rest)| [before, &rest].concat());
        prop_oneof![begun, damaged(&LINES)]
    }

    /// A name that a listing can hold.
    fn name() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![0..b'\n', 14..=u8::MAX, Just(b' '), Just(b';')];
        vec(byte, 1..40)
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn whatever_a_line_says_no_local_name_leads_elsewhere(line in line()) {
            let mut entries = vec![entry(&line)];
            if let unix_listing::Parsed::Entry(entry) = unix_listing::parse(&line) {
                entries.push(entry);
            }
            for name in entries.iter().filter_map(Entry::local_name) {
                let path = Path::new("here").join(name);
                prop_assert_eq!(path.parent(), Some(Path::new("here")));
                prop_assert_eq!(path.file_name(), Some(name));
            }
        }

        #[test]
        fn a_name_is_a_part_of_its_line(line in line()) {
            if let Some(entry) = facts(&line) {
                prop_assert!(entry.name == b"." || line.ends_with(&entry.name));
            }
            if let unix_listing::Parsed::Entry(entry) = unix_listing::parse(&line) {
                prop_assert!(entry.kind == Kind::Link || line.ends_with(&entry.name));
                prop_assert!(entry.size.is_none() || entry.kind == Kind::File);
            }
        }

        #[test]
        fn what_a_server_writes_is_understood(
            name in name(),
            size: u64,
            second in 0..253_370_764_800_i64,
        ) {
            let time = Timestamp::from_second(second).unwrap();
            let expected = Entry {
                size: Some(size),
                modified: Some(time),
                unique: Some("801g2".to_owned()),
                ..Entry::new(name.clone(), Kind::File)
            };
            let when = time::format(time);
            let told = format!("type=file;size={size};modify={when};perm=r;unique=801g2; ");
            prop_assert_eq!(facts(&[told.as_bytes(), &name].concat()), Some(expected));
            let long = format!("-rw-r--r--   1 ftp      ftp      {size:>12} Mar  2 14:00 ");
            let expected = Entry { size: Some(size), ..Entry::new(name.clone(), Kind::File) };
            let parsed = unix_listing::parse(&[long.as_bytes(), &name].concat());
            prop_assert_eq!(parsed, unix_listing::Parsed::Entry(expected));
        }

        #[test]
        fn a_text_is_cut_into_lines_that_hold_no_line_end(text in damaged(&LINES)) {
            for line in lines(&text) {
                prop_assert!(!line.is_empty() && !line.contains(&b'\n'));
            }
        }
    }
}
