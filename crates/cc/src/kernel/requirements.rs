//! What the kernel must have and the process may do, asked before it is used.

use std::ffi::CStr;
use std::{fs, mem};

use super::LoadError;

/// The first kernel with `struct_ops` links.
const FIRST_KERNEL: (u32, u32) = (6, 4);

/// Capabilities that loading takes, with their bits (`linux/capability.h`).
const CAPABILITIES: [(&str, u32); 3] =
    [("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];
/// Stands for all of them.
const CAP_SYS_ADMIN: u32 = 21;

/// Whether a control can be loaded here.
///
/// # Errors
///
/// The first thing that is missing.
pub fn check() -> Result<(), LoadError> {
    let release = release();
    if version(&release).is_some_and(|version| version < FIRST_KERNEL) {
        return Err(LoadError::KernelTooOld { release });
    }
    if !fs::exists("/sys/kernel/btf/vmlinux").unwrap_or(false) {
        return Err(LoadError::NoBtf);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = missing_capabilities(&status);
    if missing.is_empty() {
        Ok(())
    } else {
        Err(LoadError::NotPermitted { missing })
    }
}

/// Jiffies a second of the running kernel.
pub(super) fn hz() -> u32 {
    // The coarse clock advances once a jiffy, and its resolution says so.
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec that is written.
    let failed = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) };
    assert_eq!(failed, 0, "Linux has a coarse clock");
    hz_from_resolution(resolution.tv_nsec)
}

fn hz_from_resolution(nanoseconds: i64) -> u32 {
    ((1_000_000_000 + nanoseconds / 2) / nanoseconds) as u32
}

fn release() -> String {
    // SAFETY: an all-zero utsname is valid, and uname writes strings that end with a zero.
    unsafe {
        let mut name: libc::utsname = mem::zeroed();
        libc::uname(&mut name);
        CStr::from_ptr(name.release.as_ptr())
            .to_string_lossy()
            .into_owned()
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    if effective & (1 << CAP_SYS_ADMIN) != 0 {
        return Vec::new();
    }
    CAPABILITIES
        .iter()
        .filter(|(_, bit)| effective & (1 << bit) == 0)
        .map(|(name, _)| *name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_gives_major_and_minor() {
        assert_eq!(version("6.18.44-fc-v595"), Some((6, 18)));
        assert_eq!(version("6.1-rc3"), Some((6, 1)));
        assert_eq!(version("linux"), None);
    }

    #[test]
    fn resolution_of_the_coarse_clock_gives_hz() {
        assert_eq!(hz_from_resolution(4_000_000), 250);
        assert_eq!(hz_from_resolution(1_000_000), 1000);
        assert_eq!(hz_from_resolution(3_333_333), 300);
    }

    #[test]
    fn missing_capabilities_are_named() {
        assert_eq!(
            missing_capabilities("CapEff:\t0000000000000000\n"),
            ["CAP_NET_ADMIN", "CAP_PERFMON", "CAP_BPF"]
        );
        // Bits 12 and 39.
        assert_eq!(
            missing_capabilities("CapEff:\t0000008000001000\n"),
            ["CAP_PERFMON"]
        );
        // All, as root has them.
        assert!(missing_capabilities("CapEff:\t000001ffffffffff\n").is_empty());
    }
}
