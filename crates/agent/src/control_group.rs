//! Control groups (version 2) for commands.
//!
//! Source: cgroups(7), Documentation/admin-guide/cgroup-v2.rst of Linux.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, ReadDir};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fairwind_kernel::is_shortage;
use libbpf_rs::Link;
use libbpf_rs::query::LinkTypeInfo;
use rustix::fs::{FlockOperation, flock};

/// What the names of the groups begin with.
const PREFIX: &str = "fairwind-run-";
/// How often, and after which pauses, a group is tried to be held, which another run looks at.
const HOLD_ATTEMPTS: u32 = 100;
const HOLD_PAUSE: Duration = Duration::from_millis(10);

/// Why there is no control group.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The file system is not mounted.
    #[error("no control groups of version 2 are mounted: mount -t cgroup2 none /sys/fs/cgroup")]
    NotMounted,
    /// The process may not make one, or something else went wrong.
    #[error("{path}: {source}; a control group for the command is made there")]
    Failed {
        /// File or folder.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

fn at(path: &Path) -> impl Fn(io::Error) -> GroupError {
    move |source| GroupError::Failed {
        path: path.to_owned(),
        source,
    }
}

/// A control group below that of this process, by whose name other things of the run can be known. Dropping it removes it,
/// unless processes are left in it.
#[derive(Debug)]
pub struct ControlGroup {
    folder: PathBuf,
    opened: File,
    members: File,
}

impl ControlGroup {
    /// Makes one for a command of this process, and removes what ended runs have left beside it.
    ///
    /// # Errors
    ///
    /// If there is no such file system, or the process may not make groups below its own.
    pub fn make() -> Result<ControlGroup, GroupError> {
        ControlGroup::make_for(std::process::id())
    }

    /// The same below the group of another process, by whose number it is named.
    ///
    /// # Errors
    ///
    /// As of [`make`](ControlGroup::make); and if there is no such process.
    pub fn make_for(process: u32) -> Result<ControlGroup, GroupError> {
        let root = fairwind_kernel::mounted("cgroup2").ok_or(GroupError::NotMounted)?;
        let own = PathBuf::from(format!("/proc/{process}/cgroup"));
        let groups = fs::read_to_string(&own).map_err(at(&own))?;
        let parent = root.join(own_path(&groups).ok_or(GroupError::NotMounted)?);
        remove_left(&parent);
        remove_left_pins();
        ControlGroup::at(parent.join(format!("{PREFIX}{process}")))
    }

    fn at(folder: PathBuf) -> Result<ControlGroup, GroupError> {
        let mut attempts = 0;
        let opened = loop {
            match fs::create_dir(&folder) {
                // Of a process that had this number, whose command goes on.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(at(&folder))?,
            }
            // Until it is held, another run may take it for left.
            match hold(&folder) {
                Ok(opened) => break opened,
                Err(_) if attempts < HOLD_ATTEMPTS => attempts += 1,
                Err(error) => return Err(at(&folder)(error)),
            }
            std::thread::sleep(HOLD_PAUSE);
        };
        let procs = folder.join("cgroup.procs");
        let members = OpenOptions::new().write(true).open(&procs);
        Ok(ControlGroup {
            opened,
            members: members.map_err(at(&procs))?,
            folder,
        })
    }

    /// Its name, which no other run of this host has.
    pub fn name(&self) -> &OsStr {
        self.folder.file_name().expect("it was made with one")
    }

    /// Its inode, by which the kernel's programs know it.
    ///
    /// # Errors
    ///
    /// If it is gone.
    pub fn inode(&self) -> Result<u64, GroupError> {
        Ok(self.opened.metadata().map_err(at(&self.folder))?.ino())
    }

    /// What moves processes into it.
    ///
    /// # Errors
    ///
    /// If this process has no descriptor left.
    pub fn door(&self) -> io::Result<Door> {
        Ok(Door(self.members.try_clone()?))
    }

    /// Moves a process into it.
    ///
    /// # Errors
    ///
    /// If the process may not be moved.
    pub fn admit(&self, process: u32) -> Result<(), GroupError> {
        let written = (&self.members).write_all(process.to_string().as_bytes());
        written.map_err(at(&self.folder))
    }

    /// Moves a process of it to the group above.
    ///
    /// # Errors
    ///
    /// If the process is gone, or may not be moved.
    pub fn release(&self, process: u32) -> Result<(), GroupError> {
        let above = self.folder.with_file_name("cgroup.procs");
        fs::write(&above, process.to_string()).map_err(at(&above))
    }

    /// The processes in it.
    pub fn processes(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

/// Moves processes into a control group.
#[derive(Debug)]
pub struct Door(File);

impl Door {
    /// Moves the calling process. May be called between fork and exec.
    ///
    /// # Errors
    ///
    /// If the process may not be moved.
    pub fn enter(&self) -> io::Result<()> {
        // 0 is who writes.
        (&self.0).write_all(b"0")
    }
}

impl AsFd for ControlGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.opened.as_fd()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // The next run removes it if processes are left in it now.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The control groups that are there, by their inodes: their paths from the root, which is `/`.
///
/// # Errors
///
/// If some cannot be looked for, as where no descriptor is free.
pub(crate) fn paths() -> io::Result<BTreeMap<u64, String>> {
    let root = fairwind_kernel::mounted("cgroup2");
    root.map_or(Ok(BTreeMap::new()), |root| {
        paths_below(&root, |folder| fs::read_dir(folder))
    })
}

/// The same below this folder, by this call that lists one.
fn paths_below(
    root: &Path,
    list: impl Fn(&Path) -> io::Result<ReadDir>,
) -> io::Result<BTreeMap<u64, String>> {
    let mut paths = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        // It may be gone by now.
        let Ok(metadata) = fs::metadata(&folder) else {
            continue;
        };
        let below = folder.strip_prefix(root).unwrap_or(&folder);
        paths.insert(metadata.ino(), format!("/{}", below.display()));
        let entries = match list(&folder) {
            Err(error) if is_shortage(&error) => return Err(error),
            entries => entries.into_iter().flatten().flatten(),
        };
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(folders.map(|entry| entry.path()));
    }
    Ok(paths)
}

/// Whether those are all of the host, and not only some that a container sees: the root alone has no events.
pub(crate) fn are_all_seen() -> bool {
    let root = fairwind_kernel::mounted("cgroup2");
    root.is_some_and(|root| {
        root.join("cgroup.procs").exists() && !root.join("cgroup.events").exists()
    })
}

/// The path of a process' group below the mount point, from `/proc/PID/cgroup`.
fn own_path(groups: &str) -> Option<&str> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(path.trim_start_matches('/'))
}

/// The file that keeps the programs at the group with this inode, as others that see other processes may have groups of the
/// same name; none without a BPF file system.
pub(crate) fn pin(group: u64) -> Option<PathBuf> {
    let bpf = fairwind_kernel::bpf_file_system().ok()?;
    Some(bpf.join(format!("{PREFIX}{group}")))
}

/// Opens a group, and keeps others from removing it as long as that is open: its maker's number means nothing to who sees
/// other processes, as in a container.
fn hold(folder: &Path) -> io::Result<File> {
    let opened = File::open(folder)?;
    flock(&opened, FlockOperation::NonBlockingLockExclusive)?;
    // Before it was held, it may have been removed, and another one made.
    if fs::metadata(folder)?.ino() == opened.metadata()?.ino() {
        return Ok(opened);
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Removes groups of ended runs, and what is kept of their programs. The kernel refuses it where processes are left.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_runs = name.to_str().is_some_and(|name| name.starts_with(PREFIX));
        // One whose maker still runs may not have its command yet.
        if is_runs
            && let Ok(held) = hold(&entry.path())
            && let Ok(inode) = held.metadata().map(|held| held.ino())
            && fs::remove_dir(entry.path()).is_ok()
            && let Some(pin) = pin(inode)
        {
            let _ = fs::remove_file(pin);
        }
    }
}

/// Removes what is kept of programs whose groups somebody else has removed.
fn remove_left_pins() {
    let Ok(pins) = fairwind_kernel::bpf_file_system() else {
        return;
    };
    for entry in fs::read_dir(pins).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX)) && is_detached(&entry.path())
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether the program that this file keeps is at no group any more.
fn is_detached(pin: &Path) -> bool {
    Link::open(pin).is_ok_and(|link| is_severed(&link))
}

