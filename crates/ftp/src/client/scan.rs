//! All that is below a directory, here or on a server.
//!
//! A server's names are those of a stranger: what leads out of its directory, is there twice or has no end is refused.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Display;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::{ClientError, Connection, Entry, Kind, place};
use crate::protocol::path::one_line;

/// Deepest nesting of directories: a server can show a directory below itself endlessly.
pub(super) const MAX_DEPTH: usize = 64;
/// Most entries of a tree.
pub(super) const MAX_ENTRIES: usize = 1_000_000;
/// Longest name of an entry, bytes: that of ZFS. NTFS and APFS have 255 characters, and most others 255 bytes.
const LONGEST_NAME: usize = 1_023;
/// Longest path from the root, bytes.
const LONGEST_PATH: usize = 4_096;
/// Most bytes of all names and paths of a tree together, including those that are refused.
pub(super) const MAX_BYTES: usize = 256 << 20;

/// Says whether to leave out a path below the root; the flag is set for a directory, below which nothing is looked at.
pub type LeaveOut<'a> = &'a dyn Fn(&[u8], bool) -> bool;

/// Leaves out nothing.
pub fn everything(_: &[u8], _: bool) -> bool {
    false
}

/// An entry below the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its path from the root.
    pub path: Vec<u8>,
    /// What the listing says of it.
    pub entry: Entry,
}

/// What is below a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// All entries, each directory before what is in it.
    pub entries: Vec<Found>,
    /// What could not be looked at or is refused, with reasons: if there is any, the entries are not all.
    pub refused: Vec<String>,
    /// Paths that were left out.
    pub left_out: Vec<Vec<u8>>,
    /// Paths of directories in which there may be more names that begin with a dot.
    pub may_lack_hidden: BTreeSet<Vec<u8>>,
}

/// Why an entry with this name and this path from the root is refused, if one of them is too long: a server can send names of
/// any length, and they add up from directory to directory.
pub(super) fn too_long(name: &[u8], path: &[u8]) -> Option<String> {
    if name.len() > LONGEST_NAME {
        return Some(format!("a name of {} bytes", name.len()));
    }
    (path.len() > LONGEST_PATH).then(|| format!("a path of {} bytes", path.len()))
}

/// A path in a message; of one that is too long, the beginning.
pub(super) fn shortened(path: &[u8]) -> String {
    match path.len() > LONGEST_PATH {
        true => format!("{}...", one_line(&path[..256])),
        false => one_line(path).into_owned(),
    }
}

/// What is below a directory of a server.
///
/// # Errors
/// If the root cannot be listed, the connection fails, or there are too many entries.
pub fn remote(
    connection: &mut Connection,
    root: &[u8],
    leave_out: LeaveOut<'_>,
) -> Result<Scan, ClientError> {
    let mut walk = Walk::new(leave_out);
    let mut open = vec![(Vec::new(), 0)];
    while let Some((below, depth)) = open.pop() {
        let directory = match below.is_empty() {
            true => root.to_vec(),
            false => place::join(root, &below),
        };
        let listing = match connection.with(|session| session.list_of_tree(&directory)) {
            // The rest of the tree is there nevertheless.
            Err(error @ (ClientError::Refused { .. } | ClientError::Name(_))) if depth > 0 => {
                walk.refuse(&directory, &error);
                continue;
            }
            listing => listing?,
        };
        if listing.may_lack_hidden {
            walk.room(below.len())?;
            walk.scan.may_lack_hidden.insert(below.clone());
        }
        // They are sorted by name, so equal names are neighbours.
        let mut before: Option<Vec<u8>> = None;
        for entry in listing.entries {
            if before.as_ref() == Some(&entry.name) {
                let path = place::join(&directory, &entry.name);
                walk.refuse(&path, "the server lists this name twice");
                walk.count()?;
                continue;
            }
            before = Some(entry.name.clone());
            if let Some(directory) = walk.take(&directory, &below, entry, depth)? {
                open.push((directory, depth + 1));
            }
        }
    }
    Ok(walk.scan)
}

