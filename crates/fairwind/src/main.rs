//! The command line: experiments in the simulator and on the running kernel, their results, traces of
//! real connections, and the congestion controls.

mod command;
mod failure;
mod interrupt;
mod output;
mod progress;
mod summary;
mod words;

use std::process::ExitCode;

use clap::Parser;
use fairwind_study::{shell, table};

fn main() -> ExitCode {
    match command::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
