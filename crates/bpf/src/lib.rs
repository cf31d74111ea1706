//! What all users of eBPF share: objects that are embedded in the program, and the messages of libbpf.

pub mod messages;

/// Bytes at an address that is a multiple of 8, which libelf requires of an object.
#[derive(Debug)]
#[repr(C, align(8))]
pub struct Aligned<T: ?Sized>(pub T);

/// The eBPF object that the build script has put into this file of `OUT_DIR`, as `&'static [u8]`.
#[macro_export]
macro_rules! object {
    ($file:literal) => {{
        static OBJECT: &$crate::Aligned<[u8]> =
            &$crate::Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $file)));
        &OBJECT.0
    }};
}
