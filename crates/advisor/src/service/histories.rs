//! A cache of the histories used for advice, with a limit on its memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fairwind_advice::{History, Hop, Refusal, Sample, Samples};
use hashlink::LruCache;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::store::PathId;

/// Bytes per sample in memory.
const SAMPLE_BYTES: usize = 16;
/// Approximate size of a hop without its samples, including its fitted models, bytes.
const HOP_BYTES: usize = 64 << 10;

/// Cached histories of paths; the least recently used are evicted first.
#[derive(Debug)]
pub(super) struct Histories {
    limit_bytes: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    entries: LruCache<PathId, Entry>,
    bytes: usize,
    /// Number of calls of [`Histories::mark_stale`].
    outdated: u64,
    /// Number of changes of each path; a history read before a change must not be cached after it.
    versions: HashMap<PathId, u64>,
}

#[derive(Debug)]
struct Entry {
    history: Arc<History>,
    /// Which call of [`Histories::mark_stale`] made it outdated, if any did: the store has another one.
    outdated: Option<u64>,
}

impl Histories {
    /// A cache of at most `limit_bytes`; the history used last stays even if it is larger.
    pub(super) fn new(limit_bytes: usize) -> Histories {
        Histories {
            limit_bytes,
            inner: Mutex::new(Inner {
                entries: LruCache::new_unbounded(),
                bytes: 0,
                outdated: 0,
                versions: HashMap::new(),
            }),
        }
    }

    /// The cached history of the path, or the version to pass to [`keep`](Self::keep) once it has been read
    /// from the store.
    pub(super) fn get(&self, path: PathId) -> Result<Arc<History>, u64> {
        let mut inner = self.inner.lock();
        match inner.entries.get(&path) {
            Some(entry) => Ok(Arc::clone(&entry.history)),
            None => Err(inner.versions.get(&path).copied().unwrap_or(0)),
        }
    }

    /// The cached history of the path, without counting as a use.
    pub(super) fn peek(&self, path: PathId) -> Option<Arc<History>> {
        let inner = self.inner.lock();
        let entry = inner.entries.peek(&path)?;
        Some(Arc::clone(&entry.history))
    }

    /// Whether another history of average size would fit.
    pub(super) fn has_room(&self) -> bool {
        let inner = self.inner.lock();
        let usual = inner.bytes / inner.entries.len().max(1);
        inner.bytes + usual <= self.limit_bytes
    }

    /// Merges what a copy of the path's history has learned, unless the history has been replaced since.
    pub(super) fn adopt(&self, path: PathId, copy: History) {
        let mut inner = self.inner.lock();
        let Some(entry) = inner.entries.peek_mut(&path) else {
            return;
        };
        let history = Arc::make_mut(&mut entry.history);
        for learned in copy.hops {
            let mut hops = history.hops.iter_mut();
            if let Some(hop) = hops.find(|hop| hop.name == learned.name) {
                hop.adopt(learned);
            }
        }
    }

    /// Caches a history that was read after `version` was returned; returns whether nothing has changed
    /// since.
    pub(super) fn keep(&self, path: PathId, version: u64, history: Arc<History>) -> bool {
        let mut inner = self.inner.lock();
        if inner.versions.get(&path).copied().unwrap_or(0) != version {
            return false;
        }
        inner.bytes += bytes(&history);
        let entry = Entry {
            history,
            outdated: None,
        };
        if let Some(old) = inner.entries.insert(path, entry) {
            inner.bytes -= bytes(&old.history);
        }
        inner.make_room(self.limit_bytes);
        true
    }

    /// Marks the cached history as different from the store's. It stays in use until it is
    /// [replaced](Self::replace).
    pub(super) fn mark_stale(&self, path: PathId) {
        let mut inner = self.inner.lock();
        inner.outdated += 1;
        let since = inner.outdated;
        // A history being read at this moment may be older.
        *inner.versions.entry(path).or_default() += 1;
        if let Some(entry) = inner.entries.peek_mut(&path) {
            entry.outdated = Some(since);
        }
    }

