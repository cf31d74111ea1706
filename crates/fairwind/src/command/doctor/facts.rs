//! Facts about this host.

use std::fs;
use std::path::Path;

use fairwind_agent::direct;
use fairwind_kernel::{
    BPF, Capabilities, Capability, NET_ADMIN, NET_BIND_SERVICE, NET_RAW, PERFMON, SYS_ADMIN,
    has_btf, mount_points, mounted, release, sysctl, sysctl_numbers,
};
use fairwind_lab::privilege;
use fairwind_trace::kernel::{Options, Tracer, check_requirements};

/// A setting of TCP, `net.ipv4.SETTING`, that is to be on, and what it costs if it is off.
pub(crate) struct Switch {
    pub what: &'static str,
    pub setting: &'static str,
    pub cost: &'static str,
}

/// Window scaling and timestamps (RFC 7323, sections 2 and 3), selective acknowledgements (RFC 2018), and the
/// kernel's own sizing of buffers.
pub(crate) const SWITCHES: [Switch; 4] = [
    Switch {
        what: "window scaling",
        setting: "tcp_window_scaling",
        cost: "no window above 64 KiB",
    },
    Switch {
        what: "timestamps",
        setting: "tcp_timestamps",
        cost: "old segments may pass for new ones above 1 Gbit/s",
    },
    Switch {
        what: "SACK",
        setting: "tcp_sack",
        cost: "one loss is repaired a round trip",
    },
    Switch {
        what: "autotuning",
        setting: "tcp_moderate_rcvbuf",
        cost: "receive buffers stay as they begin",
    },
];

/// Where the BPF file system is mounted by convention.
pub(crate) const BPF_FILE_SYSTEM: &str = "/sys/fs/bpf";

/// The capabilities that some part of fairwind needs.
const NEEDED_CAPABILITIES: [Capability; 6] = [
    NET_BIND_SERVICE,
    NET_ADMIN,
    NET_RAW,
    SYS_ADMIN,
    PERFMON,
    BPF,
];

/// All that the checks need. What the kernel does not report is assumed to be the default.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// `uname -r`
    pub release: String,
    /// Whether the kernel describes its own types.
    pub btf: bool,
    /// Names of the capabilities that this process lacks, of those that fairwind needs.
    pub lacking: Vec<&'static str>,
    /// Whether `/dev/net/tun` exists.
    pub tun: bool,
    /// Why a program cannot be run in a host of the lab, although the lab's requirements are met.
    pub lab_refused: Option<String>,
    /// The trial of the tracer, if its requirements are met.
    pub trace_trial: Option<TraceTrial>,
    /// Whether the BPF file system is mounted at [`BPF_FILE_SYSTEM`].
    pub bpf_file_system: bool,
    /// Whether cgroups of version 2 are mounted.
    pub cgroup: bool,
    /// Why the sockets of other processes of this user are out of reach.
    pub unreachable: Option<String>,
    /// Congestion controls in the kernel.
    pub available: Vec<String>,
    /// Those that unprivileged programs may use.
    pub allowed: Vec<String>,
    /// The last numbers of `net.ipv4.tcp_rmem` and `tcp_wmem`.
    pub adapted: Sides,
    /// `net.core.rmem_max` and `wmem_max`.
    pub settable: Sides,
    /// The settings of [`SWITCHES`] that the kernel reports as off.
    pub off: Vec<&'static str>,
    /// Whether the kernel has TLS, loaded by now.
    pub tls: bool,
    /// `net.ipv4.ip_unprivileged_port_start`
    pub first_port: u64,
    /// Whether one of the groups of this process is in `net.ipv4.ping_group_range`.
    pub ping: bool,
    /// Open files that this process may have if it raises its limit.
    pub files: u64,
}

/// What a trial of the tracer showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TraceTrial {
    /// It works.
    Works,
    /// It works, but each sample goes over all connections, traced or not.
    VisitsAll,
    /// The kernel refuses it.
    Refused(String),
}

/// Bytes of receive and send buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sides {
    pub receive: u64,
    pub send: u64,
}

