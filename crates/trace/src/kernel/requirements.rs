//! What the kernel must provide and the process may do, checked before use.

use fairwind_kernel::{Capabilities, has_btf, release};
use libbpf_rs::MapType;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Typedef};

use super::TraceError;

/// Iterators by their functions in BTF, tracepoints by their types, and what a kernel lacks without
/// them.
const HOOKS: [(&str, &str); 5] = [
    (
        "bpf_iter_bpf_sk_storage_map",
        "no iterator over socket storage (Linux 5.9, CONFIG_BPF_SYSCALL and CONFIG_NET)",
    ),
    (
        "bpf_iter_task_file",
        "no iterator over open files (Linux 5.8, CONFIG_BPF_SYSCALL)",
    ),
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
const MAPS: [(MapType, &str); 2] = [
    (MapType::RingBuf, "no ring buffers (Linux 5.8)"),
    (MapType::SkStorage, "no socket storage (Linux 5.2)"),
];

/// Checks whether connections can be traced here.
///
/// # Errors
///
/// Fails if BTF, a capability or a feature of the kernel is missing, in this order; the error lists
/// everything missing of that kind.
pub fn check() -> Result<(), TraceError> {
    if !has_btf() {
        return Err(TraceError::NoBtf);
    }
    // If the capabilities cannot be determined, the kernel decides.
    let missing = Capabilities::of_this_process().map(Capabilities::missing_for_bpf);
    let missing = missing.unwrap_or_default();
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
    let maps = MAPS
        .iter()
        .filter(|(map, _)| !map.is_supported().unwrap_or(false))
        .map(|(_, what)| what);
    let hooks = HOOKS
        .iter()
        .filter(|(name, _)| {
            btf.type_by_name::<Func<'_>>(name).is_none()
                && btf.type_by_name::<Typedef<'_>>(name).is_none()
        })
        .map(|(_, what)| what);
    maps.chain(hooks).map(|what| what.to_string()).collect()
}
