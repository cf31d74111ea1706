//! What /proc says about processes: which there are, whose children they are, and their sockets.
//!
//! Source: proc(5).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::RawFd;
use std::path::Path;

/// The PIDs of the processes in this PID namespace.
pub fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The processes that this one has started, and that those have started; without those that have ended.
pub fn descendants(of: i32) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in processes() {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"));
        if let Some(parent) = stat.ok().as_deref().and_then(living_child_of) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = BTreeSet::new();
    let mut left = vec![of];
    while let Some(process) = left.pop() {
        for child in children.remove(&process).into_iter().flatten() {
            found.insert(child);
            left.push(child);
        }
    }
    found
}

/// The parent in the text of `/proc/PID/stat`; `None` of a process that has ended.
fn living_child_of(stat: &str) -> Option<i32> {
    // The name, in brackets, may have anything in it.
    let (_, columns) = stat.rsplit_once(')')?;
    let mut columns = columns.split_whitespace();
    let state = columns.next()?;
    let parent = columns.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(parent)
}

/// Descriptor and inode of each socket that the process has open.
pub fn open_sockets(pid: i32) -> impl Iterator<Item = (RawFd, u64)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    let entries = entries.into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let fd = entry.file_name().to_str()?.parse().ok()?;
        let inode = socket_inode(&fs::read_link(entry.path()).ok()?)?;
        Some((fd, inode))
    })
}

/// The inode of a socket, from the target of its descriptor's link.
fn socket_inode(target: &Path) -> Option<u64> {
    let text = target.to_str()?.strip_prefix("socket:[")?;
    text.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_parent_stands_behind_any_name() {
        assert_eq!(living_child_of("7 (a) b) S 3 7 7 0 -1"), Some(3));
        assert_eq!(living_child_of("7 (a) Z 3 7 7 0 -1"), None);
        assert_eq!(living_child_of("7 (a"), None);
    }

    #[test]
    fn sockets_are_told_by_their_links() {
        assert_eq!(socket_inode(Path::new("socket:[77012]")), Some(77012));
        assert_eq!(socket_inode(Path::new("pipe:[77012]")), None);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = std::process::id() as i32;
        assert!(open_sockets(own).any(|(fd, _)| fd == listener.as_raw_fd()));
    }

    #[test]
    fn children_of_children_are_descendants_while_they_live() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 30 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = shell.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let child: i32 = line.trim().parse().unwrap();
        let found = descendants(std::process::id() as i32);
        assert!(found.contains(&(shell.id() as i32)) && found.contains(&child));
        let pid = rustix::process::Pid::from_raw(child).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        shell.wait().unwrap();
        assert!(!descendants(std::process::id() as i32).contains(&child));
    }
}