impl Facts {
    /// Gathers the facts of this host, for this process.
    pub(crate) fn gather() -> Self {
        Self {
            release: release(),
            btf: has_btf(),
            lacking: lacking(),
            tun: Path::new("/dev/net/tun").exists(),
            lab_refused: lab_refused(),
            trace_trial: trace_trial(),
            bpf_file_system: mount_points("bpf").contains(&BPF_FILE_SYSTEM.into()),
            cgroup: mounted("cgroup2").is_some(),
            unreachable: direct::check().err().map(|error| error.to_string()),
            available: words("net.ipv4.tcp_available_congestion_control"),
            allowed: words("net.ipv4.tcp_allowed_congestion_control"),
            adapted: Sides {
                receive: last("net.ipv4.tcp_rmem").unwrap_or(6 << 20),
                send: last("net.ipv4.tcp_wmem").unwrap_or(4 << 20),
            },
            settable: Sides {
                receive: last("net.core.rmem_max").unwrap_or(212_992),
                send: last("net.core.wmem_max").unwrap_or(212_992),
            },
            off: off(),
            tls: words("net.ipv4.tcp_available_ulp").contains(&"tls".to_owned()),
            first_port: last("net.ipv4.ip_unprivileged_port_start").unwrap_or(1024),
            ping: may_ping(),
            files: rustix::process::getrlimit(rustix::process::Resource::Nofile)
                .maximum
                .unwrap_or(u64::MAX),
        }
    }

    /// Whether this process has the capability.
    pub(crate) fn has(&self, capability: Capability) -> bool {
        !self.lacking.contains(&capability.name)
    }
}

fn lacking() -> Vec<&'static str> {
    match Capabilities::of_this_process() {
        Ok(capabilities) => capabilities.missing(&NEEDED_CAPABILITIES),
        Err(_) => NEEDED_CAPABILITIES
            .iter()
            .map(|capability| capability.name)
            .collect(),
    }
}

fn lab_refused() -> Option<String> {
    privilege::check().ok()?;
    privilege::trial().err().map(|error| error.to_string())
}

fn trace_trial() -> Option<TraceTrial> {
    check_requirements().ok()?;
    let options = Options {
        ring_bytes: 1 << 16,
        ..Options::default()
    };
    Some(match Tracer::attach(&options) {
        Ok(tracer) if tracer.visits_all() => TraceTrial::VisitsAll,
        Ok(_) => TraceTrial::Works,
        Err(error) => TraceTrial::Refused(first_line(&error.to_string())),
    })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn words(setting: &str) -> Vec<String> {
    let text = sysctl(setting).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn last(setting: &str) -> Option<u64> {
    sysctl_numbers(setting)?.last().copied()
}

fn off() -> Vec<&'static str> {
    let settings = SWITCHES.map(|switch| switch.setting).into_iter();
    let is_off = |setting: &&str| last(&format!("net.ipv4.{setting}")) == Some(0);
    settings.filter(is_off).collect()
}

fn may_ping() -> bool {
    let range = sysctl_numbers("net.ipv4.ping_group_range").unwrap_or_default();
    let [first, end] = range[..] else {
        return false;
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    groups(&status).any(|group| (first..=end).contains(&group))
}

/// The effective and the supplementary groups, from the text of `/proc/PID/status`.
fn groups(status: &str) -> impl Iterator<Item = u64> {
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let effective = line("Gid:").and_then(|ids| ids.split_whitespace().nth(1));
    let others = line("Groups:").unwrap_or_default().split_whitespace();
    effective
        .into_iter()
        .chain(others)
        .filter_map(|id| id.parse().ok())
}

#[cfg(test)]
impl Facts {
    /// A host that can do everything.
    pub(crate) fn fit() -> Self {
        let much = Sides {
            receive: 64 << 20,
            send: 64 << 20,
        };
        Self {
            release: "6.18.0".into(),
            btf: true,
            lacking: Vec::new(),
            tun: true,
            lab_refused: None,
            trace_trial: Some(TraceTrial::Works),
            bpf_file_system: true,
            cgroup: true,
            unreachable: None,
            available: ["reno", "cubic", "fw_nocc"].map(String::from).into(),
            allowed: ["reno"].map(String::from).into(),
            adapted: much,
            settable: much,
            off: Vec::new(),
            tls: true,
            first_port: 1024,
            ping: true,
            files: 524_288,
        }
    }

    /// A host that can do next to nothing.
    pub(crate) fn unfit() -> Self {
        let little = Sides {
            receive: 212_992,
            send: 212_992,
        };
        Self {
            release: "5.4.0".into(),
            btf: false,
            lacking: NEEDED_CAPABILITIES.map(|capability| capability.name).into(),
            tun: false,
            lab_refused: None,
            trace_trial: None,
            bpf_file_system: false,
            cgroup: false,
            unreachable: Some("Linux 5.6 or newer is required".into()),
            available: vec!["cubic".into()],
            allowed: vec!["cubic".into()],
            adapted: little,
            settable: little,
            off: SWITCHES.map(|switch| switch.setting).into(),
            tls: false,
            first_port: 1024,
            ping: false,
            files: 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_the_effective_and_the_supplementary_ones() {
        let status = "Name:\tx\nGid:\t1000\t1001\t1000\t1000\nGroups:\t27 100 \n";
        assert_eq!(groups(status).collect::<Vec<_>>(), [1001, 27, 100]);
        assert_eq!(groups("Groups:\n").count(), 0);
    }
}
