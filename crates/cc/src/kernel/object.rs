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
