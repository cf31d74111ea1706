//! `fairwind mirror`: makes a directory equal to one on another host.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use fairwind_ftp::client::batch::{self, Job};
use fairwind_ftp::client::mirror::{Mirror as Directories, Plan, Way};
use fairwind_ftp::client::{
    ClientError, Connection, Filter, Kind, Options, Outcome, Place, is_url, join, printable,
};
use serde_json::{Value, json};

use super::remote::single;
use super::transfer::{self, Data, Moving, Reach};
use crate::failure::{Failure, all_of};
use crate::output;

/// Make a directory equal to one on another host
#[derive(Args)]
#[command(after_help = "\
One of the two is the URL of a directory, the other a directory here. What TO lacks, or has with another
size or time, is moved, as by get and put: repeat the command to continue. With --delete, what FROM lacks
is deleted from TO, after everything has been moved without error; nothing is deleted if a listing failed
or FROM is empty. Links and special files are left out, and the command names them.

Of --include and --exclude the first that matches an entry decides; what none matches takes part. A
pattern (* ? [a-z]) without a slash is for names, one with a slash for the end of a path (** for any
directories), one that begins with a slash for the whole path; with a slash at its end it is for
directories only. What is excluded is neither moved nor deleted, nor is anything below it.

Examples:
  fairwind mirror ftp://ftp.example.org/pub/run7 run7 --parallel 4
  fairwind mirror run7 ftp://alice@ftp.example.org/runs/run7 --delete --dry-run
  fairwind mirror ftp://ftp.example.org/pub here --include '*/' --include '*.h5' --exclude '*'")]
pub(crate) struct Mirror {
    /// What is to be mirrored: a directory here, or the URL of one
    from: String,
    /// What is to become equal to it: the URL of a directory, or a directory here
    to: String,
    /// Delete what FROM does not have, after everything has been moved without error
    #[arg(long)]
    delete: bool,
    #[command(flatten)]
    rules: Rules,
    /// Tell what would be done, and do nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Files that move at the same time, each over its own connections
    #[arg(long, value_name = "N", default_value = "1")]
    parallel: NonZeroUsize,
    /// Store under the final name from the start, for servers that do not allow renaming; a broken transfer
    /// then leaves a file that looks complete
    #[arg(long)]
    in_place: bool,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    moving: Moving,
}

/// `--include` and `--exclude`, in the order in which they are given.
struct Rules(Filter);

impl Mirror {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (way, place, local) = self.sides()?;
        let directories = Directories {
            way,
            remote: place.path.clone(),
            local,
            filter: self.rules.0.clone(),
            delete: self.delete,
        };
        let bar = transfer::begin()?;
        let options = Options {
            in_place: self.in_place,
            ..self.moving.options(&self.data, &self.reach, &bar)?
        };
        let mut connection = transfer::connection(place, options)?;
        let plan = directories.plan(&mut connection)?;
        transfer::note(&connection, &plan.left_out);
        if self.dry_run {
            connection.close();
            bar.clear();
            return self.show(&plan, way);
        }
        let after = connection.another();
        let done = Done::of(&directories, plan, connection, after, self.parallel);
        bar.clear();
        let (outcome, done) = done?;
        if self.moving.json {
            return self.moving.tell_with("mirror", &outcome, done.json());
        }
        let text = done.text();
        let printed = match text.is_empty() {
            true => Ok(()),
            false => output::line(&text),
        };
        self.moving.tell("mirror", &outcome)?;
        Ok(printed?)
    }

    fn sides(&self) -> Result<(Way, Place, PathBuf), Failure> {
        match (is_url(&self.from), is_url(&self.to)) {
            (true, false) => Ok((Way::Down, single(&self.from)?, PathBuf::from(&self.to))),
            (false, true) => Ok((Way::Up, single(&self.to)?, PathBuf::from(&self.from))),
            _ => Err(Failure::input(
                "one of the two has to be a URL, ftp://user@host/path, and the other a directory here",
            )),
        }
    }

    /// Tells the plan instead of carrying it out.
    fn show(&self, plan: &Plan, way: Way) -> Result<(), Failure> {
        let mut actions = Vec::new();
        for path in &plan.make {
            actions.push(("make", directory(path), None));
        }
        for (path, job) in &plan.files {
            let action = match way {
                Way::Down => "get",
                Way::Up => "put",
            };
            actions.push((action, printable(path), job.size()));
        }
        // Where something is refused, nothing is deleted.
        if plan.refused.is_empty() {
            for found in &plan.delete {
                let mark = if found.entry.kind == Kind::Directory {
                    "/"
                } else {
                    ""
                };
                actions.push(("delete", format!("{}{mark}", printable(&found.path)), None));
            }
        }
        let printed = if self.moving.json {
            let actions: Vec<Value> = actions
                .iter()
                .map(
                    |(action, path, bytes)| json!({"action": action, "path": path, "bytes": bytes}),
                )
                .collect();
            output::json(&json!({
                "command": "mirror",
                "dry_run": true,
                "actions": actions,
                "unchanged": plan.unchanged,
                "left_out": plan.left_out,
                "refused": plan.refused,
            }))
        } else {
            let mut text: String = actions
                .iter()
                .map(|(action, path, _)| format!("{action} {path}\n"))
                .collect();
            text.push_str(&unchanged(plan.unchanged));
            output::line(&text)
        };
        all_of(plan.refused.clone())?;
        Ok(printed?)
    }
}

