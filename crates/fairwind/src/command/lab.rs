//! `fairwind lab`: a command behind an emulated path, or an experiment on the running kernel.

mod exec;
mod path;
mod run;
mod traced;

use clap::{Subcommand, ValueEnum};
use fairwind_lab::LabError;
use fairwind_lab::host::Offload;

use crate::failure::Failure;

#[derive(Subcommand)]
pub enum Command {
    Exec(Box<exec::Exec>),
    Run(run::Run),
}

impl Command {
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Exec(exec) => exec.run(),
            Self::Run(run) => run.run(),
        }
    }
}

/// What network devices do; on the path there is one packet a segment in any case.
#[derive(Clone, Copy, ValueEnum)]
enum Offloads {
    /// Nothing at all, not even checksums
    Software,
    /// One packet a segment, only checksums are left unmade; captures show what is on the path
    None,
    /// Cut what is sent into segments, as most cards do; captures show large packets
    Send,
    /// Also merge segments that arrive together (GRO); the receiver acknowledges less often
    Both,
}

impl From<Offloads> for Offload {
    fn from(offloads: Offloads) -> Offload {
        match offloads {
            Offloads::Software => Offload::Software,
            Offloads::None => Offload::None,
            Offloads::Send => Offload::Send,
            Offloads::Both => Offload::Both,
        }
    }
}

fn failure(error: LabError) -> Failure {
    match error {
        LabError::Path(_) | LabError::UnknownControl { .. } => Failure::input(error),
        _ => Failure::work(error),
    }
}
