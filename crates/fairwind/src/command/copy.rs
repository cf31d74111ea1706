//! `fairwind copy`: copies files from server to server.

use std::num::NonZeroUsize;

use clap::Args;
use fairwind_ftp::client::copies::{self, Copying};
use fairwind_ftp::client::copy_tree::CopyTree;
use fairwind_ftp::client::{ClientError, Connection, Kind, Match, Place, Selection, join};

use super::remote::single;
use super::transfer::{self, Data, Moving, Reach};
use crate::failure::Failure;

/// Copy files from one FTP server to another, directly between them
#[derive(Args)]
#[command(after_help = "\
The destination's server waits for a data connection and the source's server connects to it; if either
refuses, the other way round. Most servers refuse data connections with strangers, for good reason
(RFC 2577): `fairwind serve --foreign-peer NETWORK` allows those of a network. A file appears under
its name when all of it has arrived and both servers compute the same checksum. Repeat the command to
continue after a failure. With --recursive, a file with the same size and time on both servers is not
copied again. If both servers are spoken to under TLS, so is what goes from one to the other.

Examples:
  fairwind copy ftp://a.example.org/big.iso ftp://alice@b.example.org/big.iso
  fairwind copy --recursive ftp://a.example.org/run7 ftp://alice@b.example.org/runs/ --parallel 4
  fairwind copy ftp://a.example.org/big.iso ftp://alice@b.example.org/incoming/ --json
  fairwind copy ftpes://a.example.org/big.iso ftpes://alice@b.example.org/")]
pub(crate) struct Copy {
    /// URL of the file or, with --recursive, directory; with patterns if wanted
    from: String,
    /// URL of its new place; one that ends with a slash is a directory
    to: String,
    /// Copy directories with everything in them
    #[arg(long, short)]
    recursive: bool,
    /// Files that move at the same time, each over its own connections
    #[arg(long, value_name = "N", default_value = "1")]
    parallel: NonZeroUsize,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    moving: Moving,
}

#[derive(Default)]
struct Wanted {
    copies: Vec<Copying>,
    refused: Vec<String>,
}

impl Copy {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let selection: Selection = self.from.parse()?;
        let to = single(&self.to)?;
        let several = selection.has_patterns();
        if several && !to.is_directory() {
            return Err(Failure::input(format!(
                "{to}: patterns may match several files, for which a URL that ends with a slash is wanted"
            )));
        }
        let bar = transfer::begin()?;
        let options = self.moving.options(&Data::default(), &self.reach, &bar)?;
        let mut source = transfer::connection(selection.base().clone(), options.clone())?;
        let mut destination = transfer::connection(to.clone(), options)?;
        let mut wanted = Wanted::default();
        for found in selection.find(&mut source)? {
            self.add(&mut wanted, &mut source, &mut destination, found)?;
        }
        let outcome = copies::run(source, destination, wanted.copies, self.parallel);
        bar.clear();
        let mut outcome = outcome?;
        for refused in wanted.refused {
            outcome.fail(&refused, "not copied");
        }
        self.moving.tell("copy", &outcome)
    }

    /// Adds the file, or the files below the directory, that the source's URL names.
    fn add(
        &self,
        wanted: &mut Wanted,
        source: &mut Connection,
        destination: &mut Connection,
        found: Match,
    ) -> Result<(), Failure> {
        let (from, to) = (found.place, destination.place().clone());
        let is_matched = found.entry.is_some();
        let is_directory = match found.entry {
            Some(entry) => entry.kind == Kind::Directory,
            None => from.is_directory() || (self.recursive && is_directory(source, &from)?),
        };
        if is_directory && !self.recursive {
            if is_matched {
                let left_out = format!("{from}: --recursive copies directories");
                transfer::note(source, &[left_out]);
                return Ok(());
            }
            return Err(Failure::input(format!(
                "{from}: --recursive copies directories"
            )));
        }
        let target = match from.name() {
            Some(name) if to.is_directory() => join(&to.path, name),
            Some(_) => to.path.clone(),
            None if is_directory => to.path.clone(),
            None => return Err(Failure::input(format!("{from} names no file"))),
        };
        if !is_directory {
            wanted.copies.push(Copying {
                from: from.path,
                to: target,
                present: None,
            });
            return Ok(());
        }
        let tree = CopyTree::plan(source, &from.path, destination, &target)?;
        transfer::note(source, &tree.left_out);
        wanted.refused.extend(tree.refused);
        for directory in &tree.directories {
            let path = below(&target, directory);
            let made = destination.with(|session| session.make_directories(&path));
            match made {
                // Each file below it fails, too; files elsewhere are copied.
                Err(error @ ClientError::Name(_)) => wanted.refused.push(error.to_string()),
                made => made?,
            }
        }
        let files = tree.files.into_iter().map(|found| (found, false));
        let present = tree.present.into_iter().map(|found| (found, true));
        for (found, is_present) in files.chain(present) {
            wanted.copies.push(Copying {
                from: join(&from.path, &found.path),
                to: join(&target, &found.path),
                present: found.entry.size.filter(|_| is_present),
            });
        }
        Ok(())
    }
}

fn is_directory(connection: &mut Connection, place: &Place) -> Result<bool, Failure> {
    let entry = connection.with(|session| session.look(&place.path))?;
    match entry {
        Some(entry) => Ok(entry.kind == Kind::Directory),
        None => Err(Failure::work(format!(
            "{place}: there is no such file or directory"
        ))),
    }
}

fn below(root: &[u8], path: &[u8]) -> Vec<u8> {
    match path {
        b"" => root.to_vec(),
        path => join(root, path),
    }
}
