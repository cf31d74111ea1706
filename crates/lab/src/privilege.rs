//! Checks for the privileges and devices that the lab needs.

use std::fs::OpenOptions;
use std::net::Ipv4Addr;
use std::thread;

use fairwind_kernel::{Capabilities, NET_ADMIN, SYS_ADMIN};

use crate::error::{During, LabError, joined};
use crate::host::process::{self, Program};
use crate::host::{Host, HostConfig};

/// Checks that this process can run the lab.
///
/// # Errors
/// Fails if `CAP_NET_ADMIN` or `CAP_SYS_ADMIN` is missing, or `/dev/net/tun` cannot be opened.
pub fn check() -> Result<(), LabError> {
    let capabilities = Capabilities::of_this_process().during("reading the capabilities")?;
    let missing = capabilities.missing(&[NET_ADMIN, SYS_ADMIN]);
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

/// Runs `true` in a host, with everything that programs of the lab get: this shows what [`check`] cannot see,
/// such as the rules of a container. Takes some milliseconds.
///
/// # Errors
/// Fails like [`check`], or if the kernel refuses the host or the program.
pub fn trial() -> Result<(), LabError> {
    check()?;
    let trial = || {
        let host = Host::create(HostConfig::new(Ipv4Addr::new(10, 0, 0, 1)))?;
        let command = Program {
            namespace: host.namespace().clone(),
            words: vec!["true".into()],
            environment: Vec::new(),
            output: None,
        };
        match process::run(command, Vec::new())? {
            0 => Ok(()),
            code => Err(LabError::Failed(format!("`true` ended with {code}"))),
        }
    };
    // `process::run` leaves its thread unfit to start threads.
    joined(thread::spawn(trial).join())
}

#[cfg(test)]
mod tests {
    use super::*;

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
