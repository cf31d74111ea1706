//! What the kernel must have and the process may do, asked before it is used.

use std::ffi::CStr;
use std::{fs, mem};

use libbpf_rs::MapType;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Typedef};

use super::TraceError;

/// Capabilities that tracing takes, with their bits (`linux/capability.h`).
const CAPABILITIES: [(&str, u32); 3] =
    [("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];
/// Stands for all of them.
const CAP_SYS_ADMIN: u32 = 21;

/// Iterators by their functions in BTF, and what a kernel without them lacks.
const ITERATORS: [(&str, &str); 2] = [
    (
        "bpf_iter_bpf_sk_storage_map",
        "no iterator over socket storage (Linux 5.9, CONFIG_BPF_SYSCALL and CONFIG_NET)",
    ),
    (
        "bpf_iter_task_file",
        "no iterator over open files (Linux 5.8, CONFIG_BPF_SYSCALL)",
    ),
];
/// Tracepoints by their types in BTF.
const TRACEPOINTS: [(&str, &str); 3] = [
    (
        "btf_trace_inet_sock_set_state",
        "no tracepoint sock:inet_sock_set_state (Linux 4.16, CONFIG_TRACEPOINTS)",
    ),
    (
        "btf_trace_tcp_probe",
        "no tracepoint tcp:tcp_probe (Linux 4.16, CONFIG_TRACEPOINTS)",
    ),
    (
        "btf_trace_tcp_cong_state_set",
        "no tracepoint tcp:tcp_cong_state_set (Linux 5.18, CONFIG_TRACEPOINTS)",
    ),
];

/// Whether connections can be traced here.
///
/// # Errors
///
/// The first kind of thing that is missing, with all that are.
pub fn check() -> Result<(), TraceError> {
    if !fs::exists("/sys/kernel/btf/vmlinux").unwrap_or(false) {
        return Err(TraceError::NoBtf);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = missing_capabilities(&status);
    if !missing.is_empty() {
        return Err(TraceError::NotPermitted { missing });
    }
    let missing = missing_features(&Btf::from_vmlinux().map_err(|_| TraceError::NoBtf)?);
    if !missing.is_empty() {
        let release = release();
        return Err(TraceError::Missing { release, missing });
    }
    Ok(())
}

fn missing_features(btf: &Btf) -> Vec<String> {
    let mut missing = Vec::new();
    for (map, what) in [
        (MapType::RingBuf, "no ring buffers (Linux 5.8)"),
        (MapType::SkStorage, "no socket storage (Linux 5.2)"),
    ] {
        if !map.is_supported().unwrap_or(false) {
            missing.push(what.to_owned());
        }
    }
    for (name, what) in ITERATORS {
        if btf.type_by_name::<Func<'_>>(name).is_none() {
            missing.push(what.to_owned());
        }
    }
    for (name, what) in TRACEPOINTS {
        if btf.type_by_name::<Typedef<'_>>(name).is_none() {
            missing.push(what.to_owned());
        }
    }
    missing
}

/// Jiffies a second of the running kernel.
pub fn hz() -> u32 {
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
        assert!(missing_capabilities("CapEff:\t000001ffffffffff\n").is_empty());
    }
}
