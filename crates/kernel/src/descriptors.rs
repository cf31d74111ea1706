//! How many descriptors this process may have, and errors for want of them.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit of descriptors to what this process may have at most. If that fails, it stays: fewer connections can
/// be open at once.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// How many more descriptors this process may open; none if they cannot be counted, as when none is free for that.
pub fn descriptors_left() -> u64 {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let open = fs::read_dir("/proc/self/fd").map(Iterator::count);
    open.map_or(0, |open| most.saturating_sub(open as u64))
}

/// Whether an error says nothing of what was asked for, but that there is no descriptor or memory left for it.
pub fn is_shortage(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    matches!(error, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}
