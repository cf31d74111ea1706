//! Quotas: how many bytes and files a user's directory may hold, whoever wrote them.
//!
//! What is there is counted by a walk, when the user first changes something and again from time to time;
//! between the walks the changes are. So a count is right after a crash, and becomes right again after changes
//! by other programs.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;

use super::directory::{Facts, facts};

mod walk;

/// Age of a count after which it is made anew, unless files are being received.
const COUNT_AGE: Duration = Duration::from_secs(600);

/// What a user may have, or has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Amount {
    /// Bytes in files.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
}

impl Amount {
    /// A new file or directory.
    const ONE: Self = Self { bytes: 0, files: 1 };

    /// What a file, directory or link counts as.
    pub(super) fn of(facts: Facts) -> Self {
        Self {
            bytes: if facts.is_regular() { facts.size() } else { 0 },
            files: u64::from(facts.is_regular() || facts.is_directory()),
        }
    }

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
    /// Those of them for which there was room only because each is to replace a file.
    beyond: u64,
}

impl Count {
    fn renew(&mut self, home: &OwnedFd) -> io::Result<()> {
        let is_fresh = self.counted.is_some_and(|when| when.elapsed() < COUNT_AGE);
        if !is_fresh && self.receiving == 0 {
            self.used = walk::amount(home)?;
            self.counted = Some(Instant::now());
        }
        Ok(())
    }

    fn release(&mut self, amount: Amount) {
        self.used.bytes = self.used.bytes.saturating_sub(amount.bytes);
        self.used.files = self.used.files.saturating_sub(amount.files);
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

    /// Makes a directory by `make`, if there is room for one more.
    ///
    /// # Errors
    /// That of `make`; `EDQUOT` if there is no room; or if what is there cannot be counted.
    pub(super) fn add_directory(
        &self,
        home: &OwnedFd,
        make: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut count = self.count.lock();
        count.renew(home)?;
        if !self.limit.has_room(count.used, Amount::ONE) {
            return Err(Errno::DQUOT.into());
        }
        make()?;
        count.used.files += 1;
        Ok(())
    }

    /// Takes something away by `take`, which returns what that was. Nothing is counted meanwhile: a walk might
    /// have seen it or not.
    ///
    /// # Errors
    /// That of `take`.
    pub(super) fn take_away<E>(&self, take: impl FnOnce() -> Result<Amount, E>) -> Result<(), E> {
        let mut count = self.count.lock();
        count.release(take()?);
        Ok(())
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
            charged: Mutex::default(),
        })
    }
}

/// What a file that is being received has been counted as.
#[derive(Debug)]
pub(super) struct Charge {
    quota: Arc<Quota>,
    /// Locked before the count.
    charged: Mutex<Charged>,
}

#[derive(Debug, Default)]
struct Charged {
    amount: Amount,
    /// Whether there was room for it only because it is to replace a file.
    is_beyond: bool,
}

impl Charge {
    /// The file has `size` bytes already; it counts as a new file if it has none, and then there has to be room
    /// for it unless it `replaces` one.
    ///
    /// # Errors
    /// `EDQUOT` if there is none.
    pub(super) fn begin(&self, size: u64, replaces: bool) -> io::Result<()> {
        let mut charged = self.charged.lock();
        charged.amount = Amount {
            bytes: size,
            files: 1,
        };
        if size > 0 {
            return Ok(());
        }
        let mut count = self.quota.count.lock();
        let has_room = self.quota.limit.has_room(count.used, Amount::ONE);
        // Counted in any case: whoever gives up the file releases it.
        count.used.files += 1;
        if has_room {
            return Ok(());
        }
        if !replaces {
            return Err(Errno::DQUOT.into());
        }
        charged.is_beyond = true;
        count.beyond += 1;
        Ok(())
    }

