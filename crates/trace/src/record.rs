//! Events into files: one per connection, from its first packet to its last, and `trace.json`,
//! which lists them and reports what was not seen.

mod index;
mod recording;
mod store;

use std::collections::HashMap;
use std::fs;
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;

use fairwind_kernel::{hz, monotonic_ns, unix_ns};

use crate::event::{Event, Identity, Sample, State};
use crate::file::{Columns, FileError};
use crate::kernel::Counts;
use recording::{Recording, Tools};
use store::Store;

pub use index::{Connection, INDEX_FILE, Index, Manner};
pub use store::{Limits, WhenFull};

/// Maximum of rows waiting in memory, over all connections; some 50 MB.
const MAX_WAITING_ROWS: usize = 1 << 18;

/// Writes the files of a trace.
///
/// A file that cannot be written does not affect the others; its connection's entry has the error.
pub struct Recorder {
    began_unix_s: f64,
    tools: Tools,
    waiting: usize,
    open: HashMap<u64, Recording, BuildHasherDefault<CookieHasher>>,
    seen: usize,
    unrecorded: u64,
    /// Samples without room, of connections that have ended.
    unwritten: u64,
}

/// Hashes socket cookies, which are consecutive, distinct and not chosen by an attacker.
#[derive(Default)]
struct CookieHasher(u64);

impl Hasher for CookieHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, cookie: u64) {
        // 2^64 divided by the golden ratio: spreads neighbouring cookies far apart.
        self.0 = (self.0 ^ cookie).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Recorder {
    /// Creates a recorder for files with these columns in `folder`, which must be new or empty;
    /// times count from now.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be created or read, or is not empty.
    pub fn create(folder: &Path, columns: Columns, limits: Limits) -> Result<Recorder, FileError> {
        fs::create_dir_all(folder).map_err(|error| FileError::new(folder, error))?;
        let mut entries = fs::read_dir(folder).map_err(|error| FileError::new(folder, error))?;
        if entries.next().is_some() {
            let reason = "the folder is not empty; name a new one";
            return Err(FileError::new(folder, reason));
        }
        Ok(Recorder {
            began_unix_s: unix_ns() as f64 / 1e9,
            tools: Tools {
                began_ns: monotonic_ns(),
                hz: hz(),
                columns,
                store: Store::new(folder, limits),
            },
            waiting: 0,
            open: HashMap::default(),
            seen: 0,
            unrecorded: 0,
            unwritten: 0,
        })
    }

    /// Records an event.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written. Nothing more is recorded of that connection, and the
    /// index bears the error; the other connections are not affected.
    pub fn event(&mut self, event: &Event<'_>) -> Result<(), FileError> {
        match event {
            Event::Open(identity) => self.opened(identity),
            Event::Identity(identity) => {
                if let Some(recording) = self.open.get_mut(&identity.head.id) {
                    recording.identify(identity);
                }
            }
            Event::Control(control) => {
                if let Some(recording) = self.open.get_mut(&control.head.id) {
                    recording.name_control(control.name(), &self.tools.columns.states);
                }
            }
            Event::Sample(sample, state) => self.sample(sample, *state)?,
            Event::Close(sample, state) => {
                self.sample(sample, *state)?;
                if let Some(mut recording) = self.open.remove(&sample.head.id) {
                    recording.connection.ended = true;
                    self.finish_one(recording)?;
                }
            }
        }
        Ok(())
    }

    fn opened(&mut self, identity: &Identity) {
        if let Some(recording) = self.open.get_mut(&identity.head.id) {
            recording.identify(identity);
            return;
        }
        if !self.tools.store.has_room_for_file(self.open.len()) {
            self.unrecorded += 1;
            return;
        }
        let since = identity.head.time_ns as i64 - self.tools.began_ns as i64;
        let recording = Recording::new(self.seen, identity, since as f64 / 1e9);
        self.seen += 1;
        self.open.insert(identity.head.id, recording);
    }

    fn sample(&mut self, sample: &Sample, state: Option<&State>) -> Result<(), FileError> {
        // A sample requested just when the connection ended, or of one whose opening event was lost.
        let Some(recording) = self.open.get_mut(&sample.head.id) else {
            return Ok(());
        };
        let change = recording.sample(sample, state, &mut self.tools);
        match &change {
            Ok(change) => self.waiting = self.waiting.saturating_add_signed(*change),
            Err(_) => self.waiting = self.open.values().map(Recording::waiting).sum(),
        }
        if self.waiting >= MAX_WAITING_ROWS {
            self.write_all()?;
        }
        change.map(|_| ())
    }

    /// Writes all waiting rows; an error does not stop the other connections.
    fn write_all(&mut self) -> Result<(), FileError> {
        self.waiting = 0;
        let mut written = Ok(());
        for recording in self.open.values_mut() {
            written = written.and(recording.write(&mut self.tools));
        }
        written
    }

    fn finish_one(&mut self, recording: Recording) -> Result<(), FileError> {
        self.waiting = self.waiting.saturating_sub(recording.waiting());
        let (unwritten, ended) = recording.finish(&mut self.tools);
        self.unwritten += unwritten;
        ended
    }

    /// Number of open connections.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Number of connections seen so far.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Samples, and connections, that found no room so far.
    pub fn left_out(&self) -> (u64, u64) {
        let open = self.open.values().map(|r| r.connection.unwritten);
        (self.unwritten + open.sum::<u64>(), self.unrecorded)
    }

    /// Number of connections whose files were removed to make room.
    pub fn removed(&self) -> u64 {
        self.tools.store.removed
    }

    /// Writes the index as of now, for readers while the trace is running and in case it never
    /// ends.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be written.
    pub fn checkpoint(&self, counts: &Counts, manner: &Manner) -> Result<(), FileError> {
        self.write_index(&self.index(counts, manner, false))
    }

    /// Ends all files and writes the index. Returns the index, and the errors of files that could
    /// not be ended.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be written.
    pub fn finish(
        mut self,
        counts: &Counts,
        manner: &Manner,
    ) -> Result<(Index, Vec<FileError>), FileError> {
        let mut failed = Vec::new();
        for (_, recording) in std::mem::take(&mut self.open) {
            failed.extend(self.finish_one(recording).err());
        }
        let index = self.index(counts, manner, true);
        self.write_index(&index)?;
        Ok((index, failed))
    }

    fn index(&self, counts: &Counts, manner: &Manner, complete: bool) -> Index {
        Index {
            format_version: 1,
            complete,
            began_unix_s: self.began_unix_s,
            duration_s: manner.duration_s,
            interval_s: manner.interval_s,
            every_ack: manner.every_ack,
            lost: counts.lost.iter().sum(),
            lost_by_cpu: counts.lost.clone(),
            unwatched: counts.unwatched,
            missed_runs: counts.missed_runs,
            skipped: counts.skipped,
            late_intervals: manner.late_intervals,
            unwritten: self.left_out().0,
            unrecorded: self.unrecorded,
            removed: self.tools.store.removed,
            connections: self.tools.store.connections(),
        }
    }

    /// Writes the index under another name and renames it when it is complete.
    fn write_index(&self, index: &Index) -> Result<(), FileError> {
        let path = self.tools.store.folder.join(INDEX_FILE);
        let unfinished = path.with_extension("json.part");
        let text = serde_json::to_string_pretty(index).expect("plain values");
        fs::write(&unfinished, text + "\n")
            .and_then(|()| fs::rename(&unfinished, &path))
            .map_err(|error| FileError::new(&path, error))
    }
}
