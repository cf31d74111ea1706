//! `fairwind schema`: the experiment file's JSON Schema.

use clap::Args;

use crate::failure::Failure;
use crate::output;

/// Print the JSON Schema of the experiment file
#[derive(Args)]
#[command(after_help = "\
Editors check and complete experiment files with it.

Example:
  fairwind schema > experiment.schema.json")]
pub struct Schema {}

impl Schema {
    pub fn run(self) -> Result<(), Failure> {
        output::line(&fairwind_experiment::file::schema::json())?;
        Ok(())
    }
}
