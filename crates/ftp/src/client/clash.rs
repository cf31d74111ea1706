//! Detects files of one command that would end up as the same file: only one of them could survive whole, so
//! neither may be reported as complete.
//!
//! Equal names are found before anything is transferred. Names that the local file system treats as equal
//! (upper and lower case, links) are found by the identity of the file.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// The final and the partial place of a file, both on the receiving side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    pub whole: Vec<u8>,
    pub partial: Vec<u8>,
}

/// Why none of the files is moved that would get one name.
pub const SAME_NAME: &str = "another file of the same command would get the same name";

/// The names that are among these more than once.
pub fn twice<'a>(names: impl Iterator<Item = &'a [u8]>) -> HashSet<&'a [u8]> {
    let mut all: HashSet<&[u8]> = HashSet::new();
    names.filter(|name| !all.insert(name)).collect()
}

/// Why each file cannot be transferred together with the others; `None` for those that can.
pub(super) fn between(places: &[Option<Places>]) -> Vec<Option<&'static str>> {
    let whole = || {
        let places = places.iter().flatten();
        places.map(|places| places.whole.as_slice())
    };
    let (all, twice): (HashSet<&[u8]>, _) = (whole().collect(), twice(whole()));
    let clash = |places: &Places| {
        if twice.contains(places.whole.as_slice()) {
            return Some(SAME_NAME);
        }
        (places.partial != places.whole && all.contains(places.partial.as_slice())).then_some(
            "its unfinished bytes would have the name of another file of the same command",
        )
    };
    let clashes = places.iter().map(|places| places.as_ref().and_then(clash));
    clashes.collect()
}

/// The files that this command has put in their final place here: device and inode of each, and its name.
#[derive(Debug, Default)]
pub(super) struct Settled(Mutex<HashMap<(u64, u64), PathBuf>>);

impl Settled {
    /// Fails if this is a file that is already in its final place.
    pub(super) fn check(&self, file: &Metadata) -> io::Result<()> {
        refuse(&mut self.0.lock(), file)
    }

    /// Puts a file in its final place by calling `settle`, unless a settled file is there.
    pub(super) fn settle<T>(
        &self,
        file: &Metadata,
        place: &Path,
        settle: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut settled = self.0.lock();
        if let Ok(present) = fs::metadata(place) {
            refuse(&mut settled, &present)?;
        }
        let done = settle()?;
        settled.insert(identity(file), place.to_owned());
        Ok(done)
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn refuse(settled: &mut HashMap<(u64, u64), PathBuf>, file: &Metadata) -> io::Result<()> {
    let number = identity(file);
    // One name of a file with several hard links (link(2)) can be replaced without harm to the others.
    let Some(other) = settled.get(&number).filter(|_| file.nlink() == 1) else {
        return Ok(());
    };
    // The other file may have been removed since and its inode number reused.
    if !fs::metadata(other).is_ok_and(|other| identity(&other) == number) {
        settled.remove(&number);
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{}, which this command has fetched, would be the same file",
        other.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(whole: &str, partial: &str) -> Option<Places> {
        Some(Places {
            whole: whole.into(),
            partial: partial.into(),
        })
    }

    #[test]
    fn equal_names_are_found_and_names_of_unfinished_files() {
        let clashes = between(&[
            places("a", ".a.part"),
            places("b", ".b.part"),
            places("a", ".a.part"),
            places(".b.part", "..b.part.part"),
            None,
            None,
        ]);
        let found: Vec<bool> = clashes.iter().map(Option::is_some).collect();
        assert_eq!(found, [true, true, true, false, false, false]);
    }

    #[test]
    fn stored_in_place_a_file_is_no_clash_with_itself() {
        assert_eq!(between(&[places("a", "a")]), [None]);
    }

    #[test]
    fn a_file_that_has_its_place_is_not_replaced_by_the_same_command() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("d")).unwrap();
        // As on a file system for which both names are equal.
        std::os::unix::fs::symlink("d", at("D")).unwrap();
        let (one, other) = (at("d/x"), at("D/x"));
        fs::write(&one, "x").unwrap();
        let file = fs::metadata(&one).unwrap();
        let settled = Settled::default();
        settled.settle(&file, &one, || Ok(())).unwrap();
        let error = settled.settle(&file, &other, || Ok(())).unwrap_err();
        assert!(
            error.to_string().contains("would be the same file"),
            "{error}"
        );
        assert!(settled.check(&file).is_err());
        fs::hard_link(&one, at("link")).unwrap();
        let file = fs::metadata(&one).unwrap();
        settled.settle(&file, &at("link"), || Ok(())).unwrap();
    }

    #[test]
    fn a_file_that_has_left_its_place_leaves_its_number_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("x"), "x").unwrap();
        let file = fs::metadata(at("x")).unwrap();
        let settled = Settled::default();
        settled.settle(&file, &at("x"), || Ok(())).unwrap();
        // As if the file had been deleted and its inode number reused for a new one.
        fs::rename(at("x"), at(".y.part")).unwrap();
        settled.check(&file).unwrap();
        fs::rename(at(".y.part"), at("x")).unwrap();
        settled.settle(&file, &at("y"), || Ok(())).unwrap();
    }
}