    /// Which call outdated the path's history, if any did, for [`replace`](Self::replace).
    pub(super) fn outdated(&self, path: PathId) -> Option<u64> {
        self.inner.lock().entries.peek(&path)?.outdated
    }

    /// Replaces the outdated history by one that was read after `outdated` was returned, adding the samples
    /// and the round-trip time that have arrived since. Does nothing if the history has been outdated again
    /// or evicted.
    pub(super) fn replace(&self, path: PathId, outdated: u64, mut new: History) {
        let mut inner = self.inner.lock();
        let Some(entry) = inner.entries.peek_mut(&path) else {
            return;
        };
        if entry.outdated != Some(outdated) {
            return;
        }
        let old = &entry.history;
        for hop in &mut new.hops {
            if let Some(old) = old.hops.iter().find(|old| old.name == hop.name) {
                take_newer(hop, old);
            }
        }
        new.rtt = old.rtt.or(new.rtt);
        let (before, after) = (bytes(old), bytes(&new));
        *entry = Entry {
            history: Arc::new(new),
            outdated: None,
        };
        inner.bytes = inner.bytes - before + after;
        inner.make_room(self.limit_bytes);
    }

    /// Adds new samples of a hop, ascending in time. If they do not simply follow the cached ones, the
    /// history is dropped and read again when needed.
    pub(super) fn append(&self, path: PathId, hop: &str, samples: &[Sample]) {
        self.change(path, |history| {
            let hop = history.hops.iter_mut().find(|known| known.name == hop)?;
            append(hop, samples)
        });
    }

    /// Adds a measured round-trip time, milliseconds.
    pub(super) fn see_rtt(&self, path: PathId, rtt_ms: f64) {
        self.change(path, |history| {
            history.rtt = smoothed(history.rtt, rtt_ms);
            Some(())
        });
    }

    /// Drops samples before `oldest` from all histories; what was learned from them stays.
    pub(super) fn forget_before(&self, oldest: Timestamp) {
        let mut inner = self.inner.lock();
        let mut freed = 0;
        for (_, Entry { history, .. }) in inner.entries.iter_mut() {
            let begins_before = |hop: &Hop| {
                let first = hop.samples().all().iter().next();
                first.is_some_and(|first| first.time < oldest)
            };
            if history.hops.iter().any(begins_before) {
                let hops = &mut Arc::make_mut(history).hops;
                freed += hops
                    .iter_mut()
                    .map(|hop| hop.forget_before(oldest))
                    .sum::<usize>();
            }
        }
        inner.bytes -= SAMPLE_BYTES * freed;
    }

    /// Drops everything about a removed path.
    pub(super) fn forget(&self, path: PathId) {
        let mut inner = self.inner.lock();
        inner.versions.remove(&path);
        if let Some(entry) = inner.entries.remove(&path) {
            inner.bytes -= bytes(&entry.history);
        }
    }

    /// Adds a new hop with its first samples.
    pub(super) fn add_hop(&self, path: PathId, hop: Hop) {
        self.change(path, |history| {
            let known = history.hops.iter_mut().find(|known| known.name == hop.name);
            match known {
                Some(known) => {
                    let samples: Vec<Sample> = hop.samples().all().iter().collect();
                    append(known, &samples)
                }
                None => {
                    history.hops.push(hop);
                    Some(())
                }
            }
        });
    }

    /// Approximate memory used by the histories, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }

    fn change(&self, path: PathId, change: impl FnOnce(&mut History) -> Option<()>) {
        let mut inner = self.inner.lock();
        *inner.versions.entry(path).or_default() += 1;
        let Some(Entry { history, .. }) = inner.entries.peek_mut(&path) else {
            return;
        };
        let before = bytes(history);
        // Readers of the unchanged history keep their own copy.
        let changed = change(Arc::make_mut(history));
        let after = bytes(history);
        inner.bytes = inner.bytes - before + after;
        if changed.is_none() {
            inner.entries.remove(&path);
            inner.bytes -= after;
        }
    }
}

