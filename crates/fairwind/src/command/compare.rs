//! `fairwind compare`: two results side by side.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::output;

/// Compare two results: each flow, each link, and how far they are apart
#[derive(Args)]
#[command(after_help = "\
Example:
  fairwind compare monday.result tuesday.result --json")]
pub struct Compare {
    /// Result folder
    a: PathBuf,
    /// Result folder to set beside it
    b: PathBuf,
    /// Print the comparison as JSON and nothing else
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub fn run(self) -> Result<(), Failure> {
        let comparison =
            fairwind_experiment::compare::compare(&self.a, &self.b).map_err(Failure::input)?;
        match self.json {
            true => output::json(&serde_json::to_value(&comparison).map_err(Failure::work)?)?,
            false => output::line(&comparison.to_string())?,
        }
        Ok(())
    }
}
