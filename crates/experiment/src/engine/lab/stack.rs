//! Sysctls that make hosts behave like TCP of a certain time.
//!
//! The kernel can be configured to come near Linux 2.4, but not to equal it: see [`CLASSIC_2005`]
//! for what is set, and `docs/reference/lab.md` for what is not possible.

use fairwind_scenario::file::Stack;

/// Sysctls that make a present-day host behave like Linux 2.4.
const CLASSIC_2005: &[(&str, &str)] = &[
    // Losses are detected by three duplicate ACKs, not by time. Without effect since Linux 6.17,
    // which always uses RACK; without reordering the result is the same.
    ("net.ipv4.tcp_recovery", "0"),
    // No tail loss probes.
    ("net.ipv4.tcp_early_retrans", "0"),
    // No F-RTO.
    ("net.ipv4.tcp_frto", "0"),
    // No autotuning of receive buffers.
    ("net.ipv4.tcp_moderate_rcvbuf", "0"),
    // An ACK for every out-of-order segment.
    ("net.ipv4.tcp_comp_sack_nr", "0"),
    ("net.ipv4.tcp_autocorking", "0"),
    // Packets are sent one by one, not in pairs or more.
    ("net.ipv4.tcp_min_tso_segs", "1"),
    ("net.ipv4.tcp_tso_rtt_log", "0"),
];

/// `tcp_rmem[2]` of Linux 2.4 was 174,760 bytes, of which three quarters were window. The present
/// kernel begins with one half.
const RECEIVE_BUFFER_2005: u64 = 2 * 131_070;

/// Which connections of a host have explicit congestion notification (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ecn {
    /// None.
    Never,
    /// Those in which the other host asks for it.
    IfAsked,
    /// It asks for it itself.
    Asks,
}

/// The sysctls of a host with this stack.
pub(crate) fn sysctls(stack: Stack, ecn: Ecn) -> Vec<(String, String)> {
    let of_stack = match stack {
        Stack::Linux => &[],
        Stack::Classic2005 => CLASSIC_2005,
    };
    let tcp_ecn = match ecn {
        Ecn::Never => "0",
        Ecn::IfAsked => "2",
        Ecn::Asks => "1",
    };
    let mut sysctls = of_stack.to_vec();
    sysctls.push(("net.ipv4.tcp_ecn", tcp_ecn));
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    sysctls.into_iter().map(owned).collect()
}

/// `tcp_rmem` of a host with this stack, in an experiment with these values.
pub(crate) fn tcp_rmem(stack: Stack, [least, default, most]: [u64; 3]) -> [u64; 3] {
    match stack {
        Stack::Linux => [least, default, most],
        Stack::Classic2005 => [least, RECEIVE_BUFFER_2005, RECEIVE_BUFFER_2005.max(most)],
    }
}

/// Initial congestion window, packets; `None`: the kernel's.
pub(crate) fn initial_window(stack: Stack) -> Option<u32> {
    match stack {
        Stack::Linux => None,
        Stack::Classic2005 => Some(2),
    }
}

/// The stack, for results: the kernel's release, and the hosts configured as of 2005.
pub(crate) fn describe<'a>(release: &str, hosts: impl Iterator<Item = (&'a str, Stack)>) -> String {
    let (classic, modern): (Vec<_>, Vec<_>) =
        hosts.partition(|(_, stack)| *stack == Stack::Classic2005);
    let kernel = format!("Linux {release}");
    if classic.is_empty() {
        return kernel;
    }
    if modern.is_empty() {
        return format!("{kernel}, set as 2005");
    }
    let names: Vec<&str> = classic.iter().map(|(name, _)| *name).collect();
    format!("{kernel}, {} set as 2005", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_that_ran_is_told_with_the_hosts_it_was_set_on() {
        let told = |stacks: [Stack; 2]| describe("6.18.0", ["a", "b"].into_iter().zip(stacks));
        assert_eq!(told([Stack::Linux; 2]), "Linux 6.18.0");
        assert_eq!(told([Stack::Classic2005; 2]), "Linux 6.18.0, set as 2005");
        assert_eq!(
            told([Stack::Classic2005, Stack::Linux]),
            "Linux 6.18.0, a set as 2005"
        );
    }
}
