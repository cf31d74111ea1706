//! Where paths and their history are kept: the boundary that every database stands behind.

pub mod admit;
pub mod sqlite;

use std::path::PathBuf;

use async_trait::async_trait;
use fairwind_advice::{Refusals, Sample};
use jiff::Timestamp;
use thiserror::Error;

use crate::path::PathConfig;
use crate::transfer::TransferReport;

/// Number of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(pub i64);

/// Number of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HopId(pub i64);

/// A path and what the store knows of its hops.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPath {
    /// Number.
    pub id: PathId,
    /// As its operator declared it.
    pub config: PathConfig,
    /// Hops that were declared or have samples, in the order in which they came.
    pub hops: Vec<StoredHop>,
    /// The number of the last change that a program beside the service made to it; 0: none.
    pub changed: i64,
    /// When its host came up last in a transfer, of a path that a log made known; none: it was declared.
    pub discovered: Option<Timestamp>,
}

impl StoredPath {
    /// The hop of this name.
    pub fn hop(&self, name: &str) -> Option<&StoredHop> {
        self.hops.iter().find(|hop| hop.name == name)
    }
}

/// A hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHop {
    /// Number.
    pub id: HopId,
    /// Name or address.
    pub name: String,
}

/// What may be written; all of a group of [`Store::write`] or nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Samples of a hop.
    Samples {
        /// Of which path.
        path: PathId,
        /// Name of the hop, which is created if it is new.
        hop: String,
        /// In the order in which they came.
        samples: Vec<Sample>,
        /// Where they may go.
        order: Order,
        /// What time it is.
        now: Timestamp,
    },
    /// A round-trip time.
    RoundTrip {
        /// Of which path.
        path: PathId,
        /// When it was measured.
        time: Timestamp,
        /// Milliseconds; finite and positive.
        rtt_ms: f64,
        /// Who measured it.
        source: String,
    },
    /// A result of a transfer.
    Transfer {
        /// Of which path.
        path: PathId,
        /// When it ended.
        time: Timestamp,
        /// The result.
        report: TransferReport,
    },
}

impl Write {
    /// The path it concerns.
    pub fn path(&self) -> PathId {
        match self {
            Self::Samples { path, .. }
            | Self::RoundTrip { path, .. }
            | Self::Transfer { path, .. } => *path,
        }
    }
}

/// Where new samples may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Behind the newest one, as tests are made.
    Append,
    /// Anywhere, as when an old recording is read.
    Fill,
}

/// What became of a [`Write`].
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// Samples were judged.
    Samples {
        /// The hop.
        hop: StoredHop,
        /// Those that are now history, ascending in time.
        kept: Vec<Sample>,
        /// How many were refused and why.
        refused: Refusals,
    },
    /// It is written.
    Done,
    /// The path is not there any more.
    Gone,
    /// The path has no room for the hops that were to come; nothing of the group was written.
    Full,
}

/// What comes and goes of paths that nobody declared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovered {
    /// Paths whose hosts came up for the first time; one whose name is taken does not come.
    pub new: Vec<PathConfig>,
    /// Paths whose hosts came up again; one that was declared stays so.
    pub seen: Vec<PathId>,
    /// Paths that are forgotten with their history; one that was declared is not.
    pub gone: Vec<PathId>,
}

/// A measured round-trip time.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundTrip {
    /// When.
    pub time: Timestamp,
    /// Milliseconds.
    pub rtt_ms: f64,
    /// Who measured it.
    pub source: String,
}

/// How far a log has been read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPlace {
    /// Bytes that have been read.
    pub position: u64,
    /// The last of these bytes, by which the place is known again in a file that was moved or copied.
    pub before: Vec<u8>,
}

/// Why the store did not do it: where, what is wrong, and what helps.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}: {problem}; {cure}", file.display())]
pub struct StoreError {
    /// The database.
    pub file: PathBuf,
    /// What is wrong.
    pub problem: String,
    /// What helps.
    pub cure: &'static str,
}

/// What became of a group of writes: of each in the same order, or why none of them was done.
pub type GroupWritten = Result<Vec<Written>, StoreError>;

/// A store of paths and history. What a call wrote is on stable storage when it returns.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// All paths, by name.
    async fn paths(&self) -> Result<Vec<StoredPath>, StoreError>;

    /// Creates the path, or changes what is declared of it; its history stays.
    async fn put_path(&self, config: &PathConfig) -> Result<StoredPath, StoreError>;

    /// Removes the path and its history; whether there was one.
    async fn remove_path(&self, path: PathId) -> Result<bool, StoreError>;

    /// Removes a hop of the path, and its history; whether there was one.
    async fn remove_hop(&self, path: PathId, hop: HopId) -> Result<bool, StoreError>;

    /// Makes the change of paths that nobody declared, in one transaction; those that are new.
    async fn discover(
        &self,
        change: &Discovered,
        now: Timestamp,
    ) -> Result<Vec<StoredPath>, StoreError>;

    /// Writes the groups in one transaction, and answers for each in the same order. A group that
    /// cannot be written takes no other with it.
    async fn write(&self, groups: &[Vec<Write>]) -> Result<Vec<GroupWritten>, StoreError>;

    /// The hop's samples with `from <= time < to`, ascending; the newest `most` of them.
    async fn samples(
        &self,
        hop: HopId,
        from: Timestamp,
        to: Timestamp,
        most: usize,
    ) -> Result<Vec<Sample>, StoreError>;

    /// The path's newest round-trip times, the newest first.
    async fn round_trips(&self, path: PathId, most: u32) -> Result<Vec<RoundTrip>, StoreError>;

    /// The path's newest transfers and when they ended, the newest first.
    async fn transfers(
        &self,
        path: PathId,
        most: u32,
    ) -> Result<Vec<(Timestamp, TransferReport)>, StoreError>;

    /// Forgets round-trip times and transfers before `oldest`.
    async fn forget_before(&self, path: PathId, oldest: Timestamp) -> Result<(), StoreError>;

    /// How far the log of this name has been read, if ever.
    async fn log_place(&self, name: &str) -> Result<Option<LogPlace>, StoreError>;

    /// Keeps how far the log of this name has been read.
    async fn keep_log_place(&self, name: &str, place: &LogPlace) -> Result<(), StoreError>;

    /// Whether it can be read, and written: where the last write failed, another is tried.
    async fn check(&self) -> Result<(), StoreError>;

    /// A number that differs when a program beside the service changed something.
    async fn changes(&self) -> Result<i64, StoreError>;
}
