//! `fairwind sim run`: runs an experiment in virtual time.

use clap::Subcommand;
use fairwind_experiment::engine::sim::Sim;

use super::execution::Execution;
use crate::failure::Failure;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run an experiment file in virtual time and write a result folder
    #[command(after_help = "\
The folder holds result.json, time series as Parquet, report.html and plots. With several seeds it
holds such a folder for each, and summary.json with means and 95 % intervals. The same file and seed
give the same result.json, but for its performance part. A run that is interrupted or fails leaves
no folder.

Examples:
  fairwind sim run experiment.toml
  fairwind sim run experiment.toml --seed 7 --out seven.result
  fairwind sim run experiment.toml --set link.bottleneck.bandwidth=20Mbit/s --set duration=60s
  fairwind sim run experiment.toml --json --no-series | jq '.flows[].goodput_mbps'")]
    Run {
        #[command(flatten)]
        execution: Execution,
        /// Seeds that run at the same time [default: the number of cores]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        jobs: Option<u16>,
    },
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Run { execution, jobs } => execution.run(&Sim, jobs.map(usize::from)),
        }
    }
}
