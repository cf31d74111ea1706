//! The interface to the storage of paths and their history, which each database implements.

pub mod admit;
pub mod sqlite;

use std::path::PathBuf;

use async_trait::async_trait;
use fairwind_advice::wire::TransferReport;
use fairwind_advice::{Refusals, Sample};
use jiff::Timestamp;
use thiserror::Error;

use crate::path::PathConfig;

/// Identifies a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(pub i64);

/// Identifies a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HopId(pub i64);

/// A path as stored, with its hops.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPath {
    /// The path's number.
    pub id: PathId,
    /// The operator's declaration.
    pub config: PathConfig,
    /// Hops that were declared or have samples, in the order of their creation.
    pub hops: Vec<StoredHop>,
    /// The number of the last change that another program made to it; 0 if none.
    pub changed: i64,
    /// For a discovered path, the time of its host's last transfer; `None` for a declared one.
    pub discovered: Option<Timestamp>,
}

impl StoredPath {
    /// The hop of this name.
    pub fn hop(&self, name: &str) -> Option<&StoredHop> {
        self.hops.iter().find(|hop| hop.name == name)
    }
}

/// A hop of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHop {
    /// The hop's number.
    pub id: HopId,
    /// Name or address.
    pub name: String,
}

/// A write; the writes of one group of [`Store::write`] succeed or fail together.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Samples of a hop.
    Samples {
        /// The path.
        path: PathId,
        /// Name of the hop, created if it is new.
        hop: String,
        /// In the order in which they arrived.
        samples: Vec<Sample>,
        /// Where they may be inserted.
        order: Order,
        /// The present time of the service's clock.
        now: Timestamp,
    },
    /// A round-trip time.
    RoundTrip {
        /// The path.
        path: PathId,
        /// When it was measured.
        time: Timestamp,
        /// Milliseconds; finite and positive.
        rtt_ms: f64,
        /// The source of the measurement.
        source: String,
    },
    /// The result of a transfer.
    Transfer {
        /// The path.
        path: PathId,
        /// When it ended.
        time: Timestamp,
        /// The result.
        report: TransferReport,
    },
}

impl Write {
    /// The path to which it belongs.
    pub fn path(&self) -> PathId {
        match self {
            Self::Samples { path, .. }
            | Self::RoundTrip { path, .. }
            | Self::Transfer { path, .. } => *path,
        }
    }
}

/// Where new samples may be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Only after the newest one, as tests are made.
    Append,
    /// Anywhere, as for an imported recording.
    Fill,
}

/// The outcome of a [`Write`].
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// The samples were validated.
    Samples {
        /// The hop.
        hop: StoredHop,
        /// The samples that were added, ascending in time.
        kept: Vec<Sample>,
        /// The number of refused samples, by reason.
        refused: Refusals,
    },
    /// It was written.
    Done,
    /// The path no longer exists.
    Gone,
    /// The path cannot have this many more hops; nothing of the group was written.
    Full,
}

/// A change of the undeclared paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovered {
    /// Paths to hosts seen for the first time; those whose name is taken are not created.
    pub new: Vec<PathConfig>,
    /// Paths to hosts that were seen again; declared ones are not changed.
    pub seen: Vec<PathId>,
    /// Paths to be removed with their history; declared ones are not removed.
    pub gone: Vec<PathId>,
}

/// A measured round-trip time.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundTrip {
    /// When it was measured.
    pub time: Timestamp,
    /// Milliseconds.
    pub rtt_ms: f64,
    /// The source of the measurement.
    pub source: String,
}

/// A position in a log up to which it has been read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPlace {
    /// Number of bytes read.
    pub position: u64,
    /// The last of these bytes, by which the place is recognised in a file that was moved or copied.
    pub before: Vec<u8>,
}

/// Why the store failed: where, what is wrong, and a remedy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}: {problem}; {cure}", file.display())]
pub struct StoreError {
    /// The database file.
    pub file: PathBuf,
    /// What is wrong.
    pub problem: String,
    /// The remedy.
    pub cure: &'static str,
}

/// The outcomes of a group of writes, in the same order, or why none of them was done.
pub type GroupWritten = Result<Vec<Written>, StoreError>;

/// A store of paths and history. When a call returns, what it wrote is on stable storage.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// All paths, in the order of their names.
    async fn paths(&self) -> Result<Vec<StoredPath>, StoreError>;

    /// Creates the path or changes its declaration, keeping its history.
    async fn put_path(&self, config: &PathConfig) -> Result<StoredPath, StoreError>;

    /// Removes the path and its history; returns whether it existed.
    async fn remove_path(&self, path: PathId) -> Result<bool, StoreError>;

    /// Removes a hop of the path and its history; returns whether it existed.
    async fn remove_hop(&self, path: PathId, hop: HopId) -> Result<bool, StoreError>;

    /// Applies a change of the undeclared paths in one transaction; returns the new ones.
    async fn discover(
        &self,
        change: &Discovered,
        now: Timestamp,
    ) -> Result<Vec<StoredPath>, StoreError>;

    /// Writes the groups in one transaction, with one outcome per group in the same order. A group that
    /// cannot be written does not affect the others.
    async fn write(&self, groups: &[Vec<Write>]) -> Result<Vec<GroupWritten>, StoreError>;

    /// The hop's samples with `from <= time < to`, ascending; the newest `most` of them.
    async fn samples(
        &self,
        hop: HopId,
        from: Timestamp,
        to: Timestamp,
        most: usize,
    ) -> Result<Vec<Sample>, StoreError>;

    /// The path's newest round-trip times, newest first.
    async fn round_trips(&self, path: PathId, most: u32) -> Result<Vec<RoundTrip>, StoreError>;

    /// The path's newest transfers with their end times, newest first.
    async fn transfers(
        &self,
        path: PathId,
        most: u32,
    ) -> Result<Vec<(Timestamp, TransferReport)>, StoreError>;

    /// Deletes round-trip times and transfers before `oldest`.
    async fn forget_before(&self, path: PathId, oldest: Timestamp) -> Result<(), StoreError>;

    /// How far the log of this name has been read; `None` if it never has.
    async fn log_place(&self, name: &str) -> Result<Option<LogPlace>, StoreError>;

    /// Stores how far the log of this name has been read.
    async fn keep_log_place(&self, name: &str, place: &LogPlace) -> Result<(), StoreError>;

    /// Checks that it can be read and written; if the last write failed, another is tried.
    async fn check(&self) -> Result<(), StoreError>;

    /// A number that changes when another program changes something.
    async fn changes(&self) -> Result<i64, StoreError>;
}
