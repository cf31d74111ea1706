//! What can go wrong in the lab, with what would help.

use std::io;

use fairwind_cc::kernel::LoadError;
use fairwind_path::pipe::ConfigError;

/// Why the lab cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The process may not make namespaces and devices.
    #[error(
        "the lab makes network namespaces and TUN devices, for which {} {} missing: run it as root; \
         `fairwind sim run` needs no privileges",
        missing.join(" and "),
        if missing.len() == 1 { "is" } else { "are" }
    )]
    NotPermitted {
        /// The capabilities that would permit it.
        missing: Vec<&'static str>,
    },
    /// There is no TUN.
    #[error(
        "/dev/net/tun: {0}; the lab needs a kernel with CONFIG_TUN (`modprobe tun`) and, in a \
         container, the device; `fairwind sim run` needs neither"
    )]
    NoTun(io::Error),
    /// A system call failed.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The path is described wrongly.
    #[error("{0}")]
    Path(#[from] ConfigError),
    /// The network is described wrongly.
    #[error("{0}")]
    Network(String),
    /// The congestion control is neither the kernel's nor ours.
    #[error("there is no congestion control `{name}`; the kernel has {}, and {} can be loaded", kernel.join(", "), own.join(", "))]
    UnknownControl {
        /// The name that was asked for.
        name: String,
        /// Those that the kernel has.
        kernel: Vec<String>,
        /// Those of `cc/`.
        own: Vec<&'static str>,
    },
    /// A congestion control cannot be loaded.
    #[error("congestion control: {0}")]
    Control(#[from] LoadError),
    /// Every name that was tried for a copy of a control is taken.
    #[error(
        "no free name in the kernel for a copy of `{control}`; unload some: fairwind cc list, \
         fairwind cc unload"
    )]
    NoFreeName {
        /// The control.
        control: &'static str,
    },
    /// The programs could not be started.
    #[error("{0}")]
    Program(String),
}

impl LabError {
    /// A system call that failed.
    pub(crate) fn system(action: impl Into<String>, error: impl Into<io::Error>) -> LabError {
        LabError::System {
            action: action.into(),
            source: error.into(),
        }
    }
}
