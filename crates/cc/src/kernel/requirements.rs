//! Checks in advance what the kernel must have and the process must be allowed.

use fairwind_kernel::{Capabilities, has_btf, release, version};

use super::LoadError;

/// The first kernel with `struct_ops` links.
const FIRST_KERNEL: (u32, u32) = (6, 4);

/// Checks whether a control can be loaded here.
///
/// # Errors
///
/// If the kernel is older than 6.4, it has no BTF, or capabilities are missing; reports the first of
/// these.
pub fn check() -> Result<(), LoadError> {
    let release = release();
    if version(&release).is_some_and(|version| version < FIRST_KERNEL) {
        return Err(LoadError::KernelTooOld { release });
    }
    if !has_btf() {
        return Err(LoadError::NoBtf);
    }
    // If the capabilities are unknown, leave the refusal to the kernel.
    let missing = Capabilities::of_this_process().map(Capabilities::missing_for_bpf);
    match missing.unwrap_or_default() {
        missing if missing.is_empty() => Ok(()),
        missing => Err(LoadError::NotPermitted { missing }),
    }
}
