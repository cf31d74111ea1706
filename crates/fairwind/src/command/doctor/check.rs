//! The checks, each a function of the facts.

use fairwind_kernel::{
    BPF, Capability, NET_ADMIN, NET_BIND_SERVICE, NET_RAW, PERFMON, SYS_ADMIN, version,
};
use serde_json::{Value, json};

use super::facts::{BPF_FILE_SYSTEM, Facts, Switch, TraceTrial};

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// All that is needed is there.
    Fine,
    /// It works, with limits.
    Limited,
    /// It does not work.
    Missing,
}

impl State {
    /// Its name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Limited => "less",
            Self::Missing => "no",
        }
    }
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What was checked.
    pub what: &'static str,
    /// Whether it is enough.
    pub state: State,
    /// What was found.
    pub found: String,
    /// The command that fixes it; none if nothing needs fixing.
    pub fix: Option<String>,
}

impl Finding {
    /// Nothing needs fixing.
    pub(crate) fn fine(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            state: State::Fine,
            found: found.into(),
            fix: None,
        }
    }

    /// This if it is so, or else what is found instead, and the command that fixes it.
    pub(crate) fn if_so(
        self,
        is_so: bool,
        otherwise: State,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        if is_so {
            return self;
        }
        Self {
            what: self.what,
            state: otherwise,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }

    /// A line, and one below it with the command.
    pub(super) fn text(&self) -> String {
        let (state, what, found) = (self.state.word(), self.what, &self.found);
        let fix = self.fix.as_ref().map(|fix| format!("          {fix}\n"));
        format!(
            "  {state:<5} {what:<15} {found}\n{}",
            fix.unwrap_or_default()
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "check": self.what, "state": self.state.name(), "found": self.found, "fix": self.fix,
        })
    }
}

/// Checks that the kernel is at least version `least`.
pub(crate) fn kernel(facts: &Facts, least: (u32, u32)) -> Finding {
    let (release, (major, minor)) = (&facts.release, least);
    Finding::fine("kernel", format!("Linux {release}")).if_so(
        version(release).is_none_or(|version| version >= least),
        State::Missing,
        format!("Linux {release}, {major}.{minor} or newer is required"),
        "apt install linux-image-amd64",
    )
}

/// Checks for the kernel's description of its own types.
pub(crate) fn btf(facts: &Facts) -> Finding {
    Finding::fine("BTF", "/sys/kernel/btf/vmlinux").if_so(
        facts.btf,
        State::Missing,
        "no /sys/kernel/btf/vmlinux: built without CONFIG_DEBUG_INFO_BTF",
        "apt install linux-image-amd64",
    )
}

/// Checks that eBPF programs may be loaded. `CAP_SYS_ADMIN` includes the capabilities for that.
pub(crate) fn ebpf_capabilities(facts: &Facts) -> Finding {
    if facts.has(SYS_ADMIN) {
        return capabilities(facts, &[SYS_ADMIN]);
    }
    capabilities(facts, &[NET_ADMIN, PERFMON, BPF])
}

/// Checks that sockets of a command can be taken from it, which needs no right.
pub(crate) fn sockets(facts: &Facts) -> Finding {
    Finding::fine("sockets", "in reach of `fairwind run` without rights").if_so(
        facts.unreachable.is_none(),
        State::Missing,
        facts.unreachable.clone().unwrap_or_default(),
        "sysctl -w kernel.yama.ptrace_scope=1",
    )
}

/// Checks that namespaces and devices may be created.
pub(crate) fn lab_capabilities(facts: &Facts) -> Finding {
    capabilities(facts, &[NET_ADMIN, SYS_ADMIN])
}

fn capabilities(facts: &Facts, needed: &[Capability]) -> Finding {
    let names = |capabilities: Vec<&Capability>| {
        let names: Vec<&str> = capabilities.iter().map(|needed| needed.name).collect();
        names.join(", ")
    };
    let (has, lacks) = needed.iter().partition(|needed| facts.has(**needed));
    let lacks: Vec<&Capability> = lacks;
    Finding::fine("capabilities", names(has)).if_so(
        lacks.is_empty(),
        State::Missing,
        format!("{} lacking", names(lacks)),
        "sudo -s",
    )
}

/// Checks that TUN devices can be created.
pub(crate) fn tun(facts: &Facts) -> Finding {
    let (lacking, fix) = ("no /dev/net/tun", "modprobe tun");
    Finding::fine("TUN", "/dev/net/tun").if_so(facts.tun, State::Missing, lacking, fix)
}

