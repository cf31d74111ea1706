//! /sys for a program in a host: shows the host's network devices, and everything else unchanged.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::RawFd;
use std::ptr;

use nix::sched::{CloneFlags, unshare};

const SYS: &CStr = c"/sys";

/// The mounts for a program.
#[derive(Debug)]
pub struct Sysfs {
    /// Mount flags of the present /sys; `None` if it is not mounted.
    flags: Option<libc::c_ulong>,
    /// Mount points below it, such as /sys/fs/cgroup, with a descriptor for each.
    below: Vec<(CString, RawFd)>,
}

impl Sysfs {
    /// Reads the mounts of this process.
    pub fn look() -> Sysfs {
        Sysfs::read(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    fn read(mountinfo: &str) -> Sysfs {
        let mut sysfs = Sysfs {
            flags: None,
            below: Vec::new(),
        };
        let mut points: Vec<&str> = Vec::new();
        for line in mountinfo.lines() {
            let mut columns = line.split(' ').skip(4);
            let (Some(point), Some(options)) = (columns.next(), columns.next()) else {
                continue;
            };
            if point == "/sys" {
                let read_only = options.split(',').any(|option| option == "ro");
                let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
                sysfs.flags = Some(flags | if read_only { libc::MS_RDONLY } else { 0 });
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
                sysfs.below.push((point, -1));
            }
        }
        sysfs
    }

    /// Mounts it for the calling process alone, which must be in the host's network namespace.
    /// Makes only system calls, as is required between fork and exec. If the kernel refuses, /sys
    /// stays as it was, which matters only to programs that look at devices there.
    pub fn mount(&mut self) {
        let Some(flags) = self.flags else { return };
        if unshare(CloneFlags::CLONE_NEWNS).is_err() {
            return;
        }
        for (point, tree) in &mut self.below {
            *tree = open_tree(point);
        }
        let kind = c"sysfs".as_ptr();
        // SAFETY: the strings are NUL-terminated, and no data is given.
        let failed = unsafe { libc::mount(kind, SYS.as_ptr(), kind, flags, ptr::null()) } != 0;
        for (point, tree) in &self.below {
            if *tree >= 0 && !failed {
                move_mount(*tree, point);
            }
        }
    }
}

/// A clone of the mounts at `point`, closed on exec; negative if there are none.
fn open_tree(point: &CStr) -> RawFd {
    let flags =
        libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as libc::c_uint;
    // SAFETY: the path is NUL-terminated.
    unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, point.as_ptr(), flags) as RawFd }
}

fn move_mount(tree: RawFd, point: &CStr) {
    let (nothing, here) = (c"".as_ptr(), libc::AT_FDCWD);
    let flags = libc::MOVE_MOUNT_F_EMPTY_PATH;
    // SAFETY: the paths are NUL-terminated.
    unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree,
            nothing,
            here,
            point.as_ptr(),
            flags,
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_below_sys_stays() {
        let sysfs = Sysfs::read(
            "21 30 0:20 / /sys rw,nosuid,nodev shared:7 - sysfs sysfs rw\n\
             22 21 0:21 / /sys/kernel/debug rw - debugfs debugfs rw\n\
             23 22 0:22 / /sys/kernel/debug/tracing rw - tracefs tracefs rw\n\
             24 21 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
             30 1 254:0 / /system rw - ext4 /dev/vda rw\n",
        );
        let below: Vec<_> = sysfs
            .below
            .iter()
            .map(|(point, _)| point.to_str())
            .collect();
        assert_eq!(below, [Ok("/sys/fs/cgroup"), Ok("/sys/kernel/debug")]);
        assert_eq!(sysfs.flags.map(|flags| flags & libc::MS_RDONLY), Some(0));
        assert_eq!(Sysfs::read("").flags, None);
    }
}
