//! Why a command has not run, or not been taken care of.

use std::ffi::OsString;
use std::io;

use fairwind_cc::kernel::LoadError;
use fairwind_trace::kernel::TraceError;

use crate::attach::AttachError;
use crate::control_group::GroupError;
use crate::direct::DirectError;

/// Why a command has not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The control is not to be had.
    #[error("congestion control: {0}")]
    Control(#[from] LoadError),
    /// There is no control group for it.
    #[error("{0}")]
    Group(#[from] GroupError),
    /// The kernel refuses the programs.
    #[error("{0}")]
    Attach(#[from] AttachError),
    /// The connections cannot be watched.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// Nothing can be done without rights.
    #[error("{0}")]
    Direct(#[from] DirectError),
    /// The command cannot be started.
    #[error("{}: {source}", command.display())]
    Command {
        /// The command.
        command: OsString,
        /// The kernel's error.
        source: io::Error,
    },
    /// A system call failed.
    #[error("waiting for the command: {0}")]
    Wait(#[source] io::Error),
}
