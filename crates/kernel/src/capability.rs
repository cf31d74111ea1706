//! The effective capabilities of this process.

use std::{fs, io};

/// A capability of Linux (`linux/capability.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The name in capabilities(7).
    pub name: &'static str,
    bit: u32,
}

/// Binding to ports below `net.ipv4.ip_unprivileged_port_start`.
pub const NET_BIND_SERVICE: Capability = Capability {
    name: "CAP_NET_BIND_SERVICE",
    bit: 10,
};
/// Configuring networks, devices and routes; networking eBPF programs.
pub const NET_ADMIN: Capability = Capability {
    name: "CAP_NET_ADMIN",
    bit: 12,
};
/// Raw packets, such as ICMP echo.
pub const NET_RAW: Capability = Capability {
    name: "CAP_NET_RAW",
    bit: 13,
};
/// Namespaces, mounts and much more.
pub const SYS_ADMIN: Capability = Capability {
    name: "CAP_SYS_ADMIN",
    bit: 21,
};
/// eBPF programs at tracepoints.
pub const PERFMON: Capability = Capability {
    name: "CAP_PERFMON",
    bit: 38,
};
/// eBPF maps and programs.
pub const BPF: Capability = Capability {
    name: "CAP_BPF",
    bit: 39,
};

/// A set of effective capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// The effective capabilities of this process.
    ///
    /// # Errors
    ///
    /// If `/proc/self/status` cannot be read.
    pub fn of_this_process() -> io::Result<Capabilities> {
        fs::read_to_string("/proc/self/status").map(|status| Capabilities::parse(&status))
    }

    /// Parses the text of `/proc/PID/status`; the empty set if it has no `CapEff` line.
    fn parse(status: &str) -> Capabilities {
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        Capabilities(mask.unwrap_or(0))
    }

    /// The names of the capabilities in `needed` that are missing.
    pub fn missing(self, needed: &[Capability]) -> Vec<&'static str> {
        let lacks = |capability: &&Capability| self.0 & (1 << capability.bit) == 0;
        let missing = needed.iter().filter(lacks);
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

    const ALL: &str = "Name:\tx\nCapEff:\t000001ffffffffff\n";
    const NONE: &str = "CapEff:\t0000000000000000\n";

    #[test]
    fn what_is_missing_is_named() {
        let needed = [NET_ADMIN, SYS_ADMIN];
        assert!(Capabilities::parse(ALL).missing(&needed).is_empty());
        let net_admin = Capabilities::parse("CapEff:\t0000000000001000\n");
        assert_eq!(net_admin.missing(&needed), ["CAP_SYS_ADMIN"]);
        let names = ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"];
        assert_eq!(Capabilities::parse("").missing(&needed), names);
    }

    #[test]
    fn ebpf_takes_three_capabilities_or_one_for_all() {
        assert_eq!(
            Capabilities::parse(NONE).missing_for_bpf(),
            ["CAP_NET_ADMIN", "CAP_PERFMON", "CAP_BPF"]
        );
        // Bits 12 and 39.
        let some = Capabilities::parse("CapEff:\t0000008000001000\n");
        assert_eq!(some.missing_for_bpf(), ["CAP_PERFMON"]);
        // Bit 21.
        let admin = Capabilities::parse("CapEff:\t0000000000200000\n");
        assert!(admin.missing_for_bpf().is_empty());
        assert!(Capabilities::parse(ALL).missing_for_bpf().is_empty());
    }
}
