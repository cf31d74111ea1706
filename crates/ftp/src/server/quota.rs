//! Quotas: how many bytes and files a user's directory may hold, whoever wrote them.
//!
//! What is there is counted by a walk, when the user first changes something and again from time to time;
//! between the walks the changes are. So a count is right after a crash, and becomes right again after changes
//! by other programs.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::directory::{Directory, facts};

/// Age of a count after which it is made anew, unless files are being received.
const COUNT_AGE: Duration = Duration::from_secs(600);

/// What a user may have, or has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Amount {
    /// Bytes in files.
    pub bytes: u64,
    /// Files.
    pub files: u64,
}

impl Amount {
    /// Whether so much more than what is `used` is within this limit, in which 0 is none.
    fn has_room(self, used: Self, more: Self) -> bool {
        let fits = |used: u64, more: u64, limit: u64| {
            limit == 0 || more == 0 || used.saturating_add(more) <= limit
        };
        fits(used.bytes, more.bytes, self.bytes) && fits(used.files, more.files, self.files)
    }
}

/// A user, and device and inode of the user's root.
type Key = (String, (u64, u64));

/// What all users with quotas have, across configurations.
#[derive(Debug, Default)]
pub(super) struct Quotas(Mutex<HashMap<Key, Weak<Mutex<Count>>>>);

impl Quotas {
    /// The quota of a user whom a configuration allows so much; `home` is the directory that it limits.
    ///
    /// # Errors
    /// If the directory's facts cannot be read.
    pub(super) fn of(&self, user: &str, home: &OwnedFd, limit: Amount) -> io::Result<Arc<Quota>> {
        let key = (user.to_owned(), facts(home)?.identity());
        let mut counts = self.0.lock();
        let count = match counts.get(&key).and_then(Weak::upgrade) {
            Some(count) => count,
            None => {
                counts.retain(|_, count| count.strong_count() > 0);
                let count = Arc::default();
                counts.insert(key, Arc::downgrade(&count));
                count
            }
        };
        Ok(Arc::new(Quota { limit, count }))
    }
}

/// One user's quota.
#[derive(Debug)]
pub(super) struct Quota {
    /// 0: no limit.
    limit: Amount,
    /// What all sessions of the user share, under whichever configuration.
    count: Arc<Mutex<Count>>,
}

#[derive(Debug, Default)]
struct Count {
    used: Amount,
    /// When `used` was counted; none if it has to be.
    counted: Option<Instant>,
    /// Files that are being received. While there are any, nothing is counted anew.
    receiving: u64,
}

impl Count {
    fn renew(&mut self, home: &OwnedFd) -> io::Result<()> {
        let is_fresh = self.counted.is_some_and(|when| when.elapsed() < COUNT_AGE);
        if !is_fresh && self.receiving == 0 {
            self.used = walk(home)?;
            self.counted = Some(Instant::now());
        }
        Ok(())
    }
}

impl Quota {
    /// What there is in `home`, and the limit.
    ///
    /// # Errors
    /// If it cannot be counted.
    pub(super) fn usage(&self, home: &OwnedFd) -> io::Result<(Amount, Amount)> {
        let mut count = self.count.lock();
        count.renew(home)?;
        Ok((count.used, self.limit))
    }

    /// Whether so much more fits in.
    ///
    /// # Errors
    /// If what is there cannot be counted.
    pub(super) fn has_room(&self, home: &OwnedFd, more: Amount) -> io::Result<bool> {
        let mut count = self.count.lock();
        count.renew(home)?;
        Ok(self.limit.has_room(count.used, more))
    }

    /// Something has been removed.
    pub(super) fn release(&self, amount: Amount) {
        let mut count = self.count.lock();
        count.used.bytes = count.used.bytes.saturating_sub(amount.bytes);
        count.used.files = count.used.files.saturating_sub(amount.files);
    }

    /// What is there has changed by an unknown amount: it is counted before it matters again.
    pub(super) fn forget(&self) {
        self.count.lock().counted = None;
    }

    /// Counts what is there before a file is received, so that the file is not counted twice.
    ///
    /// # Errors
    /// If it cannot be counted.
    pub(super) fn receive(self: &Arc<Self>, home: &OwnedFd) -> io::Result<Charge> {
        let mut count = self.count.lock();
        count.renew(home)?;
        count.receiving += 1;
        Ok(Charge {
            quota: Arc::clone(self),
            counted: Mutex::default(),
        })
    }
}

/// What a file that is being received has been counted as.
#[derive(Debug)]
pub(super) struct Charge {
    quota: Arc<Quota>,
    counted: Mutex<Amount>,
}

