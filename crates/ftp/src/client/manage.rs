//! What is done to names on a server without moving bytes: directories made and removed, files deleted, renamed,
//! given permissions.

use std::collections::BTreeMap;

use super::{ClientError, Connection, Kind, Session, place, scan};
use crate::protocol::path::one_line;

impl Session {
    /// Fails if a path cannot be entered; the session stays where it is.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn enter(&mut self, path: &[u8]) -> Result<(), ClientError> {
        self.can_read(path)?;
        self.must_be_directory(path)
    }

    /// The directory of the login (PWD); `None` if the server does not tell.
    ///
    /// # Errors
    /// If the control connection fails.
    pub fn login_directory(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        self.home()
    }

    /// Creates a directory (MKD).
    ///
    /// # Errors
    /// If the server refuses; also if the directory exists.
    pub fn make_directory(&mut self, path: &[u8]) -> Result<(), ClientError> {
        let path = place::trim(path);
        self.can_write(path)?;
        self.control.must("MKD", path).map(drop)
    }

    /// Removes an empty directory (RMD).
    ///
    /// # Errors
    /// If the server refuses.
    pub fn remove_directory(&mut self, path: &[u8]) -> Result<(), ClientError> {
        self.can_read(path)?;
        self.control.must("RMD", place::trim(path)).map(drop)
    }

    /// Deletes a file or a link (DELE).
    ///
    /// # Errors
    /// If the server refuses.
    pub fn remove_file(&mut self, path: &[u8]) -> Result<(), ClientError> {
        self.can_read(path)?;
        self.delete(path)
    }

    /// Renames a file or a directory (RNFR, RNTO). A file of the new name is replaced.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn move_to(&mut self, from: &[u8], to: &[u8]) -> Result<(), ClientError> {
        self.can_read(from)?;
        self.can_write(to)?;
        self.rename(place::trim(from), place::trim(to))
    }

    /// Sets permissions (SITE CHMOD), octal digits.
    ///
    /// # Errors
    /// If the server refuses, or does not know the command.
    pub fn change_mode(&mut self, path: &[u8], mode: u32) -> Result<(), ClientError> {
        self.can_read(path)?;
        let argument = [format!("CHMOD {mode:03o} ").as_bytes(), path].concat();
        self.control.must("SITE", &argument).map(drop)
    }
}

impl Connection {
    /// Creates a directory; see [`Session::make_directory`].
    ///
    /// # Errors
    /// If the server refuses, or the connection fails.
    pub fn make_directory(&mut self, path: &[u8]) -> Result<(), ClientError> {
        let act = |session: &mut Session| session.make_directory(path);
        self.once(act, |session| session.is_directory(path))
    }

    /// Removes an empty directory; see [`Session::remove_directory`].
    ///
    /// # Errors
    /// If the server refuses, or the connection fails.
    pub fn remove_directory(&mut self, path: &[u8]) -> Result<(), ClientError> {
        let act = |session: &mut Session| session.remove_directory(path);
        self.once(act, |session| Ok(session.look(path)?.is_none()))
    }

    /// Deletes a file or a link; see [`Session::remove_file`].
    ///
    /// # Errors
    /// If the server refuses, or the connection fails.
    pub fn remove_file(&mut self, path: &[u8]) -> Result<(), ClientError> {
        let act = |session: &mut Session| session.remove_file(path);
        self.once(act, |session| Ok(session.look(path)?.is_none()))
    }

    /// Renames a file or a directory; see [`Session::move_to`].
    ///
    /// # Errors
    /// If the server refuses, or the connection fails.
    pub fn move_to(&mut self, from: &[u8], to: &[u8]) -> Result<(), ClientError> {
        let act = |session: &mut Session| session.move_to(from, to);
        self.once(act, |session| {
            Ok(session.look(from)?.is_none() && session.look(to)?.is_some())
        })
    }

    /// Does what cannot be done twice. If a later attempt is refused, an earlier one may have done it, whose reply was lost.
    fn once(
        &mut self,
        mut act: impl FnMut(&mut Session) -> Result<(), ClientError>,
        mut is_done: impl FnMut(&mut Session) -> Result<bool, ClientError>,
    ) -> Result<(), ClientError> {
        let mut is_first = true;
        self.with(|session| {
            let tried = !std::mem::take(&mut is_first);
            match act(session) {
                Err(ClientError::Refused { .. }) if tried && is_done(session)? => Ok(()),
                done => done,
            }
        })
    }
}

/// What became of a tree that was to be deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// What was deleted: paths on the server, those of directories with a slash at the end.
    pub removed: Vec<Vec<u8>>,
    /// What could not be deleted, with reasons.
    pub refused: Vec<String>,
}

