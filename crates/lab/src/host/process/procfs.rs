//! What /proc says about sockets that wait for others, and about mounts.
//!
//! Source: proc(5).

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// Inodes of the sockets in the thread's network namespace that listen for TCP or are bound for
/// UDP.
pub(super) fn listening_sockets() -> HashSet<u64> {
    const LISTENING: &str = "0A";
    const BOUND: &str = "07";
    let mut inodes = HashSet::new();
    for (name, wanted) in [
        ("tcp", LISTENING),
        ("tcp6", LISTENING),
        ("udp", BOUND),
        ("udp6", BOUND),
    ] {
        let path = Path::new("/proc/thread-self/net").join(name);
        let table = fs::read_to_string(path).unwrap_or_default();
        let in_state = |line: &str| {
            let (state, inode) = state_and_inode(line)?;
            (state == wanted).then_some(inode)
        };
        inodes.extend(table.lines().filter_map(in_state));
    }
    inodes
}

/// The columns `st` and `inode` of a line in /proc/net/tcp or udp.
fn state_and_inode(line: &str) -> Option<(&str, u64)> {
    let mut columns = line.split_whitespace();
    let state = columns.nth(3)?;
    Some((state, columns.nth(5)?.parse().ok()?))
}

/// A mount.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub point: String,
    pub read_only: bool,
}

/// The mounts of this process; none if they cannot be read.
pub(super) fn mounts() -> Vec<Mount> {
    parse_mounts(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

/// Parses the text of `/proc/PID/mountinfo`.
pub(super) fn parse_mounts(mountinfo: &str) -> Vec<Mount> {
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
    fn a_listening_socket_has_state_0a() {
        let line = "   0: 0100007F:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000 \
                    1000        0 77012 1 0000000000000000 100 0 0 10 0";
        assert_eq!(state_and_inode(line), Some(("0A", 77012)));
        assert_eq!(state_and_inode(""), None);
    }

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
