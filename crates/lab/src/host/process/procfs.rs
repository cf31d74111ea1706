//! What /proc says about sockets that wait for others.
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
}
