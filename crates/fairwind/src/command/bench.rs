//! `fairwind bench`: suites that set congestion controls against each other.

use clap::{Args, Subcommand};
use fairwind_study::Options;

use super::reproduce::StudyOptions;
use crate::failure::Failure;

#[derive(Subcommand)]
pub(crate) enum Command {
    Background(Background),
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

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Command::Background(background) = self;
        background
            .study
            .carry_out("background", true, Options::default())
    }
}
