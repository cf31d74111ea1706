//! What users may do, by directory.
//!
//! A rule covers what is in its directory, at any depth. It is looked up by where an open file or directory
//! really is (its link in /proc/self/fd), so that no symbolic link leads around it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use serde::Deserialize;

use super::config::{Config, UserConfig};
use crate::protocol::VirtualPath;

/// What a rule may allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    /// To list directories.
    List,
    /// To read files: RETR, HASH and the like.
    Read,
    /// To upload files under names that are not in use.
    Create,
    /// To replace, continue and change files, too: STOR, APPE, MFMT, SITE CHMOD, SITE UTIME.
    Write,
    /// To remove files and directories.
    Delete,
    /// To rename files and directories; needed where they come from and where they go to.
    Rename,
    /// To make directories.
    Mkdir,
}

impl Right {
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rights(u8);

impl Rights {
    const READER: [Right; 2] = [Right::List, Right::Read];
    const ALL: Self = Self(u8::MAX);

    fn of(rights: &[Right]) -> Self {
        let bits = rights.iter().map(|right| match right {
            Right::Write => Right::Write.bit() | Right::Create.bit(),
            other => other.bit(),
        });
        Self(bits.fold(0, |all, bit| all | bit))
    }

    fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    /// Whether anything can be changed with them.
    fn changes(self) -> bool {
        self.0 & !Self::of(&Self::READER).0 != 0
    }
}

/// Rights in a directory and below it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AccessRule {
    /// The directory, as a path below the served one: `"/incoming"`; it need not exist.
    pub path: String,
    /// Users for whom the rule is; `"anonymous"` for those. Default: everybody, unless there are `groups`.
    #[serde(default)]
    pub users: Vec<String>,
    /// Groups for whose members the rule is: of users, and of the system for system users.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Any of `"list"`, `"read"`, `"create"`, `"write"`, `"delete"`, `"rename"`, `"mkdir"`; `[]` for nothing.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub rights: Vec<Right>,
}

impl AccessRule {
    fn is_for(&self, user: &str, groups: &[String]) -> bool {
        let everybody = self.users.is_empty() && self.groups.is_empty();
        everybody
            || self.users.iter().any(|name| name == user)
            || self.groups.iter().any(|name| groups.contains(name))
    }
}

/// Checks that rules speak of users, groups and paths that there can be.
///
/// # Errors
/// The first rule that does not, and why.
pub(super) fn check(config: &Config) -> Result<(), String> {
    for rule in &config.access {
        let path = &rule.path;
        if !path.starts_with('/') || path.contains('\0') {
            return Err(format!("access: path {path:?} does not begin with /"));
        }
        let known = |name: &String| {
            // Whether there is such a system user is not known.
            let is_anybody = name == "anonymous" || config.pam.is_some();
            is_anybody || config.users.iter().any(|user| user.name == *name)
        };
        if let Some(user) = rule.users.iter().find(|name| !known(name)) {
            return Err(format!("access: path {path:?}: there is no user {user:?}"));
        }
        let known = |name: &String| {
            config.pam.is_some() || config.users.iter().any(|user| user.groups.contains(name))
        };
        if let Some(group) = rule.groups.iter().find(|name| !known(name)) {
            return Err(format!(
                "access: path {path:?}: no user is in a group {group:?}"
            ));
        }
    }
    Ok(())
}

/// One user's rights everywhere.
#[derive(Debug)]
pub(super) struct Access {
    /// The directory that is served.
    root: OwnedFd,
    /// Those for the user, in the order of the configuration.
    rules: Vec<(VirtualPath, Rights)>,
    otherwise: Rights,
}

