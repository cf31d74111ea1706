//! The tracer in the running kernel.
//!
//! Requirements: Linux 5.18 with BTF, tracepoints, ring buffers and iterators over sockets and
//! files; and root or the capabilities `CAP_BPF`, `CAP_PERFMON` and `CAP_NET_ADMIN`. [`TraceError`]
//! reports what is missing.

mod requirements;
mod sampling;
mod tracer;

pub use requirements::check as check_requirements;
pub use tracer::{Counts, Options, Tracer};

/// Why connections cannot be traced, and what would help.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The kernel has no description of its own types (BTF).
    #[error("the kernel has no BTF (/sys/kernel/btf/vmlinux): it needs CONFIG_DEBUG_INFO_BTF=y")]
    NoBtf,
    /// The kernel lacks something that the tracer attaches to.
    #[error("Linux {release} cannot trace connections: {}", missing.join("; "))]
    Missing {
        /// The running kernel, as `uname -r`.
        release: String,
        /// What it lacks, and the option that would provide it.
        missing: Vec<String>,
    },
    /// The process may not load eBPF.
    #[error("not permitted to load eBPF: run as root, or with {}", missing.join(", "))]
    NotPermitted {
        /// Capabilities that would permit it.
        missing: Vec<&'static str>,
    },
    /// The kernel refused the programs.
    #[error("the kernel refuses the tracer: {reason}\n{log}")]
    Refused {
        /// The error.
        reason: String,
        /// Messages of libbpf and the verifier.
        log: String,
    },
    /// A call to the kernel failed while the trace was running.
    #[error("the trace cannot go on: {0}")]
    Failed(#[source] libbpf_rs::Error),
    /// An iterator over sockets or files failed.
    #[error("the kernel does not list its connections: {0}")]
    Iterator(#[source] std::io::Error),
    /// The thread cannot go to another network namespace and back.
    #[error("the trace cannot visit a network namespace: {0}")]
    Namespace(#[source] std::io::Error),
    /// No thread could be started.
    #[error("no thread for the trace: {0}")]
    Thread(#[source] std::io::Error),
}
