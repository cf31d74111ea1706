//! `fairwind report`: writes the report of a result again.

use std::path::PathBuf;

use clap::Args;
use fairwind_report::ReportError;
use fairwind_result::ResultError;

use crate::failure::Failure;
use crate::output;

/// Write the report and the plots of a result again
#[derive(Args)]
#[command(after_help = "\
Replaces report.html and the plots of the folder, leaves its numbers and series as they are, and
prints the path of the report.

Example:
  fairwind report experiment.result")]
pub struct Report {
    /// Result folder
    dir: PathBuf,
}

impl Report {
    pub fn run(self) -> Result<(), Failure> {
        let page = fairwind_report::write(&self.dir).map_err(failure)?;
        output::line(&page.display().to_string())?;
        Ok(())
    }
}

/// A malformed result is the user's input; an I/O error, such as a full disk, is not.
pub(super) fn failure(error: ReportError) -> Failure {
    match error {
        ReportError::Result(ResultError::Io { .. }) => Failure::work(error),
        error => Failure::input(error),
    }
}
