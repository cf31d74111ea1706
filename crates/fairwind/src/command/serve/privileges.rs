//! From root to a user with few rights (capabilities(7), credentials(7)).

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::identity::Identity;

/// Becomes `identity` for good, with no capabilities but those in `kept`. In a process with several threads
/// only the calling one would change, so this must be called before there are others.
///
/// # Errors
/// Fails if there are other threads, if the kernel refuses a change, or if root's rights could be regained.
pub(crate) fn become_user(identity: &Identity, kept: CapabilitySet) -> io::Result<()> {
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
    // With this one they can, which is what it is kept for.
    let may_become_anybody = kept.contains(CapabilitySet::SETUID);
    if !uid.is_root() && !may_become_anybody && set_thread_res_uid(None, Uid::ROOT, None).is_ok() {
        return Err(io::Error::other("root's rights could be taken back"));
    }
    Ok(())
}

/// Keeps only those capabilities that the process has and that are in `kept`, and prevents gaining others by
/// running programs.
///
/// # Errors
/// Fails if the kernel refuses a change.
pub(crate) fn keep(kept: CapabilitySet) -> io::Result<()> {
    let kept = rustix::thread::capabilities(None)?.permitted & kept;
    // Kernels before 4.3 have no ambient set.
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
            // This kernel may not know it, or may not allow dropping it: no program is run anyway.
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
}

/// Checks that what applies to this thread applies to the whole process.
///
/// # Errors
/// Fails if the process has other threads.
pub(crate) fn require_single_thread() -> io::Result<()> {
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(2..) => Err(io::Error::other("there are other threads already")),
        _ => Ok(()),
    }
}
