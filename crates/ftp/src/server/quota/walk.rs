//! Counting what is below a directory, however deep: with two descriptors, and by names that cannot become too long.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::Amount;
use crate::server::directory::{Directory, Facts, facts_in};
use crate::server::partial;

/// Attempts at a walk under which directories are moved.
const ATTEMPTS: usize = 8;

/// Counts the files and directories below a directory; links count as what they take, nothing. What disappears
/// meanwhile is left out, and so are directories that cannot be entered: nobody can put anything there.
///
/// # Errors
/// If a directory cannot be read, since its users may be able to write there; `EAGAIN` if directories are moved
/// all the time.
pub(super) fn amount(home: &OwnedFd) -> io::Result<Amount> {
    for _ in 1..ATTEMPTS {
        match walk(home) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            counted => return counted,
        }
    }
    walk(home)
}

/// A directory on the way from the home to where the walk is.
struct Level {
    identity: (u64, u64),
    /// The directories in it that have not been visited.
    below: Vec<OsString>,
}

fn walk(home: &OwnedFd) -> io::Result<Amount> {
    let mut amount = Amount::default();
    let Some((mut here, level)) = visit(home, OsStr::new("."), &mut amount)? else {
        return Ok(amount);
    };
    let mut levels = vec![level];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.below.pop() {
            if let Some((directory, level)) = visit(&here.0, &name, &mut amount)?
                && !level.below.is_empty()
            {
                here = directory;
                levels.push(level);
            }
            continue;
        }
        levels.pop();
        if let Some(above) = levels.last() {
            here = match open(&here.0, OsStr::new("..")) {
                // It has been removed.
                Err(Errno::NOENT) => return Err(Errno::AGAIN.into()),
                above => Directory(above?),
            };
            if here.facts(OsStr::new("."))?.identity() != above.identity {
                return Err(Errno::AGAIN.into());
            }
        }
    }
    Ok(amount)
}

/// Counts what is in a directory; none if it has gone or cannot be entered.
fn visit(
    parent: &OwnedFd,
    name: &OsStr,
    amount: &mut Amount,
) -> io::Result<Option<(Directory, Level)>> {
    let within = Path::new(name).join(".");
    let directory = match open(parent, name) {
        Ok(directory) => Directory(directory),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(Errno::ACCESS) if is_closed(&facts_in(parent, within.as_os_str())) => {
            return Ok(None);
        }
        Err(Errno::ACCESS) => {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("{name:?} cannot be read, so the quota cannot be counted"),
            ));
        }
        Err(error) => return Err(error.into()),
    };
    let itself = directory.facts(OsStr::new("."));
    if is_closed(&itself) {
        return Ok(None);
    }
    let identity = itself?.identity();
    let mut below = Vec::new();
    directory.each_name(|name| {
        let known = match directory.facts(OsStr::from_bytes(name)) {
            Err(error) if is_gone(&error) => return Ok(ControlFlow::Continue(())),
            known => known?,
        };
        if known.is_directory() {
            below.push(OsStr::from_bytes(name).to_owned());
        }
        if known.size() > 0 || !partial::is_partial(name) {
            let one = Amount::of(known);
            amount.bytes += one.bytes;
            amount.files += one.files;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Some((directory, Level { identity, below })))
}

fn open(parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Whether a directory cannot be entered, by what was learned of `.` in it.
fn is_closed(itself: &io::Result<Facts>) -> bool {
    let error = itself.as_ref().err();
    error.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn open_home(dir: &Path) -> OwnedFd {
        fs::File::open(dir).unwrap().into()
    }

    #[test]
    fn everything_below_is_counted_except_links_and_what_has_only_begun() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::create_dir_all(dir.path().join("c/d")).unwrap();
        for (name, size) in [
            ("x", 1),
            ("a/y", 10),
            ("a/b/z", 100),
            ("a/.u.fairwind-part", 1_000),
            ("c/d/w", 10_000),
        ] {
            fs::write(dir.path().join(name), vec![0; size]).unwrap();
        }
        fs::write(dir.path().join(".v.fairwind-part"), "").unwrap();
        symlink("..", dir.path().join("a/link")).unwrap();
        let expected = Amount {
            bytes: 11_111,
            files: 9,
        };
        assert_eq!(amount(&open_home(dir.path())).unwrap(), expected);
    }

    /// Names of 100 bytes, one below the other, with a sibling each: longer than any path may be.
    #[test]
    fn depth_costs_no_descriptors_and_has_no_end() {
        let dir = tempfile::tempdir().unwrap();
        let home = open_home(dir.path());
        let (name, sibling) = ("d".repeat(100), "s");
        let mut here = home.try_clone().unwrap();
        for _ in 0..2_000 {
            for name in [&*name, sibling] {
                rustix::fs::mkdirat(&here, name, Mode::RWXU).unwrap();
            }
            here = open(&here, OsStr::new(&name)).unwrap();
        }
        let file = OFlags::CREATE | OFlags::WRONLY;
        let file = rustix::fs::openat(&here, "deep", file, Mode::RUSR).unwrap();
        rustix::io::write(&file, b"12345").unwrap();
        let expected = Amount {
            bytes: 5,
            files: 4_001,
        };
        assert_eq!(amount(&home).unwrap(), expected);
        remove_chain(home, &name);
    }

    /// Removes such a chain, whose depth would exhaust descriptors or the stack of what removes directories.
    fn remove_chain(home: OwnedFd, name: &str) {
        // Each directory that is below the first goes up, beside it, until the first is empty.
        let first = open(&home, OsStr::new(name)).unwrap();
        while rustix::fs::renameat(&first, name, &home, "next").is_ok() {
            let next = open(&home, OsStr::new("next")).unwrap();
            let _ = rustix::fs::renameat(&next, name, &first, name);
            let flags = rustix::fs::AtFlags::REMOVEDIR;
            rustix::fs::unlinkat(&next, "s", flags).ok();
            rustix::fs::unlinkat(&next, "deep", rustix::fs::AtFlags::empty()).ok();
            rustix::fs::unlinkat(&home, "next", flags).unwrap();
        }
    }

    /// Without root's rights, which only this thread gives up.
    #[test]
    fn what_cannot_be_read_is_an_error_where_it_can_be_entered() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("d");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("x"), "12").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let home = open_home(dir.path());
        let counted = |mode| {
            fs::set_permissions(&inner, fs::Permissions::from_mode(mode)).unwrap();
            std::thread::scope(|scope| {
                let counting = scope.spawn(|| {
                    if rustix::process::geteuid().is_root() {
                        // SAFETY: it changes only what this thread may do with files.
                        unsafe { libc::setfsuid(65_534) };
                    }
                    amount(&home)
                });
                counting.join().unwrap()
            })
        };
        assert_eq!(counted(0o755).unwrap(), Amount { bytes: 2, files: 2 });
        for open_to_enter in [0o311, 0o333] {
            let error = counted(open_to_enter).unwrap_err();
            assert!(
                error.to_string().contains("\"d\" cannot be read"),
                "{error}"
            );
        }
        for closed in [0o000, 0o444] {
            assert_eq!(counted(closed).unwrap(), Amount { bytes: 0, files: 1 });
        }
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
    }
}
