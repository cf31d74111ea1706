//! The subcommands, one module each.

mod advise;
mod advisor;
mod agent;
mod bench;
mod cc;
mod check;
mod chmod;
mod compare;
mod completions;
mod copy;
mod demo;
mod doctor;
mod du;
mod execution;
mod ftp;
mod get;
mod history;
mod lab;
mod ls;
mod man;
mod measure;
mod mirror;
mod mkdir;
mod mv;
mod put;
mod queue;
mod remote;
mod report;
mod reproduce;
mod rm;
mod rmdir;
mod run;
mod schema;
mod serve;
mod sim;
mod supervisor;
mod trace;
mod transfer;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// Move big files over long, shared paths, see what TCP does inside, and try it all on one machine
#[derive(Parser)]
#[command(
    name = "fairwind",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  fairwind get ftp://host/big.iso          Fetch a file, resume if interrupted, verify it
  fairwind serve /srv/data                 Serve a folder by FTP, to this machine only
  fairwind check experiment.toml           Is the file right, and what network does it describe?
  fairwind sim run experiment.toml         Simulate it; the result is experiment.result/
  fairwind lab run experiment.toml         Run it on this machine's kernel, with the same result
  fairwind compare a.result b.result       Set two results side by side
  fairwind run --background -- rsync …     Any program, without harm to others on its path
  fairwind agent --policy agent.toml       The same for a whole host, by rules
  fairwind trace --live                    See inside the connections of this machine
  fairwind cc list                         Which congestion controls are there?

Exit codes: 0 done, 1 failed, 2 wrong usage or wrong file, 130 interrupted."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    /// Simulate experiments
    #[command(subcommand)]
    Sim(sim::Command),
    /// Run experiments and programs over emulated paths on this machine's kernel
    #[command(subcommand)]
    Lab(lab::Command),
    Trace(trace::Trace),
    Measure(measure::Measure),
    Run(run::Run),
    Agent(agent::Agent),
    Serve(Box<serve::Serve>),
    Get(get::Get),
    Put(put::Put),
    Ls(ls::Ls),
    Copy(copy::Copy),
    Mirror(Box<mirror::Mirror>),
    Rm(rm::Rm),
    Mkdir(mkdir::Mkdir),
    Rmdir(rmdir::Rmdir),
    Mv(mv::Mv),
    Chmod(chmod::Chmod),
    Du(du::Du),
    Ftp(ftp::Ftp),
    Compare(compare::Compare),
    Report(report::Report),
    Reproduce(reproduce::Reproduce),
    /// Set congestion controls against each other
    #[command(subcommand)]
    Bench(bench::Command),
    /// Show the congestion controls, load them into the kernel, change them there
    #[command(subcommand)]
    Cc(cc::Command),
    Advisor(Box<advisor::Advisor>),
    Advise(advise::Advise),
    History(Box<history::History>),
    Doctor(doctor::Doctor),
    Check(check::Check),
    Schema(schema::Schema),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Cli {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Demo(command) => command.run(),
            Command::Sim(command) => command.run(),
            Command::Lab(command) => command.run(),
            Command::Trace(command) => command.run(),
            Command::Measure(command) => command.run(),
            Command::Run(command) => command.run(),
            Command::Agent(command) => command.run(),
            Command::Serve(command) => command.run(),
            Command::Get(command) => command.run(),
            Command::Put(command) => command.run(),
            Command::Ls(command) => command.run(),
            Command::Copy(command) => command.run(),
            Command::Mirror(command) => command.run(),
            Command::Rm(command) => command.run(),
            Command::Mkdir(command) => command.run(),
            Command::Rmdir(command) => command.run(),
            Command::Mv(command) => command.run(),
            Command::Chmod(command) => command.run(),
            Command::Du(command) => command.run(),
            Command::Ftp(command) => command.run(),
            Command::Compare(command) => command.run(),
            Command::Report(command) => command.run(),
            Command::Reproduce(command) => command.run(),
            Command::Bench(command) => command.run(),
            Command::Cc(command) => command.run(),
            Command::Advisor(command) => command.run(),
            Command::Advise(command) => command.run(),
            Command::History(command) => command.run(),
            Command::Doctor(command) => command.run(),
            Command::Check(command) => command.run(),
            Command::Schema(command) => command.run(),
            Command::Completions(command) => command.run(),
            Command::Man(command) => command.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    mod pages;
    mod reference;

    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