impl Access {
    /// The rights of a user; of anonymous ones without `user`. None if no rule is for the user.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub(super) fn of(
        config: &Config,
        user: Option<&UserConfig>,
        root: &OwnedFd,
    ) -> io::Result<Option<Self>> {
        let (name, groups) = user.map_or(("anonymous", &[][..]), |user| (&user.name, &user.groups));
        let rules = config.access.iter();
        let rules = rules.filter(|rule| rule.is_for(name, groups)).map(|rule| {
            let path = VirtualPath::root().join(rule.path.as_bytes());
            (path, Rights::of(&rule.rights))
        });
        let rules: Vec<_> = rules.collect();
        if rules.is_empty() {
            return Ok(None);
        }
        let writes = user.is_some_and(|user| user.write);
        Ok(Some(Self {
            root: root.try_clone()?,
            rules,
            otherwise: if writes {
                Rights::ALL
            } else {
                Rights::of(&Rights::READER)
            },
        }))
    }

    /// Whether the user may change anything anywhere.
    pub(super) fn changes(&self) -> bool {
        self.otherwise.changes() || self.rules.iter().any(|(_, rights)| rights.changes())
    }

    /// The rights in a directory: those of the longest path that covers it; of the first of equal ones.
    fn rights(&self, directory: &VirtualPath) -> Rights {
        let covering = self
            .rules
            .iter()
            .filter(|(path, _)| covers(path, directory));
        // Of equals, `max_by_key` takes the last.
        let longest = covering.rev().max_by_key(|(path, _)| path.as_bytes().len());
        longest.map_or(self.otherwise, |(_, rights)| *rights)
    }

    /// Checks the right in an open directory.
    ///
    /// # Errors
    /// `EACCES` if the user does not have it there.
    pub(super) fn require(&self, directory: impl AsFd, right: Right) -> io::Result<()> {
        self.must(self.rights(&self.place(directory)?).has(right))
    }

    /// As [`require`](Self::require), for the directory of an open file.
    ///
    /// # Errors
    /// As [`require`](Self::require).
    pub(super) fn require_of_file(&self, file: impl AsFd, right: Right) -> io::Result<()> {
        self.must(self.rights(&self.place(file)?.parent()).has(right))
    }

    /// Checks that there is any right where something is.
    ///
    /// # Errors
    /// `EACCES` if the user has none there.
    pub(super) fn require_any(&self, open: impl AsFd, is_directory: bool) -> io::Result<()> {
        let place = self.place(open)?;
        let directory = if is_directory { place } else { place.parent() };
        self.must(self.rights(&directory).0 != 0)
    }

    /// Checks that a directory can be renamed without changing what is allowed in it.
    ///
    /// # Errors
    /// `EACCES` if a rule is for it, or for something in it.
    pub(super) fn require_free_of_rules(&self, parent: impl AsFd, name: &OsStr) -> io::Result<()> {
        let path = self.place(parent)?.join(name.as_bytes());
        self.must(!self.rules.iter().any(|(rule, _)| covers(&path, rule)))
    }

    fn must(&self, may: bool) -> io::Result<()> {
        if may {
            Ok(())
        } else {
            Err(Errno::ACCESS.into())
        }
    }

    /// Where an open file or directory is, below the served directory.
    fn place(&self, open: impl AsFd) -> io::Result<VirtualPath> {
        let (root, path) = (path_of(&self.root)?, path_of(open)?);
        let below = match root.as_slice() {
            b"/" => Some(path.as_slice()),
            root => path.strip_prefix(root),
        };
        match below {
            Some(b"") => Ok(VirtualPath::root()),
            Some(below) if below.starts_with(b"/") => Ok(VirtualPath::root().join(below)),
            // Moved out of the served directory meanwhile.
            _ => Err(Errno::ACCESS.into()),
        }
    }
}

/// Whether `path` is `directory` or above it.
fn covers(path: &VirtualPath, directory: &VirtualPath) -> bool {
    match directory.as_bytes().strip_prefix(path.as_bytes()) {
        Some(rest) => rest.is_empty() || rest[0] == b'/' || path.as_bytes() == b"/",
        None => false,
    }
}

fn path_of(open: impl AsFd) -> io::Result<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", open.as_fd().as_raw_fd());
    Ok(rustix::fs::readlink(link, Vec::new())?.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(rules: &[(&str, &[Right])]) -> Access {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new(dir.path());
        config.access = rules
            .iter()
            .map(|(path, rights)| AccessRule {
                path: (*path).into(),
                users: Vec::new(),
                groups: Vec::new(),
                rights: rights.to_vec(),
            })
            .collect();
        let root = std::fs::File::open(dir.path()).unwrap().into();
        Access::of(&config, None, &root).unwrap().unwrap()
    }

    fn at(path: &str) -> VirtualPath {
        VirtualPath::root().join(path.as_bytes())
    }

    #[test]
    fn the_longest_path_decides_and_of_equal_ones_the_first() {
        let access = access(&[
            ("/a", &[Right::List]),
            ("/a/b/", &[Right::Write]),
            ("/a/b", &[Right::Delete]),
        ]);
        let has = |path, right| access.rights(&at(path)).has(right);
        assert!(has("/a", Right::List) && !has("/a", Right::Read));
        assert!(has("/a/b/c", Right::Write) && has("/a/b/c", Right::Create));
        assert!(!has("/a/b/c", Right::List) && !has("/a/b/c", Right::Delete));
        // Not below /a.
        assert!(has("/ab", Right::Read) && !has("/ab", Right::Write));
    }

    #[test]
    fn who_may_change_something_anywhere_is_a_writer() {
        assert!(!access(&[("/a", &[Right::Read])]).changes());
        assert!(access(&[("/a", &[Right::Create])]).changes());
    }
}