/// What is below a directory of this host. Links are not followed.
///
/// # Errors
/// If a directory cannot be read, or there are too many entries.
pub fn local(root: &Path, leave_out: LeaveOut<'_>) -> Result<Scan, ClientError> {
    let mut walk = Walk::new(leave_out);
    let mut open: Vec<(PathBuf, Vec<u8>)> = vec![(root.to_owned(), Vec::new())];
    while let Some((directory, below)) = open.pop() {
        let failed = |error| ClientError::local(&directory)(error);
        let mut entries = fs::read_dir(&directory)
            .map_err(failed)?
            .collect::<Result<Vec<_>, _>>()
            .map_err(failed)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let facts = entry.metadata().map_err(failed)?;
            let kind = match facts.file_type() {
                kind if kind.is_dir() => Kind::Directory,
                kind if kind.is_file() => Kind::File,
                kind if kind.is_symlink() => Kind::Link,
                _ => Kind::Other,
            };
            let modified = facts.modified().ok();
            let found = Entry {
                size: facts.is_file().then_some(facts.len()),
                modified: modified.and_then(|time| Timestamp::try_from(time).ok()),
                ..Entry::new(entry.file_name().as_bytes().to_vec(), kind)
            };
            if let Some(directory) = walk.add(place::join(&below, &found.name), found)? {
                open.push((entry.path(), directory));
            }
        }
    }
    Ok(walk.scan)
}

struct Walk<'a> {
    scan: Scan,
    leave_out: LeaveOut<'a>,
    /// The `unique` facts of the directories seen.
    seen: HashSet<String>,
    /// Bytes of names and paths that may still come.
    left: usize,
}

impl<'a> Walk<'a> {
    fn new(leave_out: LeaveOut<'a>) -> Self {
        Self {
            scan: Scan::default(),
            leave_out,
            seen: HashSet::new(),
            left: MAX_BYTES,
        }
    }

    fn refuse(&mut self, path: &[u8], why: impl Display) {
        let refused = format!("{}: {why}", shortened(path));
        self.left = self.left.saturating_sub(refused.len());
        self.scan.refused.push(refused);
    }

    /// Takes the room of so many bytes of names.
    fn room(&mut self, bytes: usize) -> Result<(), ClientError> {
        let left = self.left.checked_sub(bytes).filter(|left| *left > 0);
        self.left = left.ok_or_else(|| {
            ClientError::Usage(format!("more than {} MiB of names", MAX_BYTES >> 20))
        })?;
        Ok(())
    }

    fn was_seen(&mut self, directory: &Entry) -> bool {
        let unique = directory.unique.clone();
        unique.is_some_and(|unique| !self.seen.insert(unique))
    }

    /// Takes an entry of a server's listing; returns the path of a directory that is to be listed next.
    fn take(
        &mut self,
        directory: &[u8],
        below: &[u8],
        entry: Entry,
        depth: usize,
    ) -> Result<Option<Vec<u8>>, ClientError> {
        let path = place::join(directory, &entry.name);
        let from_root = place::join(below, &entry.name);
        let too_long = too_long(&entry.name, &from_root);
        let why = match entry.kind {
            _ if entry.local_name().is_none() => "a name that leads elsewhere".to_owned(),
            _ if too_long.is_some() => too_long.unwrap_or_default(),
            Kind::Unknown => "the server lists it and does not know it".to_owned(),
            Kind::Directory if depth >= MAX_DEPTH => {
                format!("more than {MAX_DEPTH} directories deep")
            }
            Kind::Directory if self.was_seen(&entry) => {
                "a directory that was seen before".to_owned()
            }
            _ => return self.add(from_root, entry),
        };
        self.refuse(&path, why);
        self.count()?;
        Ok(None)
    }

    /// Adds an entry unless it is to be left out; returns the path if it is a directory.
    fn add(&mut self, path: Vec<u8>, entry: Entry) -> Result<Option<Vec<u8>>, ClientError> {
        let is_directory = entry.kind == Kind::Directory;
        self.room(path.len() + entry.room())?;
        if (self.leave_out)(&path, is_directory) {
            self.scan.left_out.push(path);
            self.count()?;
            return Ok(None);
        }
        let next = is_directory.then(|| path.clone());
        self.scan.entries.push(Found { path, entry });
        self.count()?;
        Ok(next)
    }