impl Inner {
    fn make_room(&mut self, limit_bytes: usize) {
        while self.bytes > limit_bytes && self.entries.len() > 1 {
            let oldest = self.entries.remove_lru();
            self.bytes -= oldest.map_or(0, |(_, entry)| bytes(&entry.history));
        }
    }
}

fn append(hop: &mut Hop, samples: &[Sample]) -> Option<()> {
    samples.iter().try_for_each(|&sample| {
        match hop.insert(sample, Timestamp::MAX) {
            // The sample had been stored before this history was read.
            Err(Refusal::Duplicate) => hop.samples().contains(sample).then_some(()),
            outcome => outcome.ok(),
        }
    })
}

/// Adds the samples of `old` that are newer than all of `hop`.
fn take_newer(hop: &mut Hop, old: &Hop) {
    let newest = hop.samples().all().last().map(|newest| newest.time);
    let newer = old.samples().all().iter().rev();
    let newer: Vec<Sample> = newer
        .take_while(|sample| newest.is_none_or(|newest| sample.time > newest))
        .collect();
    for sample in newer.into_iter().rev() {
        // They were accepted before.
        let _ = hop.insert(sample, Timestamp::MAX);
    }
}

/// The smoothed round-trip time after a measurement of `rtt_ms` milliseconds (RFC 6298, section 2).
pub(super) fn smoothed(before: Option<Duration>, rtt_ms: f64) -> Option<Duration> {
    let smoothed_ms = match before {
        Some(before) => before.as_secs_f64() * 1e3 * 0.875 + rtt_ms * 0.125,
        None => rtt_ms,
    };
    Duration::try_from_secs_f64(smoothed_ms * 1e-3)
        .ok()
        .or(before)
}

/// Samples as they come from the store, ascending in time.
pub(crate) fn samples(stored: &[Sample]) -> Samples {
    let mut samples = Samples::new();
    for &sample in stored {
        // The store has already refused whatever could be refused here.
        let _ = samples.insert(sample, Timestamp::MAX);
    }
    samples
}

