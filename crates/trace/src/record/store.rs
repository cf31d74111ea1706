//! How much room the files of a trace may take, and what gives way when it is used up.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use super::index::Connection;

/// Limits of a trace's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of all files, bytes; ending the open files may exceed it slightly.
    pub total_bytes: Option<u64>,
    /// Maximum number of files, and of entries in the index.
    pub connections: usize,
    /// Bytes of the disk that must stay free.
    pub free_bytes: u64,
    /// What happens at a limit.
    pub when_full: WhenFull,
}

impl Default for Limits {
    /// All of the disk but 64 MiB, and 100,000 connections, so that neither the index in memory nor
    /// the folder grows for as long as a daemon runs. Beyond that, new samples and connections are
    /// left out.
    fn default() -> Limits {
        Limits {
            total_bytes: None,
            connections: 100_000,
            free_bytes: 64 << 20,
            when_full: WhenFull::LeaveOut,
        }
    }
}

/// What happens when a limit is reached. What is left out or removed is counted and reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// New samples and connections are left out.
    LeaveOut,
    /// The files of the connections that ended first are removed; new samples are left out only
    /// when none are left.
    RemoveOldest,
}

/// The finished files of a trace, and the room that all files take.
#[derive(Debug)]
pub(super) struct Store {
    pub folder: PathBuf,
    limits: Limits,
    /// Bytes of all files, including those being written.
    bytes: u64,
    finished: VecDeque<Finished>,
    pub removed: u64,
}

#[derive(Debug)]
struct Finished {
    number: usize,
    bytes: u64,
    connection: Connection,
}

impl Store {
    pub(super) fn new(folder: &Path, limits: Limits) -> Store {
        Store {
            folder: folder.to_owned(),
            limits,
            bytes: 0,
            finished: VecDeque::new(),
            removed: 0,
        }
    }

    /// Whether `bytes` more have room; old files may be removed to make it.
    pub(super) fn has_room(&mut self, bytes: u64) -> bool {
        loop {
            let limit = self.limits.total_bytes.unwrap_or(u64::MAX);
            let within = self.bytes.saturating_add(bytes) <= limit;
            // If the free space is unknown, writing is tried.
            let free = statvfs(&self.folder).map_or(u64::MAX, |disk| disk.f_bavail * disk.f_frsize);
            if within && free >= self.limits.free_bytes.saturating_add(bytes) {
                return true;
            }
            if !self.remove_oldest() {
                return false;
            }
        }
    }

    /// Whether one more file is allowed beside the `open` ones; old files may be removed for it.
    pub(super) fn has_room_for_file(&mut self, open: usize) -> bool {
        while open + self.finished.len() >= self.limits.connections {
            if !self.remove_oldest() {
                return false;
            }
        }
        true
    }

    fn remove_oldest(&mut self) -> bool {
        if self.limits.when_full == WhenFull::LeaveOut {
            return false;
        }
        let Some(oldest) = self.finished.pop_front() else {
            return false;
        };
        // If someone else has removed or moved it, it makes room as well.
        let _ = fs::remove_file(self.folder.join(&oldest.connection.file));
        self.bytes = self.bytes.saturating_sub(oldest.bytes);
        self.removed += 1;
        true
    }

    pub(super) fn grew(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    pub(super) fn finished(&mut self, number: usize, connection: Connection, bytes: u64) {
        self.finished.push_back(Finished {
            number,
            bytes,
            connection,
        });
    }

    /// The finished connections, in the order in which they were first seen.
    pub(super) fn connections(&self) -> Vec<Connection> {
        let mut order: Vec<&Finished> = self.finished.iter().collect();
        order.sort_by_key(|finished| finished.number);
        order.into_iter().map(|f| f.connection.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_100_000_files_where_nothing_is_said() {
        let mut store = Store::new(Path::new("nowhere"), Limits::default());
        store.finished(0, Connection::default(), 0);
        assert!(store.has_room_for_file(99_998));
        assert!(!store.has_room_for_file(99_999));
        assert_eq!(store.removed, 0);
    }

    #[test]
    fn the_index_is_no_longer_than_there_may_be_files() {
        let limits = Limits {
            connections: 3,
            when_full: WhenFull::RemoveOldest,
            ..Limits::default()
        };
        let mut store = Store::new(Path::new("nowhere"), limits);
        for number in 0..10 {
            assert!(store.has_room_for_file(0));
            store.finished(number, Connection::default(), 0);
        }
        assert_eq!((store.connections().len(), store.removed), (3, 7));
    }
}
