//! Names here that stand for the same file or directory: because a link leads from one to the other, or because the file
//! system takes them for one name (upper and lower case).

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Most links that a path may lead through, as for Linux.
const MOST_LINKS: usize = 40;

/// The files, directories and links, by device and inode, that paths lead to and through.
#[derive(Debug, Default)]
pub(super) struct Trails<'a>(HashMap<(u64, u64), &'a [u8]>);

impl<'a> Trails<'a> {
    /// Adds a path, to which one refers as `name`; nothing if nothing is there.
    pub(super) fn add(&mut self, path: &Path, name: &'a [u8]) {
        if fs::symlink_metadata(path).is_err() {
            return;
        }
        let Ok(path) = std::path::absolute(path) else {
            return;
        };
        let mut names: VecDeque<OsString> = names(&path);
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(next) = names.pop_front() {
            if next == ".." {
                at.pop();
                continue;
            }
            at.push(next);
            let Ok(facts) = fs::symlink_metadata(&at) else {
                return;
            };
            self.0.entry((facts.dev(), facts.ino())).or_insert(name);
            if !facts.is_symlink() {
                continue;
            }
            links += 1;
            let Ok(target) = fs::read_link(&at) else {
                return;
            };
            if links > MOST_LINKS {
                return;
            }
            at.pop();
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            let mut rest = self::names(&target);
            rest.append(&mut names);
            names = rest;
        }
    }

    /// The name of a path that leads to or through this one.
    pub(super) fn through(&self, path: &Path) -> Option<&'a [u8]> {
        let facts = fs::symlink_metadata(path).ok()?;
        self.0.get(&(facts.dev(), facts.ino())).copied()
    }
}

fn names(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

/// A path in small letters, under which a server without case has it.
pub(super) fn lowercase(path: &[u8]) -> String {
    String::from_utf8_lossy(path).to_lowercase()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_leads_through_links_and_all_directories_on_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/release-7")).unwrap();
        fs::create_dir(at("other")).unwrap();
        fs::write(at("a/release-7/x"), "x").unwrap();
        symlink("a", at("b")).unwrap();
        symlink(at("other/../b/release-7"), at("via")).unwrap();
        symlink("./via", at("current")).unwrap();
        let mut trails = Trails::default();
        trails.add(&at("current"), b"current");
        for name in ["current", "via", "b", "a", "a/release-7", "other"] {
            let expected = Some(&b"current"[..]);
            assert_eq!(trails.through(&at(name)), expected, "{name}");
        }
        assert_eq!(trails.through(&at("a/release-7/x")), None);
        assert_eq!(trails.through(&at("none")), None);
        trails.add(&at("current/x"), b"x");
        assert_eq!(trails.through(&at("a/release-7/x")), Some(&b"x"[..]));
        // Neither has an end.
        symlink("loop", at("loop")).unwrap();
        symlink("none", at("broken")).unwrap();
        trails.add(&at("loop"), b"loop");
        trails.add(&at("broken"), b"broken");
    }
}
