//! A directory of one server, to be copied to another.

use std::collections::BTreeMap;

use super::manage::only_refusals;
use super::scan::{self, Found};
use super::tree::neither;
use super::{ClientError, Connection, Kind, place};

/// What is to be copied; paths are from the two roots.
#[derive(Debug, Default)]
pub struct CopyTree {
    /// Directories to make, parents before children; the root is an empty path.
    pub directories: Vec<Vec<u8>>,
    /// Files to copy.
    pub files: Vec<Found>,
    /// Files that the destination has already, with the same size and time.
    pub present: Vec<Found>,
    /// What is neither file nor directory.
    pub left_out: Vec<String>,
    /// What cannot be copied, with reasons.
    pub refused: Vec<String>,
}

impl CopyTree {
    /// Compares the directory `from` of one server with `to` of the other, which need not exist.
    ///
    /// # Errors
    /// If the source cannot be listed, or a connection fails.
    pub fn plan(
        source: &mut Connection,
        from: &[u8],
        destination: &mut Connection,
        to: &[u8],
    ) -> Result<Self, ClientError> {
        let scan = scan::remote(source, from, &scan::everything)?;
        let there = destination.with(|session| session.look(to))?;
        let there = match there {
            // Without a listing, all files are copied.
            Some(_) => {
                only_refusals(scan::remote(destination, to, &scan::everything))?.unwrap_or_default()
            }
            None => scan::Scan::default(),
        };
        let there: BTreeMap<Vec<u8>, Found> = there
            .entries
            .into_iter()
            .map(|found| (found.path.clone(), found))
            .collect();
        let mut tree = Self {
            directories: vec![Vec::new()],
            refused: scan.refused,
            ..Self::default()
        };
        for found in scan.entries {
            match found.entry.kind {
                Kind::Directory => tree.directories.push(found.path),
                Kind::File => {
                    let other = there.get(&found.path);
                    let same = match other.filter(|other| may_be_same(&found, other)) {
                        Some(other) => {
                            let here = modified(source, from, &found)?;
                            here.is_some() && here == modified(destination, to, other)?
                        }
                        None => false,
                    };
                    match same {
                        true => tree.present.push(found),
                        false => tree.files.push(found),
                    }
                }
                _ => tree.left_out.push(neither(&place::join(from, &found.path))),
            }
        }
        Ok(tree)
    }
}

fn may_be_same(one: &Found, other: &Found) -> bool {
    let (one, other) = (&one.entry, &other.entry);
    other.kind == Kind::File && one.size.is_some() && one.size == other.size
}

/// The second in which a file was changed, if the server tells.
fn modified(
    connection: &mut Connection,
    root: &[u8],
    found: &Found,
) -> Result<Option<i64>, ClientError> {
    let time = match found.entry.modified {
        None => connection.with(|session| session.modified(&place::join(root, &found.path)))?,
        known => known,
    };
    Ok(time.map(|time| time.as_second()))
}
