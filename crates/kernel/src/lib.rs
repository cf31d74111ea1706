//! Facts of the running kernel, asked before anything is built on them: its release, its clocks and
//! the length of its jiffies, whether it describes its own types, its settings, and what this process may do.

mod capability;
mod clock;
mod release;
mod sysctl;

pub use capability::{
    BPF, Capabilities, Capability, NET_ADMIN, NET_BIND_SERVICE, NET_RAW, PERFMON, SYS_ADMIN,
};
pub use clock::{hz, monotonic_ns, unix_ns};
pub use release::{release, version};
pub use sysctl::{mounted, sysctl, sysctl_numbers};

/// Whether the kernel describes its own types (BTF, `CONFIG_DEBUG_INFO_BTF`), without which eBPF
/// programs do not find the fields of its structures.
pub fn has_btf() -> bool {
    std::fs::exists("/sys/kernel/btf/vmlinux").unwrap_or(false)
}
