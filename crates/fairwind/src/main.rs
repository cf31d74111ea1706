//! The command line: experiments in the simulator and on the running kernel, their results, traces of
//! real connections, and the congestion controls.

mod command;
mod output;
mod progress;
mod summary;

use std::process::ExitCode;

use clap::Parser;
use fairwind::{demo, failure, interrupt, shell, table};

fn main() -> ExitCode {
    match command::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
