//! Asks for what the lab needs before it is used.

use std::fs::{self, OpenOptions};

use crate::LabError;

/// Capabilities by their bit in `/proc/self/status`; see capability.h of Linux.
const NEEDED: [(u32, &str); 2] = [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN")];

/// Says what this process lacks for the lab, if anything.
///
/// # Errors
/// The capabilities that are missing, or that there is no `/dev/net/tun`.
pub fn check() -> Result<(), LabError> {
    let status = fs::read_to_string("/proc/self/status")
        .map_err(|error| LabError::system("reading /proc/self/status", error))?;
    let missing = missing(effective(&status));
    if !missing.is_empty() {
        return Err(LabError::NotPermitted { missing });
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .map(drop)
        .map_err(LabError::NoTun)
}

/// The effective capabilities; none if the text does not tell.
fn effective(status: &str) -> u64 {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .map(str::trim);
    mask.and_then(|mask| u64::from_str_radix(mask, 16).ok())
        .unwrap_or(0)
}

fn missing(effective: u64) -> Vec<&'static str> {
    let lacks = |bit: u32| effective & (1 << bit) == 0;
    NEEDED
        .iter()
        .filter(|(bit, _)| lacks(*bit))
        .map(|(_, name)| *name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let all = effective("Name:\tx\nCapEff:\t000001ffffffffff\n");
        assert_eq!(missing(all), Vec::<&str>::new());
        let net_admin = effective("CapEff:\t0000000000001000\n");
        assert_eq!(missing(net_admin), ["CAP_SYS_ADMIN"]);
        assert_eq!(missing(effective("")), ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]);
    }

    #[test]
    fn the_message_names_the_capability_and_the_way_without() {
        let error = LabError::NotPermitted {
            missing: vec!["CAP_SYS_ADMIN"],
        };
        assert_eq!(
            error.to_string(),
            "the lab makes network namespaces and TUN devices, for which CAP_SYS_ADMIN is missing: \
             run it as root; `fairwind sim run` needs no privileges"
        );
    }
}
