//! `fairwind report`: writes the report of a result again.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::output;

/// Write the report and the plots of a result again
#[derive(Args)]
#[command(after_help = "\
Replaces report.html and the plots of the folder, leaves its numbers and series as they are, and
prints the path of the report.

Example:
  fairwind report experiment.result")]
pub(crate) struct Report {
    /// Result folder
    dir: PathBuf,
}

impl Report {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let page = fairwind_report::write(&self.dir)?;
        Ok(output::line(&page.display().to_string())?)
    }
}