    fn count(&mut self) -> Result<(), ClientError> {
        self.room(0)?;
        let scan = &self.scan;
        if scan.entries.len() + scan.refused.len() + scan.left_out.len() > MAX_ENTRIES {
            return Err(ClientError::Usage(format!(
                "more than {MAX_ENTRIES} files and directories"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(walk: &mut Walk<'_>, entry: Entry, depth: usize) -> bool {
        walk.take(b"/r", b"", entry, depth).unwrap().is_some()
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let mut walk = Walk::new(&everything);
        for name in ["../../etc/cron.d/x", "/etc/passwd", "..", "a/b"] {
            take(&mut walk, Entry::new(name.into(), Kind::File), 0);
            take(&mut walk, Entry::new(name.into(), Kind::Directory), 0);
        }
        assert_eq!(walk.scan.entries, []);
        assert_eq!(walk.scan.refused.len(), 8);
    }

    #[test]
    fn names_and_paths_without_end_are_refused_and_take_no_room() {
        let mut walk = Walk::new(&everything);
        take(&mut walk, Entry::new(vec![b'n'; 1_023], Kind::File), 0);
        take(&mut walk, Entry::new(vec![b'n'; 1_024], Kind::File), 0);
        take(&mut walk, Entry::new(vec![b'n'; 1 << 20], Kind::Unknown), 0);
        let deep = vec![b'd'; 4_094];
        for name in ["x", "yy"] {
            let entry = Entry::new(name.into(), Kind::Directory);
            walk.take(b"/r", &deep, entry, 1).unwrap();
        }
        let sizes: Vec<usize> = walk
            .scan
            .entries
            .iter()
            .map(|found| found.path.len())
            .collect();
        assert_eq!(sizes, [1_023, 4_096]);
        let refused = &walk.scan.refused;
        assert!(refused[0].ends_with("n: a name of 1024 bytes"));
        assert!(refused[1].ends_with("n...: a name of 1048576 bytes"));
        assert!(refused[1].len() < 300, "{}", refused[1]);
        assert!(refused[2].ends_with("yy: a path of 4097 bytes"));
    }

    #[test]
    fn all_names_of_a_tree_together_have_an_end() {
        let mut walk = Walk::new(&everything);
        let mut add = || {
            let entry = Entry::new(vec![b'n'; 1_000], Kind::File);
            walk.take(b"/r", &[b'd'; 3_000], entry, 1).map(drop)
        };
        // Each is 4,001 bytes of path and 1,000 of name.
        let taken = (0..).take_while(|_| add().is_ok()).count();
        assert_eq!(taken, (256 << 20) / 5_001);
        assert!(add().unwrap_err().to_string().contains("256 MiB"));
    }

    #[test]
    fn a_tree_without_end_is_cut() {
        let mut walk = Walk::new(&everything);
        let entry = || Entry::new(b"d".to_vec(), Kind::Directory);
        assert!(take(&mut walk, entry(), 63));
        assert!(!take(&mut walk, entry(), 64));
        let again = || Entry {
            unique: Some("1".into()),
            ..entry()
        };
        assert!(take(&mut walk, again(), 0));
        assert!(!take(&mut walk, again(), 1));
    }

    #[test]
    fn what_is_left_out_is_not_looked_into() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/x"), "abc").unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("l")).unwrap();
        let kinds = |scan: &Scan| {
            let entries = scan.entries.iter();
            entries
                .map(|found| (one_line(&found.path).into_owned(), found.entry.kind))
                .collect::<Vec<_>>()
        };
        let all = local(folder.path(), &everything).unwrap();
        let expected = [
            ("a".to_owned(), Kind::Directory),
            ("l".to_owned(), Kind::Link),
            ("a/b".to_owned(), Kind::Directory),
            ("a/b/x".to_owned(), Kind::File),
        ];
        assert_eq!(kinds(&all), expected);
        assert_eq!(all.entries[3].entry.size, Some(3));
        let some = local(folder.path(), &|path, _| path == b"a/b").unwrap();
        assert_eq!(some.left_out, [b"a/b".to_vec()]);
        assert_eq!(kinds(&some), expected[..2]);
    }
}
