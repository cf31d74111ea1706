//! The embedded eBPF objects, and the settings inside them.

use crate::native::{PARAMETERS_MAX, Parameters};

include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// libelf wants the object aligned.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

/// The eBPF object of a control.
pub(super) fn find(name: &str) -> Option<&'static [u8]> {
    OBJECTS
        .into_iter()
        .find(|(object, _)| *object == name)
        .map(|(_, object)| &object.0)
}

/// The map that holds `struct cc_settings` of `cc/include/fairwind/ebpf.h`.
pub(super) const SETTINGS_MAP: &str = ".data.settings";

/// `struct cc_settings`: hz, then the parameters, words in the machine's order.
pub(super) fn settings(hz: u32, parameters: &Parameters) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 * (1 + PARAMETERS_MAX));
    bytes.extend(hz.to_ne_bytes());
    for value in parameters.values() {
        bytes.extend(value.to_ne_bytes());
    }
    bytes
}

/// Bytes of `name` in `struct tcp_congestion_ops`, its first member; the last is zero.
const NAME_BYTES: usize = 16;

/// Whether the kernel takes it for the name of a control.
pub(super) fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    (1..NAME_BYTES).contains(&name.len()) && name.bytes().all(allowed)
}

/// Writes the name into a `struct tcp_congestion_ops`.
pub(super) fn write_name(operations: &mut [u8], name: &str) {
    debug_assert!(is_name(name));
    let (field, _) = operations.split_at_mut(NAME_BYTES);
    field.fill(0);
    field[..name.len()].copy_from_slice(name.as_bytes());
}
