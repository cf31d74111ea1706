//! Directory trees, local and remote.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{ClientError, Connection, Kind, Retrieval, Storage, place, scan};
use crate::protocol::path::one_line;

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
    let scan = scan::remote(connection, root, &scan::everything)?;
    let mut tree = Tree {
        directories: vec![target.to_owned()],
        refused: scan.refused,
        ..Tree::default()
    };
    for found in scan.entries {
        let here = target.join(OsStr::from_bytes(&found.path));
        let there = place::join(root, &found.path);
        match found.entry.kind {
            Kind::Directory => tree.directories.push(here),
            Kind::File => tree.files.push(Retrieval {
                remote: there,
                target: here,
                listed: Some(found.entry),
            }),
            _ => tree.left_out.push(neither(&there)),
        }
    }
    Ok(tree)
}

/// Lists a local directory tree, to be uploaded below `remote`.
///
/// # Errors
/// If a directory cannot be read.
pub fn local(root: &Path, remote: &[u8]) -> Result<Tree<Vec<u8>, Storage>, ClientError> {
    let scan = scan::local(root, &is_unsendable)?;
    let mut tree = Tree {
        directories: vec![remote.to_vec()],
        ..Tree::default()
    };
    for path in scan.left_out {
        tree.refused.push(unsendable(root, &path));
    }
    for found in scan.entries {
        let here = root.join(OsStr::from_bytes(&found.path));
        let there = place::join(remote, &found.path);
        match found.entry.kind {
            Kind::Directory => tree.directories.push(there),
            Kind::File => tree.files.push(Storage {
                source: here,
                remote: there,
                present: None,
            }),
            _ => tree.left_out.push(neither(here.as_os_str().as_bytes())),
        }
    }
    Ok(tree)
}

/// Whether a path cannot be part of a command.
pub(super) fn is_unsendable(path: &[u8], _: bool) -> bool {
    path.iter().any(|byte| b"\r\n".contains(byte))
}

/// Says why a path below `root` cannot be sent.
pub(super) fn unsendable(root: &Path, path: &[u8]) -> String {
    let (directory, name) = place::split(path);
    let error = ClientError::invalid_name(name);
    let directory = root.join(OsStr::from_bytes(place::trim(directory)));
    format!("{}: {error}", one_line(directory.as_os_str().as_bytes()))
}

/// Says why an entry is left out.
pub(super) fn neither(path: &[u8]) -> String {
    format!("{}: neither file nor directory", one_line(path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
