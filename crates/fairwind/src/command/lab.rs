//! `fairwind lab`: a command behind an emulated path, or an experiment on the running kernel.

mod exec;
mod path;
mod run;
mod traced;

use clap::Subcommand;
use fairwind_lab::host::Offload;

use crate::failure::Failure;
use crate::words::Word;

#[derive(Subcommand)]
pub(crate) enum Command {
    Exec(Box<exec::Exec>),
    Run(run::Run),
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Exec(exec) => exec.run(),
            Self::Run(run) => run.run(),
        }
    }
}

/// What network devices do; on the path there is one packet a segment in any case.
const OFFLOADS: &[Word<Offload>] = &[
    (
        "software",
        "Nothing at all, not even checksums",
        Offload::Software,
    ),
    (
        "none",
        "One packet a segment, only checksums are left unmade; captures show what is on the path",
        Offload::None,
    ),
    (
        "send",
        "Cut what is sent into segments, as most cards do; captures show large packets",
        Offload::Send,
    ),
    (
        "both",
        "Also merge segments that arrive together (GRO); the receiver acknowledges less often",
        Offload::Both,
    ),
];