/// What was done beside moving files.
#[derive(Default)]
struct Done {
    made: Vec<String>,
    deleted: Vec<String>,
    unchanged: usize,
}

impl Done {
    /// Carries out a plan.
    fn of(
        directories: &Directories,
        plan: Plan,
        mut connection: Connection,
        mut after: Connection,
        parallel: NonZeroUsize,
    ) -> Result<(Outcome, Self), Failure> {
        let mut done = Self {
            unchanged: plan.unchanged,
            ..Self::default()
        };
        let mut failures: Vec<(String, &str)> = Vec::new();
        failures.extend(plan.refused.into_iter().map(|what| (what, "not mirrored")));
        for path in &plan.make {
            match directories.make(&mut connection, path) {
                Ok(()) => done.made.push(directory(path)),
                // Each file below it fails, too; the others are moved.
                Err(error @ (ClientError::Refused { .. } | ClientError::Name(_))) => {
                    failures.push((error.to_string(), "not made"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let jobs: Vec<Job> = plan.files.into_iter().map(|(_, job)| job).collect();
        let mut outcome = batch::run(connection, jobs, parallel)?;
        for (what, why) in failures {
            outcome.fail(&what, why);
        }
        if !plan.delete.is_empty() && !outcome.failures.is_empty() {
            let progress = &after.options().progress;
            progress.note("nothing is deleted, because not everything could be mirrored");
            return Ok((outcome, done));
        }
        for found in &plan.delete {
            if after.options().progress.stopped() {
                return Err(ClientError::Stopped.into());
            }
            let removal = directories.delete(&mut after, found)?;
            done.deleted
                .extend(removal.removed.iter().map(|path| printable(path)));
            for refused in removal.refused {
                outcome.fail(&refused, "not deleted");
            }
        }
        after.close();
        Ok((outcome, done))
    }

    fn json(&self) -> Value {
        json!({
            "made": self.made,
            "deleted": self.deleted,
            "unchanged": self.unchanged,
        })
    }

    fn text(&self) -> String {
        let deleted = self.deleted.iter().map(|path| format!("{path}: deleted\n"));
        let mut text: String = deleted.collect();
        text.push_str(&unchanged(self.unchanged));
        text
    }
}

/// A directory by its path from the root, with a slash behind it.
fn directory(path: &[u8]) -> String {
    match path {
        b"" => "./".to_owned(),
        path => printable(&join(path, b"")),
    }
}

fn unchanged(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "1 file is equal already\n".to_owned(),
        count => format!("{count} files are equal already\n"),
    }
}

const INCLUDE: &str = "include";
const EXCLUDE: &str = "exclude";

impl Args for Rules {
    fn augment_args(command: Command) -> Command {
        let rule = |name: &'static str, help: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name("PATTERN")
                .action(ArgAction::Append)
                .help(help)
        };
        command
            .arg(rule(
                INCLUDE,
                "Let entries take part that match, whatever later patterns say; repeatable",
            ))
            .arg(rule(
                EXCLUDE,
                "Leave out entries that match, and what is below them; repeatable",
            ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Rules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut rules: Vec<(usize, &str, &String)> = Vec::new();
        for name in [INCLUDE, EXCLUDE] {
            let places = matches.indices_of(name).into_iter().flatten();
            let patterns = matches.get_many::<String>(name).into_iter().flatten();
            rules.extend(
                places
                    .zip(patterns)
                    .map(|(at, pattern)| (at, name, pattern)),
            );
        }
        rules.sort();
        let mut filter = Filter::default();
        for (_, name, pattern) in rules {
            let added = match name {
                INCLUDE => filter.include(pattern),
                _ => filter.exclude(pattern),
            };
            added.map_err(|error| {
                let text = format!("--{name}: {error}\n");
                clap::Error::raw(clap::error::ErrorKind::ValueValidation, text)
            })?;
        }
        Ok(Self(filter))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
