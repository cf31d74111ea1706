//! What a path that contains patterns matches below a root, for LIST, NLST and STAT.

use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;

use super::files::Root;
use super::listing::MOST_SORTED;
use super::partial;
use crate::pattern::{Budget, Exhausted, Pattern, is_pattern, unescaped};
use crate::protocol::VirtualPath;

/// Comparisons that one search may cost: about half a second of a processor. A listing takes two
/// searches, the first of which checks whether anything matches.
const WORK: u64 = 100_000_000;

/// Cost of opening a directory, in comparisons.
const DIRECTORY: u64 = 1_000;

/// Cost of reading and sorting a name, in comparisons.
const NAME: u64 = 100;

/// Cost of looking up a file, in comparisons.
const FILE: u64 = 100;

/// Most components of one path that may be patterns.
const MAX_PATTERNS: usize = 8;

/// A pattern as a client gave it.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// The client's working directory.
    pub from: VirtualPath,
    /// The pattern.
    pub text: Vec<u8>,
    /// Whether names that begin with a dot match even if the pattern does not say so.
    pub hidden: bool,
}

/// A file that matches a pattern.
#[derive(Debug)]
pub(super) struct Match<'a> {
    /// The file.
    pub path: &'a VirtualPath,
    /// Its name as the client would write it: it begins as the pattern does.
    pub name: &'a [u8],
}

enum Part {
    Name(Vec<u8>),
    Pattern(Pattern),
}

/// Receives each match; returns false if no more are wanted.
type Take<'a> = dyn FnMut(Match<'_>) -> io::Result<bool> + 'a;

struct Search<'a> {
    root: &'a Root,
    hidden: bool,
    budget: Budget,
    /// Names of each directory that are sorted, bytes.
    most_sorted: usize,
    take: &'a mut Take<'a>,
}

impl From<Exhausted> for io::Error {
    fn from(_: Exhausted) -> Self {
        Errno::TOOBIG.into()
    }
}

impl Wanted {
    /// Passes the matching files to `take` until that returns false; in order, except those in large directories.
    ///
    /// # Errors
    /// Those of `take`; `E2BIG` if the search costs too much work. What cannot be read matches nothing.
    pub(super) fn each<'a>(&self, root: &'a Root, take: &'a mut Take<'a>) -> io::Result<()> {
        self.search(root, Budget::new(WORK), take)
    }

    fn search<'a>(&self, root: &'a Root, budget: Budget, take: &'a mut Take<'a>) -> io::Result<()> {
        let mut parts = Vec::new();
        for part in self.text.split(|byte| *byte == b'/') {
            if part.is_empty() {
                continue;
            }
            parts.push(if is_pattern(part) {
                Part::Pattern(Pattern::parse(part))
            } else {
                Part::Name(unescaped(part))
            });
        }
        let patterns = parts.iter().filter(|part| matches!(part, Part::Pattern(_)));
        let patterns = patterns.count();
        if patterns > MAX_PATTERNS {
            return Err(Exhausted.into());
        }
        let mut search = Search {
            root,
            hidden: self.hidden,
            budget,
            most_sorted: MOST_SORTED / patterns.max(1),
            take,
        };
        let (path, name): (_, &[u8]) = match self.text.first() {
            Some(b'/') => (VirtualPath::root(), b"/"),
            _ => (self.from.clone(), b""),
        };
        search.below(path, name.to_vec(), &parts).map(drop)
    }

    /// Whether anything matches.
    ///
    /// # Errors
    /// As [`each`](Self::each).
    pub(super) fn any(&self, root: &Root) -> io::Result<bool> {
        let mut found = false;
        self.each(root, &mut |_| {
            found = true;
            Ok(false)
        })?;
        Ok(found)
    }
}

