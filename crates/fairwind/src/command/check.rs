//! `fairwind check`: checks an experiment file and prints what it describes.

use std::path::PathBuf;

use clap::Args;
use fairwind_scenario::Experiment;

use crate::failure::Failure;
use crate::output;

/// Check an experiment file and print the network that it describes
#[derive(Args)]
#[command(after_help = "\
For an invalid file, prints the line, the error and what would be right, and exits with code 2.
Writes nothing.

Example:
  fairwind check experiment.toml --set link.bottleneck.queue=100pkt")]
pub(crate) struct Check {
    /// Experiment file (TOML)
    file: PathBuf,
    /// Replace a value of the file; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Check {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let experiment = Experiment::load(&self.file, &self.set)?;
        Ok(output::line(&experiment.describe())?)
    }
}
