//! The storage of paths and their history.

mod admit;
mod block;
mod error;
mod group;
mod path_measurements;
mod paths;
mod samples;
mod sqlite;

use std::path::PathBuf;

use fairwind_advice::wire::TransferReport;
use fairwind_advice::{Refusals, Sample};
use jiff::Timestamp;
use thiserror::Error;

use crate::path::PathConfig;

pub use sqlite::Store;

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

/// Measurements of a path, written completely or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The path.
    pub path: PathId,
    /// The measurements.
    pub writes: Vec<Write>,
}

/// A measurement, or several samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Samples of a hop.
    Samples {
        /// Name of the hop, created if it is new.
        hop: String,
        /// In the order in which they arrived.
        samples: Vec<Sample>,
        /// Where they may be inserted.
        order: Order,
        /// The present time of the service's clock.
        now: Timestamp,
    },
    /// A round-trip time; finite and positive.
    RoundTrip(RoundTrip),
    /// The result of a transfer.
    Transfer {
        /// When it ended.
        time: Timestamp,
        /// The result.
        report: TransferReport,
    },
}

/// Where new samples may be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Only after the newest one, as tests are made.
    Append,
    /// Anywhere, as for an imported recording.
    Fill,
}

/// The outcome of a [`Group`].
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// It was written; what became of the samples of each hop.
    Done(Vec<Kept>),
    /// The path no longer exists.
    Gone,
    /// The path cannot have this many more hops.
    Full,
}

/// The outcome of [`Write::Samples`].
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The hop.
    pub hop: StoredHop,
    /// The samples that were added, ascending in time.
    pub samples: Vec<Sample>,
    /// The number of refused samples, by reason.
    pub refused: Refusals,
}

/// The outcome of a [`Group`], or why it could not be written.
pub type GroupWritten = Result<Written, StoreError>;

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