    /// The file is about to have `size` bytes.
    ///
    /// # Errors
    /// `EDQUOT` if there is no room for so many.
    pub(super) fn grow_to(&self, size: u64) -> io::Result<()> {
        let mut charged = self.charged.lock();
        let bytes = size.saturating_sub(charged.amount.bytes);
        if bytes == 0 {
            return Ok(());
        }
        let mut count = self.quota.count.lock();
        let more = Amount { bytes, files: 0 };
        if !self.quota.limit.has_room(count.used, more) {
            return Err(Errno::DQUOT.into());
        }
        count.used.bytes += bytes;
        charged.amount.bytes = size;
        Ok(())
    }

    /// The file has `size` bytes.
    pub(super) fn settle(&self, size: u64) {
        let mut charged = self.charged.lock();
        let mut count = self.quota.count.lock();
        count.used.bytes = (count.used.bytes + size).saturating_sub(charged.amount.bytes);
        charged.amount.bytes = size;
    }

    /// The file is gone.
    pub(super) fn remove(&self) {
        let amount = std::mem::take(&mut self.charged.lock().amount);
        self.quota.count.lock().release(amount);
    }

    /// Holds the count until it is clear whether the file replaces another one.
    pub(super) fn hold(&self) -> Held<'_> {
        Held {
            charged: self.charged.lock(),
            count: self.quota.count.lock(),
            limit: self.quota.limit,
        }
    }

    /// Writes to the file from this position on, as far as the quota has room.
    pub(super) fn writer<'a>(&'a self, file: &'a File, position: u64) -> Writer<'a> {
        Writer {
            charge: self,
            file,
            position,
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut count = self.quota.count.lock();
        count.receiving -= 1;
        count.beyond -= u64::from(self.charged.get_mut().is_beyond);
    }
}

/// A count that nobody else changes meanwhile.
#[derive(Debug)]
pub(super) struct Held<'a> {
    charged: MutexGuard<'a, Charged>,
    count: MutexGuard<'a, Count>,
    limit: Amount,
}

impl Held<'_> {
    /// The file replaces none.
    ///
    /// # Errors
    /// `EDQUOT` if there is no room for one more.
    pub(super) fn stay(&mut self) -> io::Result<()> {
        if !self.charged.is_beyond {
            return Ok(());
        }
        // The others will replace files, or go.
        let others = self.count.beyond - 1;
        if self.count.used.files.saturating_sub(others) > self.limit.files {
            return Err(Errno::DQUOT.into());
        }
        self.charged.is_beyond = false;
        self.count.beyond -= 1;
        Ok(())
    }

    /// The file has taken the place of one of `size` bytes.
    pub(super) fn replaced(&mut self, size: u64) {
        self.count.release(Amount {
            bytes: size,
            files: 1,
        });
    }
}

/// A file that grows no further than its quota allows.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    charge: &'a Charge,
    file: &'a File,
    position: u64,
}

impl Write for Writer<'_> {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::files::Root;
    use super::*;
    use crate::protocol::VirtualPath;

    /// A walk that runs meanwhile may have counted the file or not.
    #[test]
    fn nothing_is_taken_away_while_it_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        for name in ["removed", "moved", "replaced"] {
            fs::write(file(name), "123").unwrap();
        }
        let root = Root::open(dir.path(), Duration::MAX).unwrap();
        let limit = Amount {
            bytes: 10,
            files: 0,
        };
        let quota = Quotas::default()
            .of("alice", root.directory_itself(), limit)
            .unwrap();
        let root = root.of_user(None, Some(Arc::clone(&quota))).unwrap();
        let at = |name: &str| VirtualPath::root().join(name.as_bytes());
        std::thread::scope(|scope| {
            let counting = quota.count.lock();
            let removing = scope.spawn(|| root.remove_file(&at("removed")).unwrap());
            let renaming = scope.spawn(|| root.rename(&at("moved"), &at("replaced")).unwrap());
            std::thread::sleep(Duration::from_millis(50));
            assert!(file("removed").exists() && file("moved").exists());
            drop(counting);
            removing.join().unwrap();
            renaming.join().unwrap();
        });
        let left = Amount { bytes: 3, files: 1 };
        assert_eq!(quota.usage(root.directory_itself()).unwrap().0, left);
    }
}