/// Checks that a program runs in a host of the lab.
pub(crate) fn lab_trial(facts: &Facts) -> Finding {
    let refused = facts.lab_refused.as_ref();
    Finding::fine("trial run", "works").if_so(
        refused.is_none(),
        State::Missing,
        refused.cloned().unwrap_or_default(),
        "fairwind sim run",
    )
}

/// Checks that the kernel takes the tracer, if its requirements are met.
pub(crate) fn trace_trial(facts: &Facts) -> Finding {
    let works = Finding::fine("trial run", "works");
    let (state, found) = match &facts.trace_trial {
        None | Some(TraceTrial::Works) => return works,
        Some(TraceTrial::VisitsAll) => (
            State::Limited,
            "each sample goes over all connections: no iterator over socket storage",
        ),
        Some(TraceTrial::Refused(reason)) => (State::Missing, reason.as_str()),
    };
    works.if_so(false, state, found, "apt install linux-image-amd64")
}

/// Checks that congestion controls can be pinned.
pub(crate) fn bpf_file_system(facts: &Facts) -> Finding {
    Finding::fine("BPF file system", BPF_FILE_SYSTEM).if_so(
        facts.bpf_file_system,
        State::Missing,
        format!("not mounted at {BPF_FILE_SYSTEM}"),
        format!("mount -t bpf bpf {BPF_FILE_SYSTEM}"),
    )
}

/// Checks that what connections had before the agent can outlive it.
pub(crate) fn agent_memory(facts: &Facts) -> Finding {
    Finding::fine("BPF file system", BPF_FILE_SYSTEM).if_so(
        facts.bpf_file_system,
        State::Limited,
        "not mounted: a killed agent's changes cannot be undone",
        format!("mount -t bpf bpf {BPF_FILE_SYSTEM}"),
    )
}

/// Checks that traces can be limited to the programs of a cgroup.
pub(crate) fn cgroup(facts: &Facts) -> Finding {
    cgroups(facts, State::Limited)
}

fn cgroups(facts: &Facts, without: State) -> Finding {
    Finding::fine("cgroup", "version 2").if_so(
        facts.cgroup,
        without,
        "version 2 is not mounted: nothing can be about one cgroup alone",
        "mount -t cgroup2 none /sys/fs/cgroup",
    )
}

/// Checks that a program can be in a cgroup of its own.
pub(crate) fn control_group(facts: &Facts) -> Finding {
    cgroups(facts, State::Missing)
}

/// Lists fairwind's congestion controls in the kernel. Having none is no shortcoming.
pub(crate) fn loaded(facts: &Facts) -> Finding {
    let names = facts.available.iter().map(String::as_str);
    let ours: Vec<&str> = names.filter(|name| name.starts_with("fw_")).collect();
    let none = ["none yet"];
    Finding::fine(
        "loaded",
        if ours.is_empty() { &none } else { &ours[..] }.join(", "),
    )
}

const NOCC: &str = "fw_nocc";

/// Checks that nocc is in the kernel, or that this process may load it.
pub(crate) fn nocc_loaded(facts: &Facts) -> Finding {
    let (otherwise, found) = match ebpf_capabilities(facts).state {
        State::Missing => (State::Missing, "not loaded"),
        _ => (State::Limited, "not loaded yet"),
    };
    let is_there = facts.available.iter().any(|name| name == NOCC);
    let load = "fairwind cc load nocc --allow-nocc";
    Finding::fine(NOCC, "loaded").if_so(is_there, otherwise, found, load)
}

/// Checks that this process may use nocc.
pub(crate) fn nocc_allowed(facts: &Facts) -> Finding {
    let what = "may be chosen";
    let setting = "net.ipv4.tcp_allowed_congestion_control";
    if facts.has(NET_ADMIN) {
        return Finding::fine(what, "CAP_NET_ADMIN");
    }
    Finding::fine(what, setting).if_so(
        facts.allowed.iter().any(|name| name == NOCC),
        State::Missing,
        format!("neither CAP_NET_ADMIN nor in {setting}"),
        format!("sysctl -w {setting}='{} {NOCC}'", facts.allowed.join(" ")),
    )
}

/// Checks that the default port of FTP can be opened.
pub(crate) fn port_21(facts: &Facts) -> Finding {
    let first = facts.first_port;
    Finding::fine("port 21", "may be opened").if_so(
        facts.has(NET_BIND_SERVICE) || first <= 21,
        State::Limited,
        format!("ports below {first} are for CAP_NET_BIND_SERVICE"),
        "sysctl -w net.ipv4.ip_unprivileged_port_start=21",
    )
}

/// Checks that the kernel can encrypt what is sent under TLS.
pub(crate) fn kernel_tls(facts: &Facts) -> Finding {
    Finding::fine("kernel TLS", "encrypts downloads").if_so(
        facts.tls,
        State::Limited,
        "not loaded: the server encrypts downloads itself",
        "modprobe tls",
    )
}

