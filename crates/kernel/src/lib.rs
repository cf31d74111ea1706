//! Properties of the running kernel, queried before anything relies on them: its release, clocks and
//! jiffies, BTF, sysctls and mounts, the capabilities of this process, and the state of its connections.
//!
//! System calls go through rustix. Those that it lacks, or has as unsafe functions only, and that more
//! than one crate needs, are here.

use std::ffi::c_int;
use std::io;

mod bpf_file_system;
mod capability;
mod clock;
mod descriptors;
mod locked_file;
mod namespace;
mod network_namespaces;
mod private_socket;
mod process;
mod processes;
mod release;
mod signal;
mod sysctl;
mod tcp_info;

pub mod netlink;
pub mod seccomp;
pub mod sock_diag;
pub mod sockopt;
pub mod tls;

pub use bpf_file_system::{NoBpfFileSystem, bpf_file_system};
pub use capability::{
    BPF, Capabilities, Capability, NET_ADMIN, NET_BIND_SERVICE, NET_RAW, PERFMON, SYS_ADMIN,
};
pub use clock::{hz, monotonic_ns, process_cpu_ns, thread_cpu_ns, unix_ns};
pub use descriptors::{descriptors_left, is_shortage, raise_descriptor_limit};
pub use locked_file::LockedFile;
pub use namespace::{NamespaceType, enter_network, unshare};
pub use network_namespaces::NetworkNamespaces;
pub use private_socket::listen_privately;
pub use process::Process;
pub use processes::{descendants, open_sockets, processes};
pub use release::{release, version};
pub use signal::{BlockedSignals, Received, SignalFd, SignalSet, await_children, exit_code};
pub use sysctl::{mount_points, mounted, set_sysctl, sysctl, sysctl_numbers};
pub use tcp_info::TcpInfo;

/// The result of a system call by libc, of which -1 is an error.
///
/// # Errors
///
/// The kernel's, from `errno`.
pub fn checked(result: c_int) -> io::Result<c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(result),
    }
}

/// Whether the kernel has BTF, a description of its types (`CONFIG_DEBUG_INFO_BTF`), which eBPF
/// programs need to find the fields of its structures.
pub fn has_btf() -> bool {
    std::fs::exists("/sys/kernel/btf/vmlinux").unwrap_or(false)
}
