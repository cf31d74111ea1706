//! The command line: experiments in the simulator and on the running kernel, their results, traces of
//! real connections, and the congestion controls.

mod command;
mod failure;
mod interrupt;
mod output;
mod progress;
mod summary;
mod words;

use std::env;
use std::process::ExitCode;

use clap::Parser;
use fairwind_study::{shell, table};

fn main() -> ExitCode {
    fairwind_kernel::await_children();
    let given = env::args_os().map(|word| word.to_string_lossy().into_owned());
    let given: Vec<String> = given.collect();
    let done = match command::Cli::try_parse() {
        Ok(cli) => cli.run(),
        Err(wrong) => {
            let text = wrong.render().to_string();
            let shown = failure::without_passwords_of(&text, &given);
            if shown == text {
                wrong.exit();
            }
            output::note(&shown);
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.without_passwords_of(&given).report(),
    }
}