/// File descriptors of a thousand sessions with a transfer each.
const FILES: u64 = 4096;

/// Checks that there are file descriptors for a thousand sessions.
pub(crate) fn files(facts: &Facts) -> Finding {
    let files = facts.files;
    Finding::fine("open files", files.to_string()).if_so(
        files >= FILES,
        State::Limited,
        format!("{files}, a thousand sessions take {FILES}"),
        format!("ulimit -Hn {FILES}"),
    )
}

/// Checks that ICMP echo requests may be sent.
pub(crate) fn echo(facts: &Facts) -> Finding {
    let group = "net.ipv4.ping_group_range";
    Finding::fine("ICMP echo", if facts.ping { group } else { "CAP_NET_RAW" }).if_so(
        facts.ping || facts.has(NET_RAW),
        State::Limited,
        "not allowed: no round-trip times but those of transfers",
        format!("sysctl -w {group}='0 2147483647'"),
    )
}

impl Switch {
    /// Checks that the setting is on.
    pub(crate) fn check(&self, facts: &Facts) -> Finding {
        Finding::fine(self.what, "on").if_so(
            !facts.off.contains(&self.setting),
            State::Limited,
            format!("off: {}", self.cost),
            format!("sysctl -w net.ipv4.{}=1", self.setting),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_is_missing_what_came_later() {
        let facts = Facts {
            release: "6.1.0-56-amd64".into(),
            ..Facts::fit()
        };
        assert_eq!(kernel(&facts, (5, 18)).state, State::Fine);
        let finding = kernel(&facts, (6, 4));
        assert_eq!(finding.state, State::Missing);
        assert_eq!(
            finding.found,
            "Linux 6.1.0-56-amd64, 6.4 or newer is required"
        );
    }

    #[test]
    fn capabilities_that_lack_are_named() {
        let facts = Facts {
            lacking: vec!["CAP_SYS_ADMIN", "CAP_PERFMON"],
            ..Facts::fit()
        };
        assert_eq!(ebpf_capabilities(&facts).found, "CAP_PERFMON lacking");
        assert_eq!(lab_capabilities(&facts).found, "CAP_SYS_ADMIN lacking");
        let admin = Facts {
            lacking: vec!["CAP_PERFMON", "CAP_BPF"],
            ..Facts::fit()
        };
        assert_eq!(ebpf_capabilities(&admin).state, State::Fine);
    }

    #[test]
    fn a_tracer_that_the_kernel_takes_only_in_part_is_told() {
        let of = |trial| {
            trace_trial(&Facts {
                trace_trial: Some(trial),
                ..Facts::fit()
            })
        };
        assert_eq!(of(TraceTrial::Works).state, State::Fine);
        assert_eq!(of(TraceTrial::VisitsAll).state, State::Limited);
        let refused = of(TraceTrial::Refused("Operation not permitted".into()));
        assert_eq!(refused.state, State::Missing);
        assert_eq!(refused.found, "Operation not permitted");
    }

    #[test]
    fn nocc_can_be_taken_with_a_capability_or_by_the_list() {
        let mut facts = Facts {
            lacking: vec!["CAP_NET_ADMIN"],
            allowed: vec!["reno".into(), "cubic".into()],
            ..Facts::fit()
        };
        assert_eq!(
            nocc_allowed(&facts).fix.as_deref(),
            Some("sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic fw_nocc'")
        );
        facts.allowed.push("fw_nocc".into());
        assert_eq!(nocc_allowed(&facts).state, State::Fine);
    }

    #[test]
    fn ports_below_1024_can_be_opened_to_all() {
        let mut facts = Facts {
            lacking: vec!["CAP_NET_BIND_SERVICE"],
            ..Facts::fit()
        };
        assert_eq!(port_21(&facts).state, State::Limited);
        facts.first_port = 0;
        assert_eq!(port_21(&facts).state, State::Fine);
    }

    #[test]
    fn echo_takes_a_group_or_a_capability() {
        let mut facts = Facts {
            ping: false,
            ..Facts::fit()
        };
        assert_eq!(echo(&facts).found, "CAP_NET_RAW");
        facts.lacking = vec!["CAP_NET_RAW"];
        assert_eq!(echo(&facts).state, State::Limited);
    }

    #[test]
    fn controls_that_are_loaded_are_named() {
        let facts = Facts {
            available: ["cubic", "fw_sfsack", "fw_nocc"].map(String::from).into(),
            ..Facts::fit()
        };
        assert_eq!(loaded(&facts).found, "fw_sfsack, fw_nocc");
    }
}
