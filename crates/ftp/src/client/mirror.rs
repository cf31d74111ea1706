//! A directory made equal to another, one of them here and one on a server: what is missing or has another size or
//! time is moved; what the source lacks is deleted, if that is wanted, after everything has been moved without error.
//!
//! A plan is made of two complete listings. One that failed, or that may not be complete, lets nothing be deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::batch::Job;
use super::local::{make_directories, partial_name};
use super::manage::{Removal, only_refusals, remove_tree};
use super::same_file::{Trails, lowercase};
use super::scan::{self, Found, Scan};
use super::tree::{is_unsendable, neither, unsendable};
use super::{ClientError, Connection, Entry, Filter, Kind, Retrieval, Storage, place};
use crate::protocol::path::one_line;

/// Which side is made equal to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// This host's directory is made equal to the server's.
    Down,
    /// The server's directory is made equal to this host's.
    Up,
}

/// Two directories of which one is to equal the other.
#[derive(Debug, Clone)]
pub struct Mirror {
    /// Which one.
    pub way: Way,
    /// The directory on the server.
    pub remote: Vec<u8>,
    /// The directory here.
    pub local: PathBuf,
    /// What takes part. The rest is neither moved nor deleted.
    pub filter: Filter,
    /// Whether what the source lacks is deleted.
    pub delete: bool,
}

/// What is to be done; paths are from the two roots.
#[derive(Debug, Default)]
pub struct Plan {
    /// Directories to make, parents before children; the root is an empty path.
    pub make: Vec<Vec<u8>>,
    /// Files to move, with their paths.
    pub files: Vec<(Vec<u8>, Job)>,
    /// Files and directories to delete, not those below them.
    pub delete: Vec<Found>,
    /// Files that are equal already.
    pub unchanged: usize,
    /// What takes no part because it is neither file nor directory, and what is not deleted because it may be there in the
    /// source, or is needed.
    pub left_out: Vec<String>,
    /// What cannot be done, with reasons: then nothing is deleted.
    pub refused: Vec<String>,
}

/// Paths of the source that other names in the target stand for.
#[derive(Default)]
struct Needed<'a> {
    /// Here, by the files and directories to which they lead.
    here: Trails<'a>,
    /// On the server, by their small letters.
    there: BTreeMap<String, &'a [u8]>,
}

impl Mirror {
    /// Lists both directories and compares them.
    ///
    /// # Errors
    /// If the source is no directory or cannot be listed, the target is something else, the connection fails, or the
    /// source is empty and everything would be deleted.
    pub fn plan(&self, connection: &mut Connection) -> Result<Plan, ClientError> {
        let kind = connection.with(|session| session.look(&self.remote))?;
        let kind = kind.map(|entry| entry.kind);
        let shown = connection.place().with_path(self.remote.clone());
        let leave_out = |path: &[u8], is_directory: bool| {
            self.filter.leaves_out(path, is_directory)
                || (self.way == Way::Up && is_unsendable(path, is_directory))
        };
        let there = match (kind, self.way) {
            (Some(Kind::Directory), _) => Some(scan::remote(connection, &self.remote, &leave_out)?),
            (None, Way::Up) => None,
            (Some(_), _) => {
                return Err(ClientError::Usage(format!("{shown} is no directory")));
            }
            (None, Way::Down) => {
                return Err(ClientError::Failed {
                    what: format!("{shown}: there is no such directory"),
                    transient: false,
                });
            }
        };
        let here = match (fs::metadata(&self.local), self.way) {
            (Err(error), Way::Down) if error.kind() == io::ErrorKind::NotFound => None,
            (Ok(facts), _) if !facts.is_dir() => {
                let local = self.local.display();
                return Err(ClientError::Usage(format!("{local} is no directory")));
            }
            (facts, _) => {
                facts.map_err(ClientError::local(&self.local))?;
                Some(scan::local(&self.local, &leave_out)?)
            }
        };
        let (source, target) = match self.way {
            Way::Down => (there, here),
            Way::Up => (here, there),
        };
        let source = source.expect("a source that is missing is an error");
        let mut plan = Plan::default();
        if target.is_none() {
            plan.make.push(Vec::new());
        }
        self.compare(connection, source, target.unwrap_or_default(), &mut plan)?;
        Ok(plan)
    }

