//! Renaming that replaces nothing, on file systems of every kind.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

use super::directory::facts_in;

/// An open directory and a name there.
type Name<'a> = (&'a OwnedFd, &'a OsStr);

/// Renames a file or directory; what has the new name stays.
///
/// # Errors
/// `EEXIST` if the new name is in use; otherwise if the file system refuses.
pub(super) fn rename_to_free(from: Name<'_>, to: Name<'_>) -> Result<(), Errno> {
    let flags = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(from.0, from.1, to.0, to.1, flags) {
        // NFS and others have no such renaming (rename(2)).
        Err(Errno::INVAL) => rename_by_link(from, to),
        renamed => renamed,
    }
}

/// As [`rename_to_free`], by link(2), which replaces nothing anywhere.
fn rename_by_link(from: Name<'_>, to: Name<'_>) -> Result<(), Errno> {
    let moved = facts_in(from.0, from.1).map_err(|_| Errno::NOENT)?;
    if moved.is_directory() {
        // A directory has no links, and takes the place of nothing but an empty directory.
        return rustix::fs::renameat(from.0, from.1, to.0, to.1);
    }
    let flags = AtFlags::empty();
    rustix::fs::linkat(from.0, from.1, to.0, to.1, flags)?;
    rustix::fs::unlinkat(from.0, from.1, flags)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn what_has_the_new_name_stays() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let open = OwnedFd::from(File::open(dir.path()).unwrap());
        for rename in [rename_to_free, rename_by_link] {
            fs::write(at("a"), "a").unwrap();
            fs::write(at("b"), "b").unwrap();
            fs::create_dir(at("d")).unwrap();
            let renames =
                |from: &str, to: &str| rename((&open, OsStr::new(from)), (&open, OsStr::new(to)));
            assert_eq!(renames("a", "b"), Err(Errno::EXIST));
            assert_eq!(fs::read(at("b")).unwrap(), b"b");
            assert!(renames("d", "b").is_err());
            renames("a", "c").unwrap();
            renames("d", "e").unwrap();
            assert!(!at("a").exists() && !at("d").exists());
            assert_eq!(fs::read(at("c")).unwrap(), b"a");
            fs::remove_file(at("c")).unwrap();
            fs::remove_dir(at("e")).unwrap();
        }
    }
}
