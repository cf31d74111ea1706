//! The congestion control of a live connection.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use fairwind_cc::{kernel, native};
use fairwind_kernel::sysctl;
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_congestion;

const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

/// Why a congestion control could not be set, and the command that would fix that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is missing.
    pub reason: String,
    /// The command.
    pub fix: String,
}

/// Sets the congestion control of this name. It continues with the packets in flight.
pub(super) fn set(socket: impl AsFd, name: &str) -> Result<(), Refusal> {
    set_tcp_congestion(socket, name).map_err(|error| refusal(name, error))
}

/// The kernel's name of the congestion control that an advisor calls `name`: the same, or that with the
/// `fw_` of `fairwind cc load`.
pub(super) fn kernel_name(name: &str, available: &[String]) -> String {
    let ours = kernel::kernel_name(name);
    let has = |name: &str| available.iter().any(|other| other == name);
    let is_foreign = !has(&ours) && native::find(name).is_none();
    if has(name) || is_foreign {
        return name.to_owned();
    }
    ours
}

/// What the kernel's refusal of this congestion control means.
pub(crate) fn refusal(name: &str, error: Errno) -> Refusal {
    match error {
        Errno::NOENT => Refusal {
            reason: "the kernel has no control of this name".into(),
            fix: loading(name),
        },
        Errno::PERM => Refusal {
            reason: "this program may not take it (CAP_NET_ADMIN)".into(),
            fix: allowing(name, &sysctl(ALLOWED).unwrap_or_default()),
        },
        error => Refusal {
            reason: format!("the kernel refuses it: {error}"),
            fix: "fairwind doctor".into(),
        },
    }
}

/// The command that loads the congestion control into the kernel.
fn loading(name: &str) -> String {
    let own = kernel::own_name(name);
    match native::find(own) {
        Some(_) if kernel::is_nocc(own) => format!("fairwind cc load {own} --allow-nocc"),
        Some(_) => format!("fairwind cc load {own}"),
        None if name.starts_with("fw_") => "fairwind cc list".into(),
        None => format!("modprobe tcp_{name}"),
    }
}

/// The command that allows the congestion control to every user.
fn allowing(name: &str, allowed: &str) -> String {
    let mut names: BTreeSet<&str> = allowed.split_whitespace().collect();
    names.insert(name);
    let names: Vec<&str> = names.into_iter().collect();
    format!("sysctl -w {ALLOWED}='{}'", names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_kernels_or_those_that_fairwind_loads() {
        let available = ["reno", "cubic", "fw_nocc", "fw_cubic"].map(String::from);
        assert_eq!(kernel_name("cubic", &available), "cubic");
        assert_eq!(kernel_name("nocc", &available), "fw_nocc");
        assert_eq!(kernel_name("fw_nocc", &available), "fw_nocc");
        // Not loaded: the message has the name that it would have.
        assert_eq!(kernel_name("sfsack", &available), "fw_sfsack");
        assert_eq!(kernel_name("vegas", &available), "vegas");
    }

    #[test]
    fn a_refusal_names_the_command_that_loads_the_control() {
        let fix = |name| refusal(name, Errno::NOENT).fix;
        assert_eq!(fix("fw_nocc"), "fairwind cc load nocc --allow-nocc");
        assert_eq!(fix("fw_sfsack"), "fairwind cc load sfsack");
        assert_eq!(fix("vegas"), "modprobe tcp_vegas");
        assert_eq!(fix("fw_nocc_1a2b"), "fairwind cc list");
    }

    #[test]
    fn a_forbidden_control_is_mended_by_allowing_it_beside_the_others() {
        assert_eq!(
            allowing("fw_nocc", "reno bbr\n"),
            "sysctl -w net.ipv4.tcp_allowed_congestion_control='bbr fw_nocc reno'"
        );
    }
}