impl Search<'_> {
    /// Matches `parts` below `path`, which the client calls `name`; returns false if no more are wanted.
    fn below(
        &mut self,
        mut path: VirtualPath,
        mut name: Vec<u8>,
        parts: &[Part],
    ) -> io::Result<bool> {
        let mut parts = parts.iter();
        let pattern = loop {
            match parts.next() {
                Some(Part::Name(part)) => {
                    path = path.join(part);
                    extend(&mut name, part);
                }
                Some(Part::Pattern(pattern)) => break pattern,
                None => return self.found(&path, &name),
            }
        };
        self.budget.spend(DIRECTORY)?;
        let directory = self.root.directory(&path);
        let Ok(names) = directory.and_then(|found| found.names(self.most_sorted)) else {
            return Ok(true);
        };
        // What cannot be read matches nothing.
        for entry in names.map_while(Result::ok) {
            self.budget.spend(NAME)?;
            let entry = entry.as_bytes();
            let shown = self.hidden || pattern.begins_with_a_dot() || !entry.starts_with(b".");
            if !shown || partial::is_partial(entry) || !pattern.means(entry, &mut self.budget)? {
                continue;
            }
            let mut name = name.clone();
            extend(&mut name, entry);
            if !self.below(path.join(entry), name, parts.as_slice())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn found(&mut self, path: &VirtualPath, name: &[u8]) -> io::Result<bool> {
        self.budget.spend(FILE)?;
        match self.root.facts_or_of_broken_link(path) {
            Ok(_) => (self.take)(Match { path, name }),
            Err(_) => Ok(true),
        }
    }
}

fn extend(name: &mut Vec<u8>, part: &[u8]) {
    if !name.is_empty() && !name.ends_with(b"/") {
        name.push(b'/');
    }
    name.extend_from_slice(part);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    fn sample() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for directory in ["pub", "private", "pub/.git"] {
            fs::create_dir(dir.path().join(directory)).unwrap();
        }
        for file in [
            "a.txt",
            "b.txt",
            "c",
            ".d.txt",
            "pub/e.txt",
            "pub/.f.txt",
            ".x.fairwind-part",
        ] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        std::os::unix::fs::symlink(".", dir.path().join("pub/loop")).unwrap();
        let root = Root::open(dir.path(), Duration::MAX).unwrap();
        (dir, root)
    }

    fn meant(root: &Root, from: &str, text: &str, hidden: bool) -> Vec<String> {
        let mut names = Vec::new();
        let wanted = Wanted {
            from: VirtualPath::root().join(from.as_bytes()),
            text: text.into(),
            hidden,
        };
        wanted
            .each(root, &mut |found| {
                names.push(String::from_utf8(found.name.to_vec()).unwrap());
                Ok(true)
            })
            .unwrap();
        names
    }

    #[test]
    fn names_are_told_as_the_client_would_write_them() {
        let (_dir, root) = sample();
        assert_eq!(meant(&root, "/", "*.txt", false), ["a.txt", "b.txt"]);
        assert_eq!(
            meant(&root, "/", "./[ab].txt", false),
            ["./a.txt", "./b.txt"]
        );
        assert_eq!(meant(&root, "/pub", "/p*/e.*", false), ["/pub/e.txt"]);
        assert_eq!(meant(&root, "/pub", "../?", false), ["../c"]);
        assert_eq!(meant(&root, "/", "p*", false), ["private", "pub"]);
        assert_eq!(meant(&root, "/", "p*/e.txt", false), ["pub/e.txt"]);
        assert!(meant(&root, "/", "nothing*", false).is_empty());
    }

    #[test]
    fn names_with_a_dot_are_meant_when_asked_for_and_unfinished_uploads_never() {
        let (_dir, root) = sample();
        assert_eq!(meant(&root, "/", ".*", false), [".d.txt"]);
        assert_eq!(
            meant(&root, "/", "*.txt", true),
            [".d.txt", "a.txt", "b.txt"]
        );
        assert!(meant(&root, "/", ".x*", true).is_empty());
    }

    #[test]
    fn work_is_bounded_however_many_directories_there_are() {
        let (_dir, root) = sample();
        let wanted = |text: &str| Wanted {
            from: VirtualPath::root(),
            text: text.into(),
            hidden: false,
        };
        let too_deep = wanted(&"*/".repeat(9)).any(&root).unwrap_err();
        assert_eq!(too_deep.kind(), io::ErrorKind::ArgumentListTooLong);
        assert!(wanted("pub/*/*/*/*/*/*/*/e.txt").any(&root).unwrap());
    }

    #[test]
    fn names_cost_work_whether_or_not_they_are_meant() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..100 {
            fs::write(dir.path().join(number.to_string()), "").unwrap();
        }
        let root = Root::open(dir.path(), Duration::MAX).unwrap();
        let wanted = Wanted {
            from: VirtualPath::root(),
            text: "x*".into(),
            hidden: false,
        };
        let within = |work| wanted.search(&root, Budget::new(work), &mut |_| Ok(true));
        assert!(within(DIRECTORY + 100 * NAME).is_err());
        within(DIRECTORY + 100 * NAME + 1_000).unwrap();
    }
}
