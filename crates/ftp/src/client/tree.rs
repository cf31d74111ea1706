//! Directory trees, local and remote.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{ClientError, Connection, Entry, Kind, Retrieval, Storage, place};
use crate::protocol::path::one_line;

/// Deepest nesting of directories: a server can show a directory below itself endlessly.
const MAX_DEPTH: usize = 64;
/// Most entries of a remote tree.
const MAX_ENTRIES: usize = 1_000_000;

/// The work needed to copy a tree.
#[derive(Debug)]
pub struct Tree<Directory, File> {
    /// Directories to create, parents before children.
    pub directories: Vec<Directory>,
    /// Files to transfer.
    pub files: Vec<File>,
    /// Entries left out because they are neither files nor directories.
    pub left_out: Vec<String>,
    /// Entries refused, with reasons: names that lead elsewhere or cannot be sent.
    pub refused: Vec<String>,
}

impl<Directory, File> Default for Tree<Directory, File> {
    fn default() -> Self {
        Self {
            directories: Vec::new(),
            files: Vec::new(),
            left_out: Vec::new(),
            refused: Vec::new(),
        }
    }
}

/// Lists a directory tree of the server, to be downloaded into `target`.
///
/// # Errors
/// If the root cannot be listed, the connection fails, or the tree has too many entries.
pub fn remote(
    connection: &mut Connection,
    root: &[u8],
    target: &Path,
) -> Result<Tree<PathBuf, Retrieval>, ClientError> {
    let mut walk = RemoteWalk::default();
    walk.tree.directories.push(target.to_owned());
    let mut open = vec![(root.to_vec(), target.to_owned(), 0)];
    while let Some((directory, local, depth)) = open.pop() {
        let entries = match connection.with(|session| session.list(&directory)) {
            // The rest of the tree is downloaded nevertheless.
            Err(error @ (ClientError::Refused { .. } | ClientError::Name(_))) if depth > 0 => {
                walk.refuse(&directory, &error);
                continue;
            }
            entries => entries?,
        };
        // They are sorted by name, so equal names are neighbours.
        let mut before: Option<Vec<u8>> = None;
        for entry in entries {
            if before.as_ref() == Some(&entry.name) {
                let path = place::join(&directory, &entry.name);
                walk.refuse(&path, "the server lists this name twice");
                continue;
            }
            before = Some(entry.name.clone());
            if let Some(below) = walk.take(&directory, &local, entry, depth)? {
                open.push(below);
            }
        }
    }
    Ok(walk.tree)
}

#[derive(Default)]
struct RemoteWalk {
    tree: Tree<PathBuf, Retrieval>,
    /// The `unique` facts of the directories seen.
    seen: HashSet<String>,
}

impl RemoteWalk {
    fn refuse(&mut self, path: &[u8], why: impl Display) {
        let refused = format!("{}: {why}", one_line(path));
        self.tree.refused.push(refused);
    }

    fn was_seen(&mut self, directory: &Entry) -> bool {
        let unique = directory.unique.clone();
        unique.is_some_and(|unique| !self.seen.insert(unique))
    }

    /// Adds an entry; returns a directory that is to be listed next.
    fn take(
        &mut self,
        directory: &[u8],
        local: &Path,
        entry: Entry,
        depth: usize,
    ) -> Result<Option<(Vec<u8>, PathBuf, usize)>, ClientError> {
        let tree = &self.tree;
        let seen = [
            tree.files.len(),
            tree.directories.len(),
            tree.left_out.len(),
            tree.refused.len(),
        ];
        if seen.iter().sum::<usize>() >= MAX_ENTRIES {
            return Err(ClientError::Usage(format!(
                "more than {MAX_ENTRIES} files and directories"
            )));
        }
        let path = place::join(directory, &entry.name);
        let Some(name) = entry.local_name() else {
            self.refuse(&path, "a name that leads elsewhere");
            return Ok(None);
        };
        let target = local.join(name);
        match entry.kind {
            Kind::File => self.tree.files.push(Retrieval {
                remote: path,
                target,
                listed: Some(entry),
            }),
            Kind::Directory if depth >= MAX_DEPTH => {
                self.refuse(&path, format!("more than {MAX_DEPTH} directories deep"));
            }
            Kind::Directory if self.was_seen(&entry) => {
                self.refuse(&path, "a directory that was seen before");
            }
            Kind::Directory => {
                self.tree.directories.push(target.clone());
                return Ok(Some((path, target, depth + 1)));
            }
            Kind::Unknown => self.refuse(&path, "the server lists it and does not know it"),
            Kind::Link | Kind::Other => {
                let left_out = format!("{}: neither file nor directory", one_line(&path));
                self.tree.left_out.push(left_out);
            }
        }
        Ok(None)
    }
}

/// Lists a local directory tree, to be uploaded below `remote`.
///
/// # Errors
/// If a directory cannot be read.
pub fn local(root: &Path, remote: &[u8]) -> Result<Tree<Vec<u8>, Storage>, ClientError> {
    let mut tree = Tree {
        directories: vec![remote.to_vec()],
        ..Tree::default()
    };
    let mut open = vec![(root.to_owned(), remote.to_vec())];
    while let Some((directory, remote)) = open.pop() {
        let failed = |error| ClientError::local(&directory)(error);
        let mut entries = fs::read_dir(&directory)
            .map_err(failed)?
            .collect::<Result<Vec<_>, _>>()
            .map_err(failed)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            if name.as_bytes().iter().any(|byte| b"\r\n".contains(byte)) {
                let error = ClientError::invalid_name(name.as_bytes());
                let directory = one_line(directory.as_os_str().as_bytes());
                tree.refused.push(format!("{directory}: {error}"));
                continue;
            }
            let there = place::join(&remote, name.as_bytes());
            let facts = entry.metadata().map_err(failed)?;
            if facts.is_dir() {
                tree.directories.push(there.clone());
                open.push((entry.path(), there));
            } else if facts.is_file() {
                tree.files.push(Storage {
                    source: entry.path(),
                    remote: there,
                    present: None,
                });
            } else {
                tree.left_out.push(format!(
                    "{}: neither file nor directory",
                    one_line(entry.path().as_os_str().as_bytes())
                ));
            }
        }
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(walk: &mut RemoteWalk, entry: Entry, depth: usize) -> bool {
        walk.take(b"/r", Path::new("l"), entry, depth)
            .unwrap()
            .is_some()
    }

    #[test]
    fn names_that_lead_elsewhere_are_left_out() {
        let mut walk = RemoteWalk::default();
        for name in ["../../etc/cron.d/x", "/etc/passwd", "..", "a/b"] {
            take(&mut walk, Entry::new(name.into(), Kind::File), 0);
            take(&mut walk, Entry::new(name.into(), Kind::Directory), 0);
        }
        assert_eq!((walk.tree.files.len(), walk.tree.directories.len()), (0, 0));
        assert_eq!(walk.tree.refused.len(), 8);
    }

    #[test]
    fn a_tree_without_end_is_cut() {
        let mut walk = RemoteWalk::default();
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
    fn a_tree_here_is_files_and_directories_but_no_links() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("d")).unwrap();
        fs::write(folder.path().join("d/x"), "abc").unwrap();
        std::os::unix::fs::symlink("..", folder.path().join("d/up")).unwrap();
        let tree = local(folder.path(), b"r").unwrap();
        assert_eq!(tree.directories, [b"r".to_vec(), b"r/d".to_vec()]);
        assert_eq!(tree.files.len(), 1);
        assert_eq!(tree.files[0].remote, b"r/d/x");
        assert_eq!(tree.left_out.len(), 1);
    }
}
