//! /sys for a program in a host: shows the host's network devices, and everything else unchanged.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use fairwind_kernel::{NamespaceType, unshare};
use rustix::fs::CWD;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};

use crate::mounts::{Mount, mounts};

const SYS: &CStr = c"/sys";

/// The mounts for a program.
#[derive(Debug)]
pub(super) struct Sysfs {
    /// Mount flags of the present /sys; `None` if it is not mounted.
    flags: Option<MountFlags>,
    /// Mount points below it, such as /sys/fs/cgroup, and a clone of what is mounted there.
    below: Vec<(CString, Option<OwnedFd>)>,
}

impl Sysfs {
    /// Reads the mounts of this process.
    pub(super) fn of_this_process() -> Sysfs {
        Sysfs::new(&mounts())
    }

    fn new(mounts: &[Mount]) -> Sysfs {
        let mut sysfs = Sysfs {
            flags: None,
            below: Vec::new(),
        };
        let mut points: Vec<&str> = Vec::new();
        for Mount { point, read_only } in mounts {
            if point == "/sys" {
                let mut flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
                flags.set(MountFlags::RDONLY, *read_only);
                sysfs.flags = Some(flags);
            } else if point.starts_with("/sys/") {
                points.push(point);
            }
        }
        points.sort_unstable();
        points.dedup();
        for point in points {
            // A mount below another moves with it.
            let covered = sysfs.below.iter().any(|(other, _)| {
                let rest = point.as_bytes().strip_prefix(other.as_bytes());
                rest.is_some_and(|rest| rest.first() == Some(&b'/'))
            });
            if let (false, Ok(point)) = (covered, CString::new(point)) {
                sysfs.below.push((point, None));
            }
        }
        sysfs
    }

    /// Mounts it for the calling process alone, which must be in the host's network namespace.
    /// Makes only system calls, as is required between fork and exec. If the kernel refuses, /sys
    /// stays as it was, which matters only to programs that look at devices there.
    pub(super) fn mount(&mut self) {
        let Some(flags) = self.flags else { return };
        if unshare(NamespaceType::Mount).is_err() {
            return;
        }
        for (point, tree) in &mut self.below {
            *tree = clone_tree(point);
        }
        if mount(c"sysfs", SYS, c"sysfs", flags, None::<&CStr>).is_err() {
            return;
        }
        for (point, tree) in &self.below {
            if let Some(tree) = tree {
                move_tree(tree, point);
            }
        }
    }
}

/// A clone of the mounts at `point`, closed on exec; `None` if there are none.
fn clone_tree(point: &CStr) -> Option<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, point, flags).ok()
}

fn move_tree(tree: &OwnedFd, point: &CStr) {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    let _ = move_mount(tree.as_fd(), c"", CWD, point, flags);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts::parse_mounts;

    #[test]
    fn what_is_mounted_below_sys_stays() {
        let mounts = parse_mounts(
            "21 30 0:20 / /sys rw,nosuid,nodev shared:7 - sysfs sysfs rw\n\
             22 21 0:21 / /sys/kernel/debug rw - debugfs debugfs rw\n\
             23 22 0:22 / /sys/kernel/debug/tracing rw - tracefs tracefs rw\n\
             24 21 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
             30 1 254:0 / /system rw - ext4 /dev/vda rw\n",
        );
        let sysfs = Sysfs::new(&mounts);
        let below: Vec<_> = sysfs
            .below
            .iter()
            .map(|(point, _)| point.to_str())
            .collect();
        assert_eq!(below, [Ok("/sys/fs/cgroup"), Ok("/sys/kernel/debug")]);
        let read_only = sysfs.flags.map(|flags| flags.contains(MountFlags::RDONLY));
        assert_eq!(read_only, Some(false));
        assert_eq!(Sysfs::new(&[]).flags, None);
    }
}