impl Charge {
    /// The file has `size` bytes already; it counts as a new file if it has none, and then there has to be room
    /// for it unless it `replaces` one.
    ///
    /// # Errors
    /// `EDQUOT` if there is none.
    pub(super) fn begin(&self, size: u64, replaces: bool) -> io::Result<()> {
        *self.counted.lock() = Amount {
            bytes: size,
            files: 1,
        };
        if size > 0 {
            return Ok(());
        }
        let mut count = self.quota.count.lock();
        let one = Amount { bytes: 0, files: 1 };
        let has_room = replaces || self.quota.limit.has_room(count.used, one);
        // Counted in any case: whoever gives up the file releases it.
        count.used.files += 1;
        if has_room {
            Ok(())
        } else {
            Err(Errno::DQUOT.into())
        }
    }

    /// The file is about to have `size` bytes.
    ///
    /// # Errors
    /// `EDQUOT` if there is no room for so many.
    pub(super) fn grow_to(&self, size: u64) -> io::Result<()> {
        let mut counted = self.counted.lock();
        let bytes = size.saturating_sub(counted.bytes);
        if bytes == 0 {
            return Ok(());
        }
        let mut count = self.quota.count.lock();
        let more = Amount { bytes, files: 0 };
        if !self.quota.limit.has_room(count.used, more) {
            return Err(Errno::DQUOT.into());
        }
        count.used.bytes += bytes;
        counted.bytes = size;
        Ok(())
    }

    /// The file has `size` bytes.
    pub(super) fn settle(&self, size: u64) {
        let mut counted = self.counted.lock();
        let mut count = self.quota.count.lock();
        count.used.bytes = (count.used.bytes + size).saturating_sub(counted.bytes);
        counted.bytes = size;
    }

    /// The file is gone.
    pub(super) fn remove(&self) {
        let counted = std::mem::take(&mut *self.counted.lock());
        self.quota.release(counted);
    }

    /// The file has taken the place of one of `size` bytes.
    pub(super) fn replaced(&self, size: u64) {
        self.quota.release(Amount {
            bytes: size,
            files: 1,
        });
    }

    /// Writes to the file from this position on, as far as the quota has room.
    pub(super) fn writer<'a>(&'a self, file: &'a File, position: u64) -> Charged<'a> {
        Charged {
            charge: self,
            file,
            position,
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.quota.count.lock().receiving -= 1;
    }
}

/// A file that grows no further than its quota allows.
#[derive(Debug)]
pub(super) struct Charged<'a> {
    charge: &'a Charge,
    file: &'a File,
    position: u64,
}

impl Write for Charged<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.charge.grow_to(self.position + bytes.len() as u64)?;
        let count = self.file.write(bytes)?;
        self.position += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts the files below a directory; links count as what they take, nothing. Directories and files that
/// disappear or cannot be read meanwhile are left out.
fn walk(home: &OwnedFd) -> io::Result<Amount> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut amount = Amount::default();
    // A directory stays open while directories in it wait: as many as the tree is deep.
    let home = Rc::new(home.try_clone()?);
    let mut waiting: Vec<(Rc<OwnedFd>, OsString)> = vec![(home, ".".into())];
    while let Some((parent, name)) = waiting.pop() {
        let Ok(open) = rustix::fs::openat(&*parent, &name, flags, Mode::empty()) else {
            continue;
        };
        let directory = Directory(open);
        let names = directory.names()?;
        let mut below = Vec::new();
        for name in names {
            let Ok(facts) = directory.facts(&name) else {
                continue;
            };
            if facts.is_directory() {
                below.push(name);
            } else if facts.is_regular()
                && (facts.size() > 0 || !super::partial::is_partial(name.as_encoded_bytes()))
            {
                amount.bytes += facts.size();
                amount.files += 1;
            }
        }
        let open = Rc::new(directory.0);
        waiting.extend(below.into_iter().map(|name| (Rc::clone(&open), name)));
    }
    Ok(amount)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn everything_below_is_counted_except_links_and_what_has_only_begun() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        for (name, size) in [
            ("x", 1),
            ("a/y", 10),
            ("a/b/z", 100),
            ("a/.u.fairwind-part", 1_000),
        ] {
            fs::write(dir.path().join(name), vec![0; size]).unwrap();
        }
        fs::write(dir.path().join(".v.fairwind-part"), "").unwrap();
        std::os::unix::fs::symlink("..", dir.path().join("a/link")).unwrap();
        let home = File::open(dir.path()).unwrap().into();
        let expected = Amount {
            bytes: 1_111,
            files: 4,
        };
        assert_eq!(walk(&home).unwrap(), expected);
    }
}