/// Deletes a directory of a server with all that is in it, except what is left out, by its path from `root`, and the
/// directories that hold it.
///
/// A link is deleted and not followed, also by servers that list it as the directory to which it leads: whatever looks
/// like a directory is first deleted like a file, which servers refuse for directories.
///
/// # Errors
/// If the connection fails.
pub fn remove_tree(
    connection: &mut Connection,
    root: &[u8],
    leave_out: scan::LeaveOut<'_>,
) -> Result<Removal, ClientError> {
    let mut removal = Removal::default();
    remove_below(connection, root, b"", leave_out, 0, &mut removal)?;
    Ok(removal)
}

/// Deletes what is `below` the root; returns whether it is gone.
fn remove_below(
    connection: &mut Connection,
    root: &[u8],
    below: &[u8],
    leave_out: scan::LeaveOut<'_>,
    depth: usize,
    removal: &mut Removal,
) -> Result<bool, ClientError> {
    let path = place::join(root, below);
    let path = place::trim(&path);
    if depth > scan::MAX_DEPTH {
        let why = format!("more than {} directories deep", scan::MAX_DEPTH);
        removal.refused.push(format!("{}: {why}", one_line(path)));
        return Ok(false);
    }
    if let Ok(()) = only_refusals(connection.remove_file(path))? {
        removal.removed.push(path.to_vec());
        return Ok(true);
    }
    let listed = only_refusals(connection.with(|session| session.list(path)))?;
    let entries = match listed {
        Ok(entries) => entries,
        Err(why) => {
            removal.refused.push(why);
            return Ok(false);
        }
    };
    let mut empty = true;
    for entry in entries {
        let inner = place::join(below, &entry.name);
        let why = match entry.local_name() {
            None => Some("a name that leads elsewhere".to_owned()),
            Some(_) => scan::too_long(&entry.name, &inner),
        };
        if let Some(why) = why {
            let path = place::join(path, &entry.name);
            let refused = format!("{}: {why}", scan::shortened(&path));
            removal.refused.push(refused);
            empty = false;
            continue;
        }
        let is_directory = entry.kind == Kind::Directory;
        if leave_out(&inner, is_directory) {
            empty = false;
            continue;
        }
        if is_directory {
            empty &= remove_below(connection, root, &inner, leave_out, depth + 1, removal)?;
            continue;
        }
        let path = place::join(root, &inner);
        match only_refusals(connection.remove_file(&path))? {
            Ok(()) => removal.removed.push(path),
            Err(why) => {
                removal.refused.push(why);
                empty = false;
            }
        }
    }
    // The reasons why it is not empty have been told.
    if !empty {
        return Ok(false);
    }
    match only_refusals(connection.remove_directory(path))? {
        Ok(()) => {
            removal.removed.push(place::join(path, b""));
            Ok(true)
        }
        Err(why) => {
            removal.refused.push(why);
            Ok(false)
        }
    }
}

/// Turns what concerns one name only into the inner error: the work on the others goes on.
pub(super) fn only_refusals<T>(
    result: Result<T, ClientError>,
) -> Result<Result<T, String>, ClientError> {
    match result {
        Ok(done) => Ok(Ok(done)),
        Err(error @ (ClientError::Refused { .. } | ClientError::Name(_))) => {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// How much is below a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// The directory's path from the root; empty for the root.
    pub path: Vec<u8>,
    /// Sizes of all files below it, bytes.
    pub bytes: u64,
    /// Files below it.
    pub files: u64,
    /// Directories below it.
    pub directories: u64,
    /// Files whose size the server does not tell.
    pub unknown: u64,
}

/// How much is below a directory of a server and below each directory in it, the root first; and what could not be
/// looked at, with reasons.
///
/// # Errors
/// If the directory cannot be listed, or the connection fails.
pub fn usage(
    connection: &mut Connection,
    root: &[u8],
) -> Result<(Vec<Usage>, Vec<String>), ClientError> {
    let scan = scan::remote(connection, root, &scan::everything)?;
    let mut usages = BTreeMap::from([(Vec::new(), Usage::default())]);
    for found in &scan.entries {
        let is_directory = found.entry.kind == Kind::Directory;
        if is_directory {
            let path = found.path.clone();
            let usage = Usage {
                path: path.clone(),
                ..Usage::default()
            };
            usages.insert(path, usage);
        }
        let mut above = found.path.as_slice();
        while !above.is_empty() {
            above = place::trim(place::split(above).0);
            let Some(usage) = usages.get_mut(above) else {
                continue;
            };
            match (is_directory, found.entry.kind, found.entry.size) {
                (true, ..) => usage.directories += 1,
                (_, Kind::File, Some(size)) => {
                    usage.files += 1;
                    usage.bytes = usage.bytes.saturating_add(size);
                }
                (_, Kind::File, None) => {
                    usage.files += 1;
                    usage.unknown += 1;
                }
                _ => {}
            }
        }
    }
    Ok((usages.into_values().collect(), scan.refused))
}
