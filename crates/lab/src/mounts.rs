//! Mount namespaces.
//!
//! Source: mount_namespaces(7), proc_pid_mountinfo(5).

use std::collections::BTreeSet;
use std::{fs, io};

use fairwind_kernel::{NamespaceType, unshare};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};

/// Moves the calling thread, and all threads and programs that it starts from now on, into a mount namespace of their own.
/// What is mounted there is seen by nobody else, and gone with the last of them.
///
/// # Errors
///
/// If the process lacks `CAP_SYS_ADMIN`, or a limit of namespaces is reached.
pub fn own_mounts() -> io::Result<()> {
    unshare(NamespaceType::Mount)?;
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    match mount_change("/", slave) {
        // Under chroot(2) the root is seldom a mount point, but the mounts below it are.
        Err(Errno::INVAL) => {
            let points: BTreeSet<String> = mounts().into_iter().map(|mount| mount.point).collect();
            points
                .iter()
                .try_for_each(|point| mount_change(point.as_str(), slave))
        }
        other => other,
    }?;
    Ok(())
}

/// A mount.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub point: String,
    pub read_only: bool,
}

/// The mounts of this thread; none if they cannot be read.
pub(crate) fn mounts() -> Vec<Mount> {
    parse_mounts(&fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default())
}

/// Parses the text of `/proc/PID/mountinfo`.
pub(crate) fn parse_mounts(mountinfo: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let mut columns = line.split(' ').skip(4);
        let (point, options) = (columns.next()?, columns.next()?);
        Some(Mount {
            point: unescaped(point),
            read_only: options.split(',').any(|option| option == "ro"),
        })
    };
    mountinfo.lines().filter_map(mount).collect()
}

fn unescaped(point: &str) -> String {
    let escapes = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    let plain = |text: String, (written, meant): &(&str, &str)| text.replace(written, meant);
    escapes.iter().fold(point.to_owned(), plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_have_no_escapes() {
        let mounts = parse_mounts(
            "21 30 0:20 / /mnt/a\\040b ro,nosuid shared:7 - ext4 /dev/vdb rw\n\
             22\n",
        );
        let expected = Mount {
            point: "/mnt/a b".to_owned(),
            read_only: true,
        };
        assert_eq!(mounts, [expected]);
    }
}
