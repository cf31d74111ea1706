//! Files below a root that no name and no symbolic link can leave: every path is resolved by openat2(2)
//! with `RESOLVE_BENEATH`, so it is the kernel that enforces the root.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use super::access::{Access, Right};
use super::directory::{self, Directory, Facts, facts};
use super::partial::{self, Partial, UploadError};
use super::quota::{Amount, Quota};
use super::renaming::rename_to_free;
use crate::protocol::VirtualPath;

/// A directory, and what is below it.
#[derive(Debug)]
pub(super) struct Root {
    directory: OwnedFd,
    identity: (u64, u64),
    /// Unfinished uploads that have not grown for this time have expired.
    pub(super) partial_age: Duration,
    /// The user's rights, if there are rules for them.
    access: Option<Arc<Access>>,
    /// What may be in it.
    quota: Option<Arc<Quota>>,
}

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// Attempts at a resolution that loses races with renames.
const ATTEMPTS: usize = 16;

impl Root {
    /// Opens `directory` as a root where unfinished uploads expire after `partial_age`.
    ///
    /// # Errors
    /// If it is not a directory, or the kernel lacks openat2(2) (Linux 5.6).
    pub(super) fn open(directory: &Path, partial_age: Duration) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = rustix::fs::open(directory, flags, Mode::empty())
            .map_err(|error| named(error.into(), directory.display()))?;
        let root = Self {
            identity: facts(&open)?.identity(),
            directory: open,
            partial_age,
            access: None,
            quota: None,
        };
        root.resolve(&VirtualPath::root(), OFlags::PATH)
            .map_err(|error| named(error, "openat2"))?;
        Ok(root)
    }

    /// The same root, where unfinished uploads expire after another `partial_age`.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub(super) fn again(&self, partial_age: Duration) -> io::Result<Self> {
        Ok(Self {
            directory: self.directory.try_clone()?,
            identity: self.identity,
            partial_age,
            access: None,
            quota: None,
        })
    }

    /// The same directory, where a user has these rights and this quota.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub(super) fn of_user(
        &self,
        access: Option<Access>,
        quota: Option<Arc<Quota>>,
    ) -> io::Result<Self> {
        Ok(Self {
            access: access.map(Arc::new),
            quota,
            ..self.again(self.partial_age)?
        })
    }

    /// The open directory.
    pub(super) fn directory_itself(&self) -> &OwnedFd {
        &self.directory
    }

    /// Device and inode of the directory.
    pub(super) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// What may be in it.
    pub(super) fn quota(&self) -> Option<&Arc<Quota>> {
        self.quota.as_ref()
    }

    /// A root below this one.
    ///
    /// # Errors
    /// If there is no such directory below this root.
    pub(super) fn descend(&self, directory: &Path) -> io::Result<Self> {
        let path = VirtualPath::root().join(directory.as_os_str().as_bytes());
        let directory = self.resolve(&path, OFlags::PATH | OFlags::DIRECTORY)?;
        let partial_age = self.partial_age;
        Ok(Self {
            identity: facts(&directory)?.identity(),
            directory,
            partial_age,
            access: None,
            quota: None,
        })
    }

    /// The only way to anything below the root. To it, names of unfinished uploads do not exist.
    fn resolve(&self, path: &VirtualPath, flags: OFlags) -> io::Result<OwnedFd> {
        if leads_through_a_partial(path) {
            return Err(Errno::NOENT.into());
        }
        let mut flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        // O_PATH can be combined with few other flags.
        if flags.contains(OFlags::PATH) {
            flags.remove(OFlags::NONBLOCK | OFlags::NOCTTY);
        }
        let mut result = Err(Errno::AGAIN);
        for _ in 0..ATTEMPTS {
            result = rustix::fs::openat2(
                &self.directory,
                path.relative(),
                flags,
                Mode::empty(),
                RESOLVE,
            );
            if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        Ok(result?)
    }

    /// The directory that contains `path`, and the name there. For operations on the name itself, which
    /// do not follow links.
    ///
    /// # Errors
    /// If the directory cannot be resolved; `EBUSY` for the root, which has no name; `ENOENT` for names
    /// of unfinished uploads.
    pub(super) fn parent(&self, path: &VirtualPath) -> io::Result<(OwnedFd, OsString)> {
        let (parent, name) = path.split().ok_or(Errno::BUSY)?;
        if leads_through_a_partial(path) {
            return Err(Errno::NOENT.into());
        }
        let directory = self.resolve(&parent, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok((directory, name.to_owned()))
    }

    /// As [`parent`](Self::parent), for a change that needs this right there.
    ///
    /// # Errors
    /// As [`parent`](Self::parent); `EACCES` if the user does not have the right.
    pub(super) fn parent_to(
        &self,
        path: &VirtualPath,
        right: Right,
    ) -> io::Result<(OwnedFd, OsString)> {
        let (directory, name) = self.parent(path)?;
        self.require(&directory, right)?;
        Ok((directory, name))
    }

    /// Checks that the user has this right in an open directory.
    ///
    /// # Errors
    /// `EACCES` if the user does not.
    pub(super) fn require(&self, directory: &OwnedFd, right: Right) -> io::Result<()> {
        match &self.access {
            Some(access) => access.require(directory, right),
            None => Ok(()),
        }
    }

    /// Facts about what `path` leads to.
    ///
    /// # Errors
    /// If it cannot be resolved, or the user has no rights there.
    pub(super) fn facts(&self, path: &VirtualPath) -> io::Result<Facts> {
        let open = self.resolve(path, OFlags::PATH)?;
        let facts = facts(&open)?;
        if let Some(access) = &self.access {
            access.require_any(&open, facts.is_directory())?;
        }
        Ok(facts)
    }

    /// Facts about what `path` leads to; about the link itself if it is broken.
    ///
    /// # Errors
    /// If neither can be resolved.
    pub(super) fn facts_or_of_broken_link(&self, path: &VirtualPath) -> io::Result<Facts> {
        match self.facts(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (parent, name) = self.parent(path)?;
                if let Some(access) = &self.access {
                    access.require_any(&parent, true)?;
                }
                directory::facts_in(&parent, &name)
            }
            facts => facts,
        }
    }

    /// Checks that `path` is a directory that can be entered; it need not be possible to list it.
    ///
    /// # Errors
    /// If it is not a directory, or cannot be entered.
    pub(super) fn enter(&self, path: &VirtualPath) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let directory = self.resolve(path, flags)?;
        if let Some(access) = &self.access {
            access.require_any(&directory, true)?;
        }
        rustix::fs::openat(directory, ".", flags | OFlags::CLOEXEC, Mode::empty())?;
        Ok(())
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// If it cannot be opened; `EISDIR` for a directory, `EINVAL` for a pipe or device, which are not
    /// served.
    pub(super) fn read(&self, path: &VirtualPath) -> io::Result<(File, Facts)> {
        let known = self.facts(path)?;
        if known.is_directory() {
            return Err(Errno::ISDIR.into());
        }
        if !known.is_regular() {
            return Err(Errno::INVAL.into());
        }
        let file = self.resolve(path, OFlags::RDONLY)?;
        let facts = facts(&file)?;
        if !facts.is_regular() {
            return Err(Errno::INVAL.into());
        }
        if let Some(access) = &self.access {
            access.require_of_file(&file, Right::Read)?;
        }
        Ok((file.into(), facts))
    }

    /// Opens a directory for listing.
    ///
    /// # Errors
    /// If it is not a directory, or cannot be read.
    pub(super) fn directory(&self, path: &VirtualPath) -> io::Result<Directory> {
        let directory = self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        self.require(&directory, Right::List)?;
        Ok(Directory(directory))
    }

    /// Makes a directory, without the permission bits of `umask`; the process's decides if there is none.
    ///
    /// # Errors
    /// If the name exists, or cannot be made there; `EDQUOT` if there is no room for it.
    pub(super) fn make_directory(&self, path: &VirtualPath, umask: Option<u32>) -> io::Result<()> {
        let (parent, name) = self.parent_to(path, Right::Mkdir)?;
        let make = || {
            Ok(rustix::fs::mkdirat(
                &parent,
                &name,
                Mode::from_raw_mode(0o777),
            )?)
        };
        match &self.quota {
            Some(quota) => quota.add_directory(&self.directory, make)?,
            None => make()?,
        }
        if let Some(umask) = umask {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = rustix::fs::openat(parent, name, flags, Mode::empty())?;
            change_mode(&made, self.countable(0o777 & !umask))?;
        }
        Ok(())
    }

    /// Removes a directory that is empty, or contains only unfinished uploads that have expired.
    ///
    /// # Errors
    /// If it contains anything else, or cannot be removed.
    pub(super) fn remove_directory(&self, path: &VirtualPath) -> io::Result<()> {
        let (parent, name) = self.parent_to(path, Right::Delete)?;
        let remove = || {
            self.take_away(&parent, &name, || {
                rustix::fs::unlinkat(&parent, &name, AtFlags::REMOVEDIR)
            })
        };
        match remove() {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            removed => return Ok(removed?),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = Directory(rustix::fs::openat(&parent, &name, flags, Mode::empty())?);
        for partial in directory.names_if_all(partial::is_partial)? {
            // A running or recent upload stays, and with it the directory.
            if partial::expire(&directory, &partial, self.partial_age).is_ok_and(|gone| gone) {
                self.changed();
            }
        }
        Ok(remove()?)
    }

    /// Removes a file's name or, if there is none, what an interrupted upload of that name has gathered.
    ///
    /// # Errors
    /// [`UploadError`] if there is neither, it is being uploaded, or it cannot be removed.
    pub(super) fn remove_file(&self, path: &VirtualPath) -> Result<(), UploadError> {
        let (parent, name) = self.parent_to(path, Right::Delete)?;
        let partial = Partial::hold(&parent, &name)?;
        let removed = self.take_away(&parent, &name, || {
            rustix::fs::unlinkat(&parent, &name, AtFlags::empty())
        });
        match removed {
            Err(Errno::NOENT) => {
                let partial = match partial {
                    Some(partial) => partial,
                    None => Partial::existing(parent, &name)?,
                };
                partial.remove()?;
                self.changed();
            }
            removed => removed?,
        }
        Ok(())
    }

    /// Takes away by `take` what a name leads to, in the quota too.
    fn take_away(
        &self,
        parent: &OwnedFd,
        name: &OsStr,
        take: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let Some(quota) = &self.quota else {
            return take();
        };
        quota.take_away(|| {
            let amount =
                directory::facts_in(parent, name).map_or_else(|_| Amount::default(), Amount::of);
            take().map(|()| amount)
        })
    }

    /// The permission bits that a directory gets in place of these: one that its owner could not read would not be
    /// counted.
    fn countable(&self, mode: u32) -> u32 {
        match self.quota {
            Some(_) => mode | 0o700,
            None => mode,
        }
    }

    /// What is in it has changed by an unknown amount.
    pub(super) fn changed(&self) {
        if let Some(quota) = &self.quota {
            quota.forget();
        }
    }

    /// Renames a file or directory.
    ///
    /// # Errors
    /// [`UploadError`] if either name is being uploaded, or cannot be resolved or changed.
    pub(super) fn rename(&self, from: &VirtualPath, to: &VirtualPath) -> Result<(), UploadError> {
        let (from, old) = self.parent_to(from, Right::Rename)?;
        let (to, new) = self.parent_to(to, Right::Rename)?;
        let stays = old == new && facts(&from)?.identity() == facts(&to)?.identity();
        let _old = Partial::hold(&from, &old)?;
        let _new = match stays {
            // Held already.
            true => None,
            false => Partial::hold(&to, &new)?,
        };
        let (moved, replaced) = (
            directory::facts_in(&from, &old)?,
            directory::facts_in(&to, &new).ok(),
        );
        if let Some(access) = &self.access {
            if moved.is_directory() {
                access.require_free_of_rules(&from, &old)?;
            }
            if replaced.is_some() {
                access.require(&to, Right::Write)?;
            }
        }
        if self.require(&to, Right::Write).is_err() && replaced.is_none() {
            // Nor may it replace what somebody else gives the name meanwhile.
            return match rename_to_free((&from, &old), (&to, &new)) {
                Err(Errno::EXIST) => Err(Errno::ACCESS.into()),
                renamed => Ok(renamed?),
            };
        }
        let is_same = replaced.is_some_and(|replaced| replaced.identity() == moved.identity());
        let rename = || rustix::fs::renameat(from, old, &to, &new);
        match is_same {
            true => rename()?,
            false => self.take_away(&to, &new, rename)?,
        }
        Ok(())
    }

    /// Sets the time of the last change of the content.
    ///
    /// # Errors
    /// If the file cannot be opened or changed; `EINVAL` if it is neither a regular file nor a directory.
    pub(super) fn set_modified(&self, path: &VirtualPath, time: Timestamp) -> io::Result<()> {
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: Timespec {
                tv_sec: time.as_second(),
                tv_nsec: i64::from(time.subsec_nanosecond()),
            },
        };
        let known = self.facts(path)?;
        if !known.is_regular() && !known.is_directory() {
            return Err(Errno::INVAL.into());
        }
        let open = self.resolve(path, OFlags::RDONLY)?;
        self.require_change(&open, &known)?;
        Ok(rustix::fs::futimens(open, &times)?)
    }

    /// Checks that the user may change what is open.
    fn require_change(&self, open: &OwnedFd, known: &Facts) -> io::Result<()> {
        match &self.access {
            Some(access) if known.is_directory() => access.require(open, Right::Write),
            Some(access) => access.require_of_file(open, Right::Write),
            None => Ok(()),
        }
    }

    /// Sets the permission bits, `0o000` to `0o777`, of a file that need not be readable, and returns them: a
    /// directory with a quota keeps those of its owner.
    ///
    /// # Errors
    /// If they cannot be changed or /proc is not mounted; `EBUSY` for the root, which its users must not
    /// lock; `EINVAL` if it is neither a regular file nor a directory.
    pub(super) fn set_mode(&self, path: &VirtualPath, mode: u32) -> io::Result<u32> {
        if path.split().is_none() {
            return Err(Errno::BUSY.into());
        }
        let named = self.resolve(path, OFlags::PATH)?;
        let known = facts(&named)?;
        if !known.is_regular() && !known.is_directory() {
            return Err(Errno::INVAL.into());
        }
        self.require_change(&named, &known)?;
        let mode = match known.is_directory() {
            true => self.countable(mode),
            false => mode,
        };
        change_mode(&named, mode)?;
        Ok(mode)
    }

    /// Bytes that an unprivileged user may still write to the file system.
    ///
    /// # Errors
    /// If `path` cannot be resolved.
    pub(super) fn free_bytes(&self, path: &VirtualPath) -> io::Result<u64> {
        let room = rustix::fs::fstatvfs(self.resolve(path, OFlags::PATH)?)?;
        Ok(room.f_bavail.saturating_mul(room.f_frsize))
    }
}