    fn compare(
        &self,
        connection: &mut Connection,
        source: Scan,
        target: Scan,
        plan: &mut Plan,
    ) -> Result<(), ClientError> {
        if self.way == Way::Up {
            for path in &source.left_out {
                if is_unsendable(path, false) && !self.filter.leaves_out(path, false) {
                    plan.refused.push(unsendable(&self.local, path));
                }
            }
        }
        plan.refused.extend(source.refused);
        plan.refused.extend(target.refused);
        let is_empty = source.entries.is_empty() && source.left_out.is_empty();
        if self.delete && is_empty && !target.entries.is_empty() {
            return Err(ClientError::Usage(
                "the source is empty: nothing is deleted; fairwind rm --recursive empties a directory"
                    .to_owned(),
            ));
        }
        let present: BTreeMap<&[u8], &Entry> = target
            .entries
            .iter()
            .map(|found| (found.path.as_slice(), &found.entry))
            .collect();
        // What an interrupted run has left is used up by this one.
        let partials: Vec<Vec<u8>> = source
            .entries
            .iter()
            .map(|found| place::beside(&found.path, false, partial_name))
            .collect();
        let mut wanted: BTreeSet<&[u8]> = partials.iter().map(Vec::as_slice).collect();
        for found in &source.entries {
            wanted.insert(&found.path);
            let other = present.get(found.path.as_slice()).copied();
            match found.entry.kind {
                Kind::Directory => match other.map(|entry| entry.kind) {
                    Some(Kind::Directory) => {}
                    None => plan.make.push(found.path.clone()),
                    Some(_) if self.is_link_to_directory(&found.path) => {}
                    Some(_) => plan.refused.push(in_the_way(&found.path, "no directory")),
                },
                Kind::File if other.is_some_and(|entry| entry.kind == Kind::Directory) => {
                    plan.refused.push(in_the_way(&found.path, "a directory"));
                }
                Kind::File => {
                    let job = self.job(found, other);
                    match only_refusals(job.is_done(connection))? {
                        Ok(true) => plan.unchanged += 1,
                        Ok(false) => plan.files.push((found.path.clone(), job)),
                        Err(why) => plan.refused.push(why),
                    }
                }
                _ => plan.left_out.push(neither(&found.path)),
            }
        }
        if self.delete {
            let mut above: Option<Vec<u8>> = None;
            let mut extra: Vec<&Found> = target
                .entries
                .iter()
                .filter(|found| !wanted.contains(found.path.as_slice()))
                .collect();
            // A directory comes before what is below it.
            extra.sort_by_key(|found| slashed(found));
            let needed = match extra.is_empty() {
                true => Needed::default(),
                false => self.needed(&source.entries, &present),
            };
            for found in extra {
                let is_below = above
                    .as_ref()
                    .is_some_and(|above| found.path.starts_with(above));
                if is_below {
                    continue;
                }
                if found.entry.kind == Kind::Directory {
                    above = Some(slashed(found));
                }
                let why = match may_be_hidden(&source.may_lack_hidden, &found.path) {
                    true => Some("the server may not list names that begin with a dot".to_owned()),
                    false => self.need(&needed, &found.path),
                };
                match why {
                    None => plan.delete.push(found.clone()),
                    Some(why) => {
                        let path = one_line(&found.path);
                        plan.left_out.push(format!("{path}: not deleted: {why}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// What wanted entries of the target are when they are not there under their own names and paths.
    fn needed<'a>(&self, source: &'a [Found], present: &BTreeMap<&[u8], &Entry>) -> Needed<'a> {
        let mut needed = Needed::default();
        let others = source.iter().filter(|found| {
            let other = present.get(found.path.as_slice());
            let takes_part = matches!(found.entry.kind, Kind::File | Kind::Directory);
            takes_part && other.is_none_or(|entry| entry.kind == Kind::Link)
        });
        for found in others {
            match self.way {
                Way::Down => needed.here.add(&self.here(&found.path), &found.path),
                Way::Up => {
                    needed.there.insert(lowercase(&found.path), &found.path);
                }
            }
        }
        needed
    }

    /// Why an entry of the target cannot be deleted although the source has nothing of its name.
    fn need(&self, needed: &Needed<'_>, path: &[u8]) -> Option<String> {
        let (by, what) = match self.way {
            Way::Down => (needed.here.through(&self.here(path))?, "leads there"),
            // The server may take both for one name; if it does not, the next run knows.
            Way::Up => (
                *needed.there.get(&lowercase(path))?,
                "may be the same there",
            ),
        };
        Some(format!("{} {what}", one_line(by)))
    }

    /// A link here to a directory is as good as the directory.
    fn is_link_to_directory(&self, path: &[u8]) -> bool {
        self.way == Way::Down && self.here(path).is_dir()
    }

    fn job(&self, found: &Found, other: Option<&Entry>) -> Job {
        match self.way {
            Way::Down => Job::Get(Retrieval {
                remote: place::join(&self.remote, &found.path),
                target: self.here(&found.path),
                listed: Some(found.entry.clone()),
            }),
            Way::Up => Job::Put(Storage {
                source: self.here(&found.path),
                remote: place::join(&self.remote, &found.path),
                present: other.cloned(),
            }),
        }
    }

    fn here(&self, path: &[u8]) -> PathBuf {
        match path {
            b"" => self.local.clone(),
            path => self.local.join(OsStr::from_bytes(path)),
        }
    }

    /// Makes a directory of the plan.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make(&self, connection: &mut Connection, path: &[u8]) -> Result<(), ClientError> {
        match self.way {
            Way::Down => {
                let here = self.here(path);
                make_directories(&here).map_err(ClientError::local(&here))
            }
            Way::Up => {
                let there = match path {
                    b"" => self.remote.clone(),
                    path => place::join(&self.remote, path),
                };
                connection.with(|session| session.make_directories(&there))
            }
        }
    }

    /// Deletes something of the plan with all below it, except what takes no part.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn delete(
        &self,
        connection: &mut Connection,
        found: &Found,
    ) -> Result<Removal, ClientError> {
        let leave_out = |path: &[u8], is_directory: bool| {
            let path = place::join(&found.path, path);
            self.filter.leaves_out(&path, is_directory)
        };
        let is_directory = found.entry.kind == Kind::Directory;
        if self.way == Way::Down {
            let mut removal = Removal::default();
            remove_here(
                &self.here(&found.path),
                &found.path,
                is_directory,
                &self.filter,
                &mut removal,
            );
            return Ok(removal);
        }
        let path = place::join(&self.remote, &found.path);
        if is_directory {
            return remove_tree(connection, &path, &leave_out);
        }
        let removed = connection.remove_file(&path);
        Ok(match only_refusals(removed)? {
            Ok(()) => Removal {
                removed: vec![path],
                refused: Vec::new(),
            },
            Err(why) => Removal {
                removed: Vec::new(),
                refused: vec![why],
            },
        })
    }
}

/// Deletes a file or directory here; returns whether it is gone.
fn remove_here(
    path: &Path,
    below: &[u8],
    is_directory: bool,
    filter: &Filter,
    removal: &mut Removal,
) -> bool {
    let refuse = |removal: &mut Removal, error: io::Error| {
        let path = one_line(path.as_os_str().as_bytes());
        removal.refused.push(format!("{path}: {error}"));
        false
    };
    if !is_directory {
        return match fs::remove_file(path) {
            Ok(()) => {
                removal.removed.push(path.as_os_str().as_bytes().to_vec());
                true
            }
            Err(error) => refuse(removal, error),
        };
    }
    let entries =
        match fs::read_dir(path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>()) {
            Ok(entries) => entries,
            Err(error) => return refuse(removal, error),
        };
    let mut empty = true;
    for entry in entries {
        let inner = place::join(below, entry.file_name().as_bytes());
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let stays = filter.leaves_out(&inner, is_directory);
        empty &= !stays && remove_here(&entry.path(), &inner, is_directory, filter, removal);
    }
    if !empty {
        return false;
    }
    match fs::remove_dir(path) {
        Ok(()) => {
            let path = place::join(path.as_os_str().as_bytes(), b"");
            removal.removed.push(path);
            true
        }
        Err(error) => refuse(removal, error),
    }
}

/// Whether a path may be there in spite of a listing that lacks it, because one of its names begins with a dot.
fn may_be_hidden(may_lack_hidden: &BTreeSet<Vec<u8>>, path: &[u8]) -> bool {
    let dots = path.iter().enumerate().filter(|(_, byte)| **byte == b'.');
    let mut names = dots.filter(|(at, _)| *at == 0 || path[at - 1] == b'/');
    names.any(|(at, _)| may_lack_hidden.contains(place::trim(&path[..at])))
}

/// The path with a slash behind it.
fn slashed(found: &Found) -> Vec<u8> {
    place::join(&found.path, b"")
}

fn in_the_way(path: &[u8], what: &str) -> String {
    format!("{}: {what} is in the way", one_line(path))
}
