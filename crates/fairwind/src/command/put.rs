//! `fairwind put`: stores files on a server.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Args;
use fairwind_ftp::client::batch::{self, Job};
use fairwind_ftp::client::{
    ClientError, Connection, Entry, Kind, Options, Place, Storage, is_url, join, split, tree,
};
use fairwind_transfer::background::Control;

use super::transfer::{self, Data, Moving, Reach};
use crate::failure::Failure;

/// Store files on an FTP server
#[derive(Args)]
#[command(override_usage = "fairwind put [OPTIONS] <LOCAL>... <URL>")]
#[command(after_help = "\
A file gets its name on the server when it is complete and, if the server computes checksums, its
checksum is right. Until then it is .NAME.part beside it; repeat the command to continue it. A URL that
ends with a slash, or names a directory, is where the files go; otherwise it is the new name of a single
file.

With --recursive, a file with the same size and time on both hosts is not moved again.

Standard input (-) or a pipe is stored to its end under the URL's name; such an upload cannot be
resumed.

Examples:
  fairwind put big.iso ftp://alice@ftp.example.org/incoming/
  fairwind put one.h5 two.h5 ftp://alice@ftp.example.org/run/ --parallel 2
  tar c run7 | fairwind put - ftp://alice@ftp.example.org/runs/run7.tar --create-dirs
  fairwind put run7 ftp://alice@ftp.example.org/runs/ --recursive
  fairwind put big.iso ftp://alice@ftp.example.org/incoming/ --background
  fairwind put big.iso ftp://192.0.2.7/new.iso --buffer 16MB --json | jq .retransmits")]
pub(crate) struct Put {
    /// Files, directories with --recursive, or - for standard input; then the URL. A URL that ends with a slash
    /// or names a directory takes the files; otherwise it is the new name of a single file
    #[arg(required = true, num_args = 2.., value_names = ["LOCAL", "URL"])]
    what: Vec<PathBuf>,
    /// Move directories with everything in them
    #[arg(long, short)]
    recursive: bool,
    /// Files that move at the same time, each over its own connections
    #[arg(long, value_name = "N", default_value = "1")]
    parallel: NonZeroUsize,
    /// Store under the final name from the start, for servers that do not allow renaming; a broken transfer
    /// then leaves a file that looks complete
    #[arg(long)]
    in_place: bool,
    /// Make the directories of the URL that do not exist
    #[arg(long)]
    create_dirs: bool,
    /// Take only what others leave of the path, by the congestion control fairwind. Needs root, or CAP_BPF,
    /// CAP_PERFMON and CAP_NET_ADMIN, or a fairwind that is loaded and allowed to everybody
    #[arg(long, conflicts_with_all = ["advisor", "congestion_control"])]
    background: bool,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    moving: Moving,
}

impl Put {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (url, locals) = self.what.split_last().expect("two are required");
        let url = url
            .to_str()
            .filter(|url| is_url(url))
            .ok_or_else(|| Failure::input("the last one has to be a URL: ftp://user@host/path"))?;
        let place = transfer::place(url)?;
        let locals: Vec<&Path> = locals.iter().map(|local| standard_input(local)).collect();
        for local in &locals {
            if local.is_dir() && !self.recursive {
                let local = local.display();
                return Err(Failure::input(format!(
                    "{local}: --recursive stores directories"
                )));
            }
        }
        // It is loaded as long as this lives.
        let control = self.background.then(Control::background).transpose();
        let control = control.map_err(|error| Failure::work(format!("--background: {error}")))?;
        let mut data = self.data.clone();
        if let Some(control) = &control {
            data = data.controlled_by(control.name());
        }
        let bar = transfer::begin()?;
        let options = Options {
            in_place: self.in_place,
            ..self.moving.options(&data, &self.reach, &bar)?
        };
        let mut connection = transfer::connection(place.clone(), options)?;
        if self.create_dirs {
            let (directory, _) = split(&place.path);
            let made = connection.with(|session| session.make_directories(directory));
            made?;
        }
        let into =
            locals.len() > 1 || place.is_directory() || is_directory(&mut connection, &place)?;
        let mut jobs = Vec::new();
        let mut refused = Vec::new();
        for local in locals {
            let remote = if into {
                join(&place.path, name(local)?.as_bytes())
            } else {
                place.path.clone()
            };
            if local.is_dir() {
                refused.extend(add_tree(&mut jobs, &mut connection, local, &remote)?);
            } else {
                jobs.push(Job::Put(Storage {
                    source: local.to_owned(),
                    remote,
                    present: None,
                }));
            }
        }
        let outcome = batch::run(connection, jobs, self.parallel);
        bar.clear();
        let mut outcome = outcome?;
        for refused in refused {
            outcome.fail(&refused, "not stored");
        }
        self.moving.tell("put", &outcome)
    }
}

fn is_directory(connection: &mut Connection, place: &Place) -> Result<bool, Failure> {
    let entry = connection.with(|session| session.look(&place.path));
    let entry = entry?;
    Ok(entry.is_some_and(|entry| entry.kind == Kind::Directory))
}

/// Translates `-` to standard input.
fn standard_input(local: &Path) -> &Path {
    if local == Path::new("-") {
        return Path::new("/dev/stdin");
    }
    local
}

fn name(local: &Path) -> Result<OsString, Failure> {
    if local == Path::new("/dev/stdin") {
        return Err(Failure::input(
            "standard input has no name: the URL has to name the file",
        ));
    }
    if let Some(name) = local.file_name() {
        return Ok(name.to_owned());
    }
    // `.` and `..` refer to directories that have names.
    let named = local.canonicalize().map_err(Failure::at(local))?;
    let name = named.file_name().map(ToOwned::to_owned);
    name.ok_or_else(|| Failure::input(format!("{} has no name", local.display())))
}

/// Adds the files below a directory; returns what cannot be stored.
fn add_tree(
    jobs: &mut Vec<Job>,
    connection: &mut Connection,
    local: &Path,
    remote: &[u8],
) -> Result<Vec<String>, Failure> {
    let tree = tree::local(local, remote)?;
    transfer::note(connection, &tree.left_out);
    let mut refused = tree.refused;
    let mut there = Vec::new();
    for directory in &tree.directories {
        let entries = connection.with(|session| {
            session.make_directories(directory)?;
            match session.list(directory) {
                // Without a listing, all files are stored.
                Err(ClientError::Refused { .. }) => Ok(Vec::new()),
                entries => entries,
            }
        });
        let entries = match entries {
            // Each file below it fails, too; files elsewhere are stored.
            Err(ClientError::Name(why)) => {
                refused.push(why);
                continue;
            }
            entries => entries?,
        };
        there.push((directory.as_slice(), entries));
    }
    for storage in tree.files.clone() {
        let present = present(&there, &storage.remote).cloned();
        jobs.push(Job::Put(Storage { present, ..storage }));
    }
    Ok(refused)
}

/// The file that is already under this path.
fn present<'a>(there: &'a [(&[u8], Vec<Entry>)], path: &[u8]) -> Option<&'a Entry> {
    let (directory, name) = split(path);
    let (_, entries) = there
        .iter()
        .find(|(listed, _)| join(listed, b"") == directory)?;
    entries
        .iter()
        .find(|entry| entry.name == name && entry.kind == Kind::File)
}
