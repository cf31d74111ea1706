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
        "The host cuts segments and computes checksums",
        Offload::Software,
    ),
    (
        "none",
        "The host cuts segments and computes no checksums; captures show what is on the path",
        Offload::None,
    ),
    (
        "send",
        "The emulator cuts what the host sends into segments, as most network cards do; captures in the host show large packets",
        Offload::Send,
    ),
    (
        "both",
        "As send, and segments that arrive together are merged (GRO): the receiver acknowledges less often",
        Offload::Both,
    ),
];
