//! Paths as the client names them: absolute below the server's root, separated by `/` (TVFS, RFC 3659
//! section 6).

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An absolute path below the server's root. `.`, `..` and empty parts are resolved; `..` at the root
/// stays there. Bytes, as on UNIX; UTF-8 by RFC 2640.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct VirtualPath(Vec<u8>);

impl Default for VirtualPath {
    fn default() -> Self {
        Self::root()
    }
}

impl VirtualPath {
    /// `/`.
    pub(crate) fn root() -> Self {
        Self(b"/".to_vec())
    }

    /// Resolves `argument` with `self` as the working directory.
    pub(crate) fn join(&self, argument: &[u8]) -> Self {
        let base: &[u8] = if argument.first() == Some(&b'/') {
            b""
        } else {
            &self.0
        };
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in base
            .split(|byte| *byte == b'/')
            .chain(argument.split(|byte| *byte == b'/'))
        {
            match part {
                b"" | b"." => {}
                b".." => {
                    parts.pop();
                }
                name => parts.push(name),
            }
        }
        let mut path = Vec::with_capacity(argument.len() + base.len() + 1);
        for part in parts {
            path.push(b'/');
            path.extend_from_slice(part);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Self(path)
    }

    /// The directory that contains it, and its name there; none for the root.
    pub(crate) fn split(&self) -> Option<(Self, &OsStr)> {
        let slash = self.0.iter().rposition(|byte| *byte == b'/')?;
        let name = &self.0[slash + 1..];
        if name.is_empty() {
            return None;
        }
        Some((
            Self(self.0[..slash.max(1)].to_vec()),
            OsStr::from_bytes(name),
        ))
    }

    /// The parent; the root is its own parent.
    pub(crate) fn parent(&self) -> Self {
        self.split().map_or_else(Self::root, |(parent, _)| parent)
    }

    /// The path relative to the root, as system calls on an open root expect it: `.` for the root.
    pub(crate) fn relative(&self) -> &Path {
        match &self.0[1..] {
            b"" => Path::new("."),
            rest => Path::new(OsStr::from_bytes(rest)),
        }
    }

    /// The bytes, beginning with `/`.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path in quotation marks, with those within it doubled (RFC 959 appendix II).
    pub(crate) fn quoted(&self) -> Vec<u8> {
        let mut quoted = vec![b'"'];
        for byte in &self.0 {
            quoted.push(*byte);
            if *byte == b'"' {
                quoted.push(b'"');
            }
        }
        quoted.push(b'"');
        quoted
    }

    /// The path as a single line of text, for logs: control characters become `?`, and bytes that are not UTF-8 the
    /// replacement character.
    pub(crate) fn text(&self) -> String {
        one_line(&self.0).into_owned()
    }
}

impl fmt::Display for VirtualPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// Bytes as a single line of text, for people and logs.
pub(crate) fn one_line(bytes: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(bytes);
    if text.chars().any(char::is_control) {
        Cow::Owned(
            text.chars()
                .map(|c| if c.is_control() { '?' } else { c })
                .collect(),
        )
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(base: &str, argument: &str) -> String {
        VirtualPath::root()
            .join(base.as_bytes())
            .join(argument.as_bytes())
            .text()
    }

    #[test]
    fn no_number_of_dots_leaves_the_root() {
        assert_eq!(joined("/", "../../etc/passwd"), "/etc/passwd");
        assert_eq!(joined("/a/b", "../../../.."), "/");
        assert_eq!(joined("/a", "/../x"), "/x");
        assert_eq!(joined("/a", "b/./c//d/../e"), "/a/b/c/e");
        assert_eq!(joined("/a", "..."), "/a/...");
    }

    #[test]
    fn a_path_splits_into_directory_and_name() {
        let path = VirtualPath::root().join(b"pub/x");
        assert_eq!(
            path.split(),
            Some((VirtualPath::root().join(b"pub"), OsStr::new("x")))
        );
        assert_eq!(path.relative(), Path::new("pub/x"));
        assert_eq!(VirtualPath::root().join(b"x").parent(), VirtualPath::root());
        assert_eq!(VirtualPath::root().split(), None);
        assert_eq!(VirtualPath::root().relative(), Path::new("."));
    }

    #[test]
    fn quotation_marks_are_doubled_and_other_bytes_stay() {
        let path = VirtualPath::root().join(b"a\"\xe9\xff");
        assert_eq!(path.quoted(), b"\"/a\"\"\xe9\xff\"");
        assert_eq!(path.text(), "/a\"\u{fffd}\u{fffd}");
    }
}
