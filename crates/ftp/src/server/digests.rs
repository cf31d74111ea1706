//! Checksums already computed: nobody can make the server read a large file again and again.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::fs::Stat;

use crate::protocol::command::ByteRange;
use crate::protocol::digest::Algorithm;

/// Most checksums kept.
const MAX_ENTRIES: usize = 1_024;

/// A file that was changed this recently may change again without its times showing it: the clocks of
/// file systems are coarse.
const SETTLED: Duration = Duration::from_secs(2);

/// What a checksum is of. The inode's change time is the kernel's alone to set; the modification time can
/// also be set by a client (MFMT).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Subject {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    first: u64,
    end: u64,
    algorithm: Algorithm,
}

impl Subject {
    /// A range of the file with these facts.
    pub(super) fn new(facts: &Stat, range: ByteRange, algorithm: Algorithm) -> Self {
        Self {
            device: facts.st_dev,
            inode: facts.st_ino,
            size: facts.st_size as u64,
            modified: (facts.st_mtime, facts.st_mtime_nsec as i64),
            changed: (facts.st_ctime, facts.st_ctime_nsec as i64),
            first: range.first,
            end: range.end,
            algorithm,
        }
    }

    fn is_settled(&self, now: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let changed = u64::try_from(seconds).ok().and_then(|seconds| {
            let since = Duration::new(seconds, u32::try_from(nanoseconds).ok()?);
            SystemTime::UNIX_EPOCH.checked_add(since)
        });
        changed.is_some_and(|changed| {
            now.duration_since(changed)
                .is_ok_and(|passed| passed >= SETTLED)
        })
    }
}

/// The checksums that were requested most recently.
#[derive(Debug, Default)]
pub(super) struct Digests(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    sums: HashMap<Subject, (String, u64)>,
    /// Counts lookups and additions.
    clock: u64,
}

impl Digests {
    /// The checksum, if it is known.
    pub(super) fn get(&self, subject: &Subject) -> Option<String> {
        let mut kept = self.0.lock();
        kept.clock += 1;
        let now = kept.clock;
        let (sum, used) = kept.sums.get_mut(subject)?;
        *used = now;
        Some(sum.clone())
    }

    /// Keeps a checksum of a file that matched `subject` from `begun`, when reading it began, and still
    /// does.
    pub(super) fn add(&self, subject: Subject, sum: &str, begun: SystemTime) {
        if !subject.is_settled(begun) {
            return;
        }
        let mut kept = self.0.lock();
        if kept.sums.len() >= MAX_ENTRIES && !kept.sums.contains_key(&subject) {
            let oldest = kept.sums.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(subject, _)| subject.clone()) {
                kept.sums.remove(&oldest);
            }
        }
        kept.clock += 1;
        let now = kept.clock;
        kept.sums.insert(subject, (sum.to_owned(), now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(inode: u64, changed: i64) -> Subject {
        Subject {
            device: 1,
            inode,
            size: 10,
            modified: (5, 0),
            changed: (changed, 0),
            first: 0,
            end: 10,
            algorithm: Algorithm::Sha256,
        }
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_checksum_is_of_one_file_as_it_was_once() {
        let digests = Digests::default();
        digests.add(subject(1, 100), "abc", at(102));
        assert_eq!(digests.get(&subject(1, 100)).as_deref(), Some("abc"));
        assert_eq!(digests.get(&subject(1, 101)), None);
        assert_eq!(digests.get(&subject(2, 100)), None);
    }

    #[test]
    fn a_file_that_was_changed_just_now_is_not_trusted() {
        let digests = Digests::default();
        digests.add(subject(1, 100), "abc", at(101));
        digests.add(subject(2, 100), "abc", at(99));
        assert_eq!(digests.get(&subject(1, 100)), None);
        assert_eq!(digests.get(&subject(2, 100)), None);
    }

    #[test]
    fn those_asked_for_last_are_kept() {
        let digests = Digests::default();
        for inode in 0..5_000 {
            digests.add(subject(inode, 100), "abc", at(200));
            assert!(digests.get(&subject(0, 100)).is_some());
        }
        assert_eq!(digests.0.lock().sums.len(), MAX_ENTRIES);
        assert!(digests.get(&subject(4_999, 100)).is_some());
        assert!(digests.get(&subject(1, 100)).is_none());
    }
}
