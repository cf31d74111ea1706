//! `fairwind report`: the report of a result, written again.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::output;

/// Write the report and the plots of a result again
///
/// Reads the numbers and series of the result folder and replaces report.html and the plots in it;
/// the numbers stay as they are. Prints the path of the report.
#[derive(Args)]
pub struct Report {
    /// Result folder
    dir: PathBuf,
}

impl Report {
    pub fn run(self) -> Result<(), Failure> {
        let page = fairwind_experiment::report::write(&self.dir).map_err(Failure::input)?;
        output::line(&page.display().to_string())?;
        Ok(())
    }
}
