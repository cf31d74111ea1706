//! `fairwind bench`: suites that set congestion controls against each other.

use clap::{Args, Subcommand};
use fairwind_study::Options;

use super::reproduce::StudyOptions;
use crate::failure::Failure;

#[derive(Subcommand)]
pub(crate) enum Command {
    Background(Background),
    RandomPaths(RandomPaths),
}

/// Measure what background transfers take of what others leave, and what it costs these
///
/// Every cell of the plan (experiments/background/plan.toml) runs with each control in the background, without
/// one, and with a strict-priority queue, which says what is spare. All results are kept, so it may be interrupted.
/// The tables are printed; OUT/tables has them as files, OUT/frontier.html has harm against use.
#[derive(Args)]
#[command(after_help = "\
Plans are part of a clone of fairwind. `fairwind reproduce background` is the same, with the tables as Markdown.

Examples:
  fairwind bench background --quick
  fairwind bench background --only control=fairwind --only foreground=cubic --only bandwidth=100
  fairwind bench background --engine lab --runs 3")]
pub(crate) struct Background {
    #[command(flatten)]
    study: StudyOptions,
}

/// Measure what congestion controls bear: loss, jitter, policers, blackouts and more, on random paths
///
/// Every path of the plan (experiments/random-paths/plan.toml), drawn from its seed, runs with each control, and with
/// a strict-priority queue, which says what is spare. All results are kept, so it may be interrupted. The tables are
/// printed; OUT/tables has them as files. OUT/sim has a folder for each path, with the experiment file.
#[derive(Args)]
#[command(after_help = "\
Plans are part of a clone of fairwind. `fairwind reproduce random-paths` is the same, with the tables as Markdown.
`make faults` runs it with checks of undefined behaviour and of memory in the controls.

Examples:
  fairwind bench random-paths --quick
  fairwind bench random-paths --only control=fairwind
  fairwind bench random-paths --only control=bbr,cubic --only block=3")]
pub(crate) struct RandomPaths {
    #[command(flatten)]
    study: StudyOptions,
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (study, name) = match self {
            Command::Background(background) => (background.study, "background"),
            Command::RandomPaths(paths) => (paths.study, "random-paths"),
        };
        study.carry_out(name, true, Options::default())
    }
}
