//! The lab's errors, with remedies in their messages.

use std::io;
use std::thread;

use fairwind_cc::kernel::LoadError;
use fairwind_path::pipe::ConfigError;

/// Why the lab cannot do what was requested.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The process lacks the privileges to create namespaces and devices.
    #[error(
        "the lab makes network namespaces and TUN devices, for which {} {} missing: run it as root; \
         `fairwind sim run` needs no privileges",
        missing.join(" and "),
        if missing.len() == 1 { "is" } else { "are" }
    )]
    NotPermitted {
        /// The missing capabilities.
        missing: Vec<&'static str>,
    },
    /// `/dev/net/tun` cannot be opened.
    #[error(
        "/dev/net/tun: {0}; the lab needs a kernel with CONFIG_TUN (`modprobe tun`) and, in a \
         container, the device; `fairwind sim run` needs neither"
    )]
    NoTun(io::Error),
    /// A system call failed.
    #[error("{action}: {source}")]
    System {
        /// The attempted action.
        action: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The configuration of a pipe is invalid.
    #[error("{0}")]
    Path(#[from] ConfigError),
    /// A congestion control cannot be provided.
    #[error("congestion control: {0}")]
    Control(#[from] LoadError),
    /// The network is invalid, or a program or something else does not do what is required.
    #[error("{0}")]
    Failed(String),
}

/// What was attempted when a system call failed.
pub(crate) trait During<T> {
    /// Adds it to the error.
    fn during(self, action: impl Into<String>) -> Result<T, LabError>;
}

impl<T, E: Into<io::Error>> During<T> for Result<T, E> {
    fn during(self, action: impl Into<String>) -> Result<T, LabError> {
        self.map_err(|error| LabError::System {
            action: action.into(),
            source: error.into(),
        })
    }
}

/// What a thread returned; its panic goes on here.
pub(crate) fn joined<T>(result: thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
