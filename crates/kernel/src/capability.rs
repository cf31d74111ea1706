//! The effective capabilities of this process.

use std::io;

use rustix::thread::{CapabilitySet, capabilities};

/// A capability of Linux (`linux/capability.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The name in capabilities(7).
    pub name: &'static str,
    bit: CapabilitySet,
}

const fn capability(name: &'static str, bit: CapabilitySet) -> Capability {
    Capability { name, bit }
}

/// Binding to ports below `net.ipv4.ip_unprivileged_port_start`.
pub const NET_BIND_SERVICE: Capability =
    capability("CAP_NET_BIND_SERVICE", CapabilitySet::NET_BIND_SERVICE);
/// Configuring networks, devices and routes; networking eBPF programs.
pub const NET_ADMIN: Capability = capability("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN);
/// Raw packets, such as ICMP echo.
pub const NET_RAW: Capability = capability("CAP_NET_RAW", CapabilitySet::NET_RAW);
/// Namespaces, mounts and much more.
pub const SYS_ADMIN: Capability = capability("CAP_SYS_ADMIN", CapabilitySet::SYS_ADMIN);
/// eBPF programs at tracepoints.
pub const PERFMON: Capability = capability("CAP_PERFMON", CapabilitySet::PERFMON);
/// eBPF maps and programs.
pub const BPF: Capability = capability("CAP_BPF", CapabilitySet::BPF);

/// A set of effective capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(CapabilitySet);

impl Capabilities {
    /// The effective capabilities of this thread.
    ///
    /// # Errors
    ///
    /// If a sandbox forbids to ask.
    pub fn of_this_process() -> io::Result<Capabilities> {
        Ok(Capabilities(capabilities(None)?.effective))
    }

    /// The names of the capabilities in `needed` that are missing.
    pub fn missing(self, needed: &[Capability]) -> Vec<&'static str> {
        let missing = needed.iter().filter(|one| !self.0.contains(one.bit));
        missing.map(|capability| capability.name).collect()
    }

    /// The names of the capabilities missing for eBPF programs that observe or extend the network stack.
    /// [`SYS_ADMIN`] implies all of them.
    pub fn missing_for_bpf(self) -> Vec<&'static str> {
        if self.missing(&[SYS_ADMIN]).is_empty() {
            return Vec::new();
        }
        self.missing(&[NET_ADMIN, PERFMON, BPF])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Capabilities = Capabilities(CapabilitySet::all());
    const NONE: Capabilities = Capabilities(CapabilitySet::empty());

    #[test]
    fn what_is_missing_is_named() {
        let needed = [NET_ADMIN, SYS_ADMIN];
        assert!(ALL.missing(&needed).is_empty());
        let net_admin = Capabilities(CapabilitySet::from_bits_retain(0x1000));
        assert_eq!(net_admin.missing(&needed), ["CAP_SYS_ADMIN"]);
        let names = ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"];
        assert_eq!(NONE.missing(&needed), names);
    }

    #[test]
    fn ebpf_takes_three_capabilities_or_one_for_all() {
        assert_eq!(
            NONE.missing_for_bpf(),
            ["CAP_NET_ADMIN", "CAP_PERFMON", "CAP_BPF"]
        );
        let some = Capabilities(CapabilitySet::from_bits_retain(1 << 12 | 1 << 39));
        assert_eq!(some.missing_for_bpf(), ["CAP_PERFMON"]);
        let admin = Capabilities(CapabilitySet::from_bits_retain(1 << 21));
        assert!(admin.missing_for_bpf().is_empty());
        assert!(ALL.missing_for_bpf().is_empty());
    }

    #[test]
    fn they_are_those_that_the_kernel_shows() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let shown = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let shown = u64::from_str_radix(shown.unwrap().trim(), 16).unwrap();
        let own = Capabilities::of_this_process().unwrap();
        assert_eq!(own.0.bits(), shown);
    }
}
