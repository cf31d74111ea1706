//! Messages of directories: a file of a given name in a directory, whose lines are part of the reply to whoever enters
//! it, as wu-ftpd's `.message` was.

use std::io::Read;

use super::files::Root;
use super::greeting::reply_lines;
use crate::protocol::VirtualPath;

/// Longest message, bytes; a longer one is cut off.
const LONGEST: u64 = 4 << 10;

/// Most lines of a message.
const MOST_LINES: usize = 100;

/// The lines of the message of a directory, if it has one that the user may read. It is found and opened as any file
/// that a client names, so no link leads out of the root.
pub(super) fn of(root: &Root, directory: &VirtualPath, name: &str) -> Vec<Vec<u8>> {
    let mut text = Vec::new();
    let path = directory.join(name.as_bytes());
    let Ok((file, _)) = root.read(&path) else {
        return Vec::new();
    };
    // Whatever cannot be read of it, the directory has been entered.
    let _ = file.take(LONGEST).read_to_end(&mut text);
    if text.trim_ascii().is_empty() {
        return Vec::new();
    }
    let mut lines = reply_lines(&text);
    lines.truncate(MOST_LINES);
    lines
}

/// Whether messages can have this name.
pub(super) fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && !name.contains(|c: char| c == '/' || c.is_control())
        && !super::partial::is_partial(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_directory() {
        assert!(is_name(".message") && is_name("READ ME"));
        for name in ["", ".", "..", "a/b", "/a", "a\n", ".x.fairwind-part"] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
