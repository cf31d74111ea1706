//! `fairwind get`: fetches files from a server.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use fairwind_ftp::client::batch::{self, Job};
use fairwind_ftp::client::{
    Connection, Entry, Kind, Match, Options, Outcome, Place, Retrieval, Selection,
    is_standard_output, make_directories, tree,
};

use super::queue;
use super::remote::selections;
use super::transfer::{self, Data, Moving, Reach};
use crate::failure::Failure;
use crate::progress::ByteBar;

/// Fetch files from an FTP server
#[derive(Args)]
#[command(override_usage = "fairwind get [OPTIONS] <URL>... [LOCAL]")]
#[command(after_help = "\
A file appears under its name once it is complete, has the server's checksum and is on the disk.
Until then it is .NAME.part beside it; repeat the command to continue it. The path in a URL begins
where the server puts the user; ftp://host//path begins at the server's root. User and password come
from the URL, ~/.netrc, FAIRWIND_FTP_PASSWORD or a question; otherwise the user is anonymous.

A local link is followed and kept; pipes and devices are written to. If standard output carries the
file, messages go to standard error.

Patterns in URLs select files: * ? [a-z] within a name, ** for any directories. Quote them against the
shell; *, ? and [ in a name are written %2A, %3F and %5B.

With --recursive or patterns, a file with the same size and time on both hosts is not moved again.

Examples:
  fairwind get ftp://ftp.example.org/pub/big.iso
  fairwind get ftp://alice@ftp.example.org/run/one.h5 ftp://alice@ftp.example.org/run/two.h5 data/
  fairwind get ftp://ftp.example.org/pub/run7 --recursive --parallel 4
  fairwind get 'ftp://ftp.example.org/run7/*.h5' data/
  fairwind get ftp://ftp.example.org/pub/big.iso --ranges 4
  fairwind get --queue ~/fetch/queue --recursive
  fairwind get ftp://ftp.example.org/pub/big.iso --background
  fairwind get ftp://ftp.example.org/pub/src.tar - | tar x
  fairwind get ftp://192.0.2.7/big.iso --advisor http://127.0.0.1:8649 --json | jq .mbps")]
pub(crate) struct Get {
    /// URLs of one server and user, with patterns if wanted; then, if wanted, the place for the files: a directory, a name for a single
    /// file, or - for standard output [default: the working directory]
    #[arg(required_unless_present = "queue", value_name = "URL|LOCAL")]
    what: Vec<String>,
    /// Carry out the jobs in this file, one a line: a URL and, if wanted, a place for the files. What is done is noted
    /// in FILE.log; after an interruption the same command goes on
    #[arg(long, value_name = "FILE", conflicts_with = "what")]
    queue: Option<PathBuf>,
    /// Move directories with everything in them
    #[arg(long, short)]
    recursive: bool,
    /// Files that move at the same time, each over its own connections
    #[arg(long, value_name = "N", default_value = "1")]
    parallel: NonZeroUsize,
    /// Ranges of each file that move at the same time, each over its own connections; small files, and files of
    /// servers without REST, move as a whole
    #[arg(long, value_name = "N", default_value = "1")]
    ranges: NonZeroUsize,
    /// Take only what others leave of the path: hold the server down by the window that is offered. Needs no rights
    #[arg(long, conflicts_with = "advisor")]
    background: bool,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    moving: Moving,
}

/// Files to fetch, and entries that a server should not have listed.
#[derive(Default)]
struct Wanted {
    jobs: Vec<Job>,
    refused: Vec<String>,
}

impl Get {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let bar = transfer::begin()?;
        if let Some(queue) = &self.queue {
            let outcome = queue::run(queue, |job| {
                self.fetch(&job.urls, job.local.as_deref(), &bar)
            });
            bar.clear();
            return self.moving.tell("get", &outcome?);
        }
        let (urls, local) = self.words()?;
        let outcome = self.fetch(urls, local, &bar);
        bar.clear();
        if local.is_some_and(|local| is_standard_output(Path::new(local))) {
            return self.moving.report_to_stderr("get", &outcome?);
        }
        self.moving.tell("get", &outcome?)
    }

    /// Fetches what some URLs of one server name.
    fn fetch(
        &self,
        urls: &[String],
        local: Option<&str>,
        bar: &Arc<ByteBar>,
    ) -> Result<Outcome, Failure> {
        let selections = selections(urls)?;
        let bases: Vec<Place> = selections.iter().map(|one| one.base().clone()).collect();
        let data = self.data.clone().held_down(self.background);
        let options = Options {
            ranges: self.ranges,
            // Nobody may be there to try again.
            waits: self.queue.is_some(),
            ..self.moving.options(&data, &self.reach, bar)?
        };
        let mut connection = transfer::connection(transfer::server(&bases)?.clone(), options)?;
        let mut wanted = Wanted::default();
        let several = selections.len() > 1 || selections.iter().any(Selection::has_patterns);
        for selection in &selections {
            for found in selection.find(&mut connection)? {
                self.add(&mut wanted, &mut connection, found, local, several)?;
            }
        }
        let mut outcome = batch::run(connection, wanted.jobs, self.parallel)?;
        for refused in wanted.refused {
            outcome.fail(&refused, "not fetched");
        }
        Ok(outcome)
    }

    /// The URLs of the command line, and the place for the files.
    fn words(&self) -> Result<(&[String], Option<&str>), Failure> {
        let (urls, local) = match self.what.split_last() {
            Some((last, urls)) if last == "-" => (urls, Some("/dev/stdout")),
            Some((last, urls)) if !last.contains("://") => (urls, Some(last.as_str())),
            _ => (&self.what[..], None),
        };
        if urls.is_empty() {
            return Err(Failure::input("a URL is missing: ftp://user@host/path"));
        }
        Ok((urls, local))
    }

    /// Adds the file, or the files below the directory, that a URL names.
    fn add(
        &self,
        wanted: &mut Wanted,
        connection: &mut Connection,
        found: Match,
        local: Option<&str>,
        several: bool,
    ) -> Result<(), Failure> {
        let (place, listed) = (&found.place, found.entry);
        let known = listed.as_ref().map(|entry| entry.kind == Kind::Directory);
        if !self.recursive && known == Some(true) {
            let left_out = format!("{place}: --recursive fetches directories");
            transfer::note(connection, &[left_out]);
            return Ok(());
        }
        if !self.recursive && place.is_directory() {
            let what = format!("{place}: --recursive fetches directories");
            return Err(Failure::input(what));
        }
        let is_directory = match known {
            Some(known) => known,
            None => self.recursive && is_directory(connection, place)?,
        };
        let name = place
            .name()
            .map(|name| Entry::new(name.to_vec(), Kind::File));
        let name = name.as_ref().and_then(Entry::local_name);
        let to_output = local.is_some_and(|local| is_standard_output(Path::new(local)));
        let into = local.is_some_and(|local| local.ends_with('/')) || (several && !to_output);
        let local = Path::new(local.unwrap_or_default());
        let target = match name {
            _ if to_output && is_directory => {
                return Err(Failure::input(format!(
                    "{place}: a directory needs a directory here, not standard output"
                )));
            }
            Some(name) if into || local == Path::new("") => local.join(name),
            Some(name) if !is_directory && local.is_dir() => local.join(name),
            None if !is_directory => {
                return Err(Failure::input(format!("{place} names no file")));
            }
            None if local == Path::new("") => PathBuf::from("."),
            _ => local.to_owned(),
        };
        if !is_directory {
            make_directory(target.parent().unwrap_or(Path::new("")), into)?;
            wanted.jobs.push(Job::Get(Retrieval {
                remote: place.path.clone(),
                target,
                listed: listed.filter(|entry| entry.kind == Kind::File),
            }));
            return Ok(());
        }
        let root = place.path.clone();
        let tree = tree::remote(connection, &root, &target)?;
        for directory in &tree.directories {
            make_directory(directory, true)?;
        }
        transfer::note(connection, &tree.left_out);
        wanted.jobs.extend(tree.files.into_iter().map(Job::Get));
        wanted.refused.extend(tree.refused);
        Ok(())
    }
}

fn is_directory(connection: &mut Connection, place: &Place) -> Result<bool, Failure> {
    if place.is_directory() {
        return Ok(true);
    }
    let entry = connection.with(|session| session.look(&place.path));
    match entry? {
        Some(entry) => Ok(entry.kind == Kind::Directory),
        None => Err(Failure::work(format!(
            "{place}: there is no such file or directory"
        ))),
    }
}

/// Creates a directory and its parents if `wanted`.
fn make_directory(path: &Path, wanted: bool) -> Result<(), Failure> {
    if !wanted || path == Path::new("") {
        return Ok(());
    }
    make_directories(path).map_err(Failure::at(path))
}
