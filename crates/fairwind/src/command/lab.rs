//! `fairwind lab`: a command behind an emulated path, or an experiment on the running kernel.

mod exec;
mod path;
mod traced;

use clap::Subcommand;
use fairwind_experiment::engine::lab::Lab;
use fairwind_lab::host::Offload;

use super::execution::Execution;
use crate::failure::Failure;
use crate::words::{Word, one_of};

#[derive(Subcommand)]
pub(crate) enum Command {
    Exec(Box<exec::Exec>),
    /// Run an experiment file on this machine's kernel and write a result folder
    #[command(after_help = "\
Runs the files of `sim run` in real time on the running kernel's TCP: hosts are network namespaces,
links are emulated, and the result has the same form. Seeds run one after the other. A run that fails
or is interrupted leaves what it measured until then, marked incomplete.

A congestion control that the kernel has is the kernel's. With parameters, or if the kernel lacks it,
it is fairwind's own, loaded for the run and removed afterwards.

Needs root. However it ends, nothing is left of the hosts and their programs.

Examples:
  fairwind lab run experiment.toml
  fairwind lab run experiment.toml --seed 7 --out seven.result --own-controls
  fairwind lab run experiment.toml --offload none
  fairwind sim run experiment.toml --out sim && fairwind lab run experiment.toml --out lab &&
      fairwind compare sim lab")]
    Run {
        #[command(flatten)]
        execution: Execution,
        /// What the hosts leave to their network devices
        #[arg(long, value_name = "MODE", value_parser = one_of(OFFLOADS), default_value = "send")]
        offload: Offload,
        /// Run the congestion controls of `fairwind cc list` even where the kernel has one of the same name
        #[arg(long)]
        own_controls: bool,
    },
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Exec(exec) => exec.run(),
            Self::Run {
                execution,
                offload,
                own_controls,
            } => {
                let lab = Lab {
                    offload,
                    own_controls,
                };
                execution.run(&lab, None)
            }
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