fn bytes(history: &History) -> usize {
    let of_hop = |hop: &Hop| HOP_BYTES + SAMPLE_BYTES * hop.samples().len();
    history.hops.iter().map(of_hop).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Sample {
        Sample {
            time: Timestamp::from_second(second).unwrap(),
            available_mbps: 1.0,
        }
    }

    fn history(seconds: &[i64]) -> Arc<History> {
        let stored: Vec<Sample> = seconds.iter().copied().map(at).collect();
        Arc::new(History {
            hops: vec![Hop::new("r1", samples(&stored))],
            rtt: None,
        })
    }

    fn length(histories: &Histories, path: PathId) -> Option<usize> {
        let history = histories.get(path).ok()?;
        Some(history.hops[0].samples().len())
    }

    #[test]
    fn a_new_sample_follows_the_others() {
        let (histories, path) = (Histories::new(1 << 20), PathId(1));
        assert!(histories.keep(path, 0, history(&[1, 2])));
        histories.append(path, "r1", &[at(3), at(4)]);
        assert_eq!(length(&histories, path), Some(4));
        assert_eq!(histories.bytes(), 65_536 + 4 * 16);
    }

    #[test]
    fn samples_that_do_not_follow_make_the_history_be_read_anew() {
        let (histories, path) = (Histories::new(1 << 20), PathId(1));
        assert!(histories.keep(path, 0, history(&[10])));
        histories.append(path, "r1", &[at(3)]);
        assert_eq!((length(&histories, path), histories.bytes()), (None, 0));
        assert!(histories.keep(path, 1, history(&[3, 10])));
        histories.append(path, "a new hop", &[at(11)]);
        assert_eq!(length(&histories, path), None);
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let (histories, path) = (Histories::new(1 << 20), PathId(1));
        let version = histories.get(path).unwrap_err();
        histories.append(path, "r1", &[at(3)]);
        assert!(!histories.keep(path, version, history(&[1])));
        assert_eq!(length(&histories, path), None);
    }

    #[test]
    fn what_a_copy_learned_is_taken_over_unless_the_history_is_another() {
        let settings = fairwind_advice::Settings::default();
        let now = Timestamp::from_second(100).unwrap();
        let is_learned = |histories: &Histories, path| {
            let history = histories.peek(path).unwrap();
            history.hops[0].is_learned(now, &settings)
        };
        let (histories, path) = (Histories::new(1 << 20), PathId(1));
        assert!(histories.keep(path, 0, history(&[1, 2])));
        let mut copy = History::clone(&histories.peek(path).unwrap());
        copy.hops[0].learn(now, &settings);
        histories.append(path, "r1", &[at(3)]);
        assert!(!is_learned(&histories, path));
        histories.adopt(path, copy.clone());
        assert!(is_learned(&histories, path));
        assert_eq!(length(&histories, path), Some(3));
        assert!(histories.keep(path, 1, history(&[0, 1, 2])));
        histories.adopt(path, copy);
        assert!(!is_learned(&histories, path), "a sample has come before");
    }

    #[test]
    fn a_history_that_was_read_anew_takes_over_what_has_come_meanwhile() {
        let (histories, path) = (Histories::new(1 << 20), PathId(1));
        assert!(histories.keep(path, 0, history(&[10])));
        assert_eq!(histories.outdated(path), None);
        histories.mark_stale(path);
        let outdated = histories.outdated(path).unwrap();
        assert_eq!(length(&histories, path), Some(1), "the old one answers");
        histories.append(path, "r1", &[at(11)]);
        histories.append(path, "r1", &[at(12)]);
        let read = || History::clone(&history(&[5, 10, 11]));
        histories.replace(path, outdated, read());
        assert_eq!(length(&histories, path), Some(4));
        assert_eq!(histories.bytes(), 65_536 + 4 * 16);
        // Announced only after it was read from the store.
        histories.append(path, "r1", &[at(11)]);
        assert_eq!(length(&histories, path), Some(4));
        histories.mark_stale(path);
        histories.replace(path, outdated, history(&[1]).as_ref().clone());
        assert_eq!(length(&histories, path), Some(4), "it was outdated again");
    }

    #[test]
    fn old_samples_leave_and_their_room_is_free() {
        let (histories, path) = (Histories::new(1 << 20), PathId(1));
        assert!(histories.keep(path, 0, history(&[1, 2, 3])));
        histories.forget_before(Timestamp::from_second(3).unwrap());
        assert_eq!(length(&histories, path), Some(1));
        assert_eq!(histories.bytes(), 65_536 + 16);
    }

    #[test]
    fn nothing_stays_of_a_path_that_was_forgotten() {
        let (histories, path) = (Histories::new(1 << 20), PathId(1));
        histories.append(path, "r1", &[at(3)]);
        histories.forget(path);
        let inner = histories.inner.lock();
        assert!(inner.versions.is_empty() && inner.entries.is_empty());
        assert_eq!(inner.bytes, 0);
    }

    #[test]
    fn the_longest_unused_histories_leave() {
        let histories = Histories::new(2 * (65_536 + 2 * 16));
        for path in [1, 2] {
            assert!(histories.keep(PathId(path), 0, history(&[1, 2])));
        }
        assert!(histories.get(PathId(1)).is_ok());
        assert!(histories.keep(PathId(3), 0, history(&[1, 2])));
        let there = |path| histories.get(PathId(path)).is_ok();
        assert_eq!([there(1), there(2), there(3)], [true, false, true]);
    }
}
