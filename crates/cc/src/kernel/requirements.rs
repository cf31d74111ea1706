//! What the kernel must have and the process may do, asked before it is used.

use fairwind_kernel::{Capabilities, has_btf, release, version};

use super::LoadError;

/// The first kernel with `struct_ops` links.
const FIRST_KERNEL: (u32, u32) = (6, 4);

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
    if !has_btf() {
        return Err(LoadError::NoBtf);
    }
    // What cannot be known is left to the kernel to refuse.
    let missing = Capabilities::of_this_process().map(Capabilities::missing_for_bpf);
    match missing.unwrap_or_default() {
        missing if missing.is_empty() => Ok(()),
        missing => Err(LoadError::NotPermitted { missing }),
    }
}
