//! The embedded eBPF objects, and the layout of their settings and operations.

use std::ffi::OsStr;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};

use crate::native::{Control, PARAMETERS_MAX, Parameters};

include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// The compiled eBPF object of the control of this name.
pub fn find(name: &str) -> Option<&'static [u8]> {
    object(name)
}

/// The eBPF object of a control.
pub(super) fn of(control: &Control) -> &'static [u8] {
    find(control.name()).expect("every control has its object")
}

/// The map with `struct cc_settings` of `cc/include/fairwind/ebpf.h`.
pub(super) const SETTINGS_MAP: &str = ".data.settings";

/// The bytes of `struct cc_settings`: hz, then the parameters, in native byte order.
pub(super) fn settings(hz: u32, parameters: &Parameters) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 * (1 + PARAMETERS_MAX));
    bytes.extend(hz.to_ne_bytes());
    for value in parameters.values() {
        bytes.extend(value.to_ne_bytes());
    }
    bytes
}

/// The parameters in a `struct cc_settings`; `None` if it has another length.
pub(super) fn parameter_values(settings: &[u8]) -> Option<[u32; PARAMETERS_MAX]> {
    let (words, rest) = settings.as_chunks::<4>();
    if words.len() != 1 + PARAMETERS_MAX || !rest.is_empty() {
        return None;
    }
    let mut values = [0; PARAMETERS_MAX];
    for (value, word) in values.iter_mut().zip(&words[1..]) {
        *value = u32::from_ne_bytes(*word);
    }
    Some(values)
}

/// Reference count of a `struct_ops` map: the first word of its value.
pub(super) fn references(value: &[u8]) -> u32 {
    let word = value.first_chunk().copied().unwrap_or_default();
    u32::from_ne_bytes(word)
}

/// Whether the value of a congestion control's `struct_ops` map, in which the name stands at `offset`, has this
/// name.
pub(super) fn has_name(value: &[u8], offset: usize, name: &str) -> bool {
    let mut field = [0; NAME_BYTES];
    let Some(start) = field.get_mut(..name.len()) else {
        return false;
    };
    start.copy_from_slice(name.as_bytes());
    value
        .get(offset..)
        .is_some_and(|rest| rest.starts_with(&field))
}

/// Where the name stands in the value of a congestion control's `struct_ops` map: the running kernel's layout, of
/// which ebpf.h's `struct tcp_congestion_ops` is only an extract.
pub(super) fn name_offset() -> libbpf_rs::Result<Option<usize>> {
    let btf = Btf::from_vmlinux()?;
    let value = btf.type_by_name::<Struct<'_>>("bpf_struct_ops_tcp_congestion_ops");
    Ok(value.and_then(|value| {
        let data = value.iter().find(|m| m.name == Some(OsStr::new("data")))?;
        let operations = btf.type_by_id::<Struct<'_>>(data.ty)?;
        let name = operations
            .iter()
            .find(|m| m.name == Some(OsStr::new("name")))?;
        Some(byte(data.attr)? + byte(name.attr)?)
    }))
}

/// The offset of a member in bytes, if it is no bit field.
fn byte(attributes: MemberAttr) -> Option<usize> {
    match attributes {
        MemberAttr::Normal { offset } => Some(offset as usize / 8),
        MemberAttr::BitField { .. } => None,
    }
}

/// Size of `name`, the first member of ebpf.h's `struct tcp_congestion_ops`, with its terminating zero.
const NAME_BYTES: usize = 16;

/// Whether the kernel accepts this as the name of a control.
pub(super) fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    (1..NAME_BYTES).contains(&name.len()) && name.bytes().all(allowed)
}

/// Writes the name into a `struct tcp_congestion_ops`.
pub(super) fn write_name(operations: &mut [u8], name: &str) {
    assert!(
        is_name(name),
        "`{name}` is not a name for a congestion control"
    );
    let (field, _) = operations.split_at_mut(NAME_BYTES);
    field.fill(0);
    field[..name.len()].copy_from_slice(name.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native;

    #[test]
    fn parameters_read_back_from_settings() {
        let mut parameters = native::find("cubic").unwrap().default_parameters();
        parameters.set("beta", 800).unwrap();
        let bytes = settings(250, &parameters);
        assert_eq!(parameter_values(&bytes), Some(*parameters.values()));
        assert_eq!(parameter_values(&bytes[4..]), None);
    }

    #[test]
    fn a_name_is_found_whole() {
        let mut value = [7; 64];
        value[20..36].copy_from_slice(b"fw_reno\0\0\0\0\0\0\0\0\0");
        assert!(has_name(&value, 20, "fw_reno"));
        for other in ["fw_ren", "reno", "fw_reno_and_more_of_it"] {
            assert!(!has_name(&value, 20, other), "{other}");
        }
        assert!(!has_name(&value, 60, "fw_reno"));
    }
}
