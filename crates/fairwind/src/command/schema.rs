//! `fairwind schema`: the JSON Schemas of the files that people write.

use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::output;

/// Print the JSON Schema of the experiment file, the trace daemon's or the agent's
#[derive(Args)]
#[command(after_help = "\
Editors check and complete such files with it.

Example:
  fairwind schema > experiment.schema.json")]
pub(crate) struct Schema {
    /// File whose schema is printed
    #[arg(value_enum, value_name = "FILE", default_value_t = Of::Experiment)]
    of: Of,
}

#[derive(Clone, Copy, ValueEnum)]
enum Of {
    Experiment,
    TraceDaemon,
    Agent,
}

impl Schema {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.of {
            Of::Experiment => output::line(&fairwind_scenario::file::schema::json())?,
            Of::Agent => {
                output::line(include_str!("../../../../docs/reference/agent.schema.json"))?
            }
            Of::TraceDaemon => output::line(include_str!(
                "../../../../docs/reference/trace-daemon.schema.json"
            ))?,
        }
        Ok(())
    }
}
