//! From root to a user who may do little (capabilities(7), credentials(7)).

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::identity::Identity;

/// Becomes `identity`, for good, with no capabilities but those `kept`. Of a program with several threads
/// only the calling one would change: it is called before there are others.
///
/// # Errors
/// The kernel's; there are other threads.
pub fn become_user(identity: &Identity, kept: CapabilitySet) -> io::Result<()> {
    require_single_thread()?;
    let uid = Uid::from_raw(identity.uid.as_raw());
    let gid = Gid::from_raw(identity.gid.as_raw());
    let groups: Vec<Gid> = identity
        .groups
        .iter()
        .map(|group| Gid::from_raw(group.as_raw()))
        .collect();
    narrow_bounding_set(kept);
    set_keep_capabilities(true)?;
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    set_keep_capabilities(false)?;
    keep(kept)?;
    if !uid.is_root() && set_thread_res_uid(None, Uid::ROOT, None).is_ok() {
        return Err(io::Error::other("root's rights could be taken back"));
    }
    Ok(())
}

/// Keeps no capabilities but these, of those that there are, and gets no others by running programs.
///
/// # Errors
/// The kernel's.
pub fn keep(kept: CapabilitySet) -> io::Result<()> {
    let kept = rustix::thread::capabilities(None)?.permitted & kept;
    // Kernels before 4.3 have none.
    let _ = clear_ambient_capability_set();
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(set_no_new_privs(true)?)
}

fn narrow_bounding_set(kept: CapabilitySet) {
    for (_, capability) in CapabilitySet::all().iter_names() {
        if !kept.contains(capability) {
            // One that this kernel does not know, or that may not be dropped: no program is run anyway.
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
}

/// That what holds of this thread holds of the process.
///
/// # Errors
/// It has other threads.
pub fn require_single_thread() -> io::Result<()> {
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(2..) => Err(io::Error::other("there are other threads already")),
        _ => Ok(()),
    }
}