/// Whether the group is gone at which a program was.
pub(crate) fn is_severed(link: &Link) -> bool {
    match link.info().map(|info| info.info) {
        Ok(LinkTypeInfo::Cgroup(group)) => group.cgroup_id == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_version_2_has_number_0() {
        let both = "4:memory:/a\n0::/user.slice/session.scope\n";
        assert_eq!(own_path(both), Some("user.slice/session.scope"));
        assert_eq!(own_path("0::/\n"), Some(""));
        assert_eq!(own_path("4:memory:/a\n"), None);
    }

    #[test]
    fn groups_that_cannot_be_listed_are_not_taken_for_gone() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let but = |error: i32| {
            let list = |folder: &Path| match folder.ends_with("a") {
                true => Err(io::Error::from_raw_os_error(error)),
                false => fs::read_dir(folder),
            };
            let paths = paths_below(root.path(), list);
            paths.map(|paths| paths.into_values().collect::<Vec<_>>())
        };
        let full = but(libc::EMFILE).unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::EMFILE));
        // It has just been removed.
        let mut there = but(libc::ENODEV).unwrap();
        there.sort();
        assert_eq!(there, ["/", "/a"]);
        let all = paths_below(root.path(), |folder| fs::read_dir(folder)).unwrap();
        let inode = fs::metadata(&inner).unwrap().ino();
        assert_eq!(all[&inode], "/a/b");
    }

    #[test]
    fn a_group_is_kept_as_long_as_its_run_whoever_looks() {
        if !fairwind_testing::permitted(fairwind_testing::root()) {
            return;
        }
        let parent = fairwind_kernel::mounted("cgroup2").unwrap();
        let parent = parent.join(format!("fairwind-held-{}", std::process::id()));
        fs::create_dir(&parent).unwrap();
        // No process of this number is seen, as if it ran outside of a container.
        let folder = parent.join(format!("{PREFIX}4194305"));
        let group = ControlGroup::at(folder.clone()).unwrap();
        remove_left(&parent);
        assert!(folder.exists());
        // Its run is killed.
        flock(&group.opened, FlockOperation::Unlock).unwrap();
        remove_left(&parent);
        assert!(!folder.exists());
        fs::remove_dir(parent).unwrap();
    }
}
