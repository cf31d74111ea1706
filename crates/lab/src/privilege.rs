//! Asks for what the lab needs before it is used.

use std::fs::OpenOptions;

use fairwind_kernel::{Capabilities, NET_ADMIN, SYS_ADMIN};

use crate::LabError;

/// Says what this process lacks for the lab, if anything.
///
/// # Errors
/// The capabilities that are missing, or that there is no `/dev/net/tun`.
pub fn check() -> Result<(), LabError> {
    let capabilities = Capabilities::of_this_process()
        .map_err(|error| LabError::system("reading /proc/self/status", error))?;
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