/// Sets the permission bits of what was opened with `O_PATH`: fchmod(2) refuses that, chmod(2) accepts its link in
/// /proc (open(2)).
fn change_mode(open: &OwnedFd, mode: u32) -> io::Result<()> {
    let link = format!("/proc/self/fd/{}", open.as_raw_fd());
    let mode = Mode::from_raw_mode(mode);
    Ok(rustix::fs::chmodat(CWD, link, mode, AtFlags::empty())?)
}

fn leads_through_a_partial(path: &VirtualPath) -> bool {
    let mut names = path.as_bytes().split(|byte| *byte == b'/');
    names.any(partial::is_partial)
}

fn named(error: io::Error, what: impl std::fmt::Display) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Barrier;

    use rustix::fs::FileType;

    use super::super::access::AccessRule;
    use super::super::config::Config;
    use super::*;

    fn at(text: &str) -> VirtualPath {
        VirtualPath::root().join(text.as_bytes())
    }

    fn open(directory: &Path) -> Root {
        Root::open(directory, Duration::MAX).unwrap()
    }

    #[test]
    fn no_symbolic_link_leads_out_of_the_root() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("inside"), "y").unwrap();
        symlink(outside.path(), dir.path().join("absolute")).unwrap();
        symlink("../../../../../../../../etc", dir.path().join("dots")).unwrap();
        symlink("/proc/self/root", dir.path().join("magic")).unwrap();
        symlink("../inside", dir.path().join("sub/link")).unwrap();
        let root = open(dir.path());
        for path in ["absolute/secret", "dots/passwd", "magic/etc/passwd"] {
            let error = root.read(&at(path)).unwrap_err();
            assert_eq!(
                error.raw_os_error(),
                Some(Errno::XDEV.raw_os_error()),
                "{path}: {error}"
            );
            assert!(root.make_directory(&at("absolute/new"), None).is_err());
            assert!(root.remove_file(&at("absolute/secret")).is_err());
            assert!(root.rename(&at("inside"), &at("absolute/inside")).is_err());
        }
        assert_eq!(root.read(&at("sub/link")).unwrap().1.size(), 1);
        assert!(outside.path().join("secret").exists());
    }

    #[test]
    fn who_may_not_write_renames_over_nothing_that_comes_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config {
            access: vec![AccessRule {
                path: "/".into(),
                users: Vec::new(),
                groups: Vec::new(),
                rights: vec![Right::Create, Right::Rename],
            }],
            ..Config::new(dir.path())
        };
        let root = open(dir.path());
        let access = Access::of(&config, None, root.directory_itself()).unwrap();
        let root = root.of_user(access, None).unwrap();
        for round in 0..2_000 {
            let (own, name) = (format!("own{round}"), format!("name{round}"));
            fs::write(dir.path().join(&own), "own").unwrap();
            let begin = Barrier::new(2);
            let (comes, renamed) = std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    begin.wait();
                    File::create_new(dir.path().join(&name)).is_ok()
                });
                begin.wait();
                let renamed = root.rename(&at(&own), &at(&name)).is_ok();
                (other.join().unwrap(), renamed)
            });
            assert!(comes != renamed, "round {round}: both have had the name");
        }
    }

    #[test]
    fn what_holds_no_bytes_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        rustix::fs::mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let root = open(dir.path());
        assert!(root.read(&at("pipe")).is_err());
        assert!(root.read(&at("/")).is_err());
    }
}
