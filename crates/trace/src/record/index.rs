//! What is kept of a trace as a whole: `trace.json`.

use serde::{Deserialize, Serialize};

/// The list of connections in the folder of a trace.
pub const INDEX_FILE: &str = "trace.json";

/// What is known of a traced connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// File in the folder of the trace.
    pub file: String,
    /// Our end, address and port.
    pub local: String,
    /// The other end.
    pub remote: String,
    /// Whether the other end opened it; not known of those that were there before the trace.
    pub incoming: Option<bool>,
    /// Inode of the network namespace.
    pub netns: u32,
    /// Inode of the control group.
    pub cgroup: u64,
    /// The program that opened it or listens for it, at most 15 bytes of its name.
    pub program: Option<String>,
    /// The process.
    pub pid: Option<u32>,
    /// Its congestion controls, in the order in which it had them first.
    pub congestion_controls: Vec<String>,
    /// Seconds from the beginning of the trace to the first sample.
    pub first_s: f64,
    /// Seconds from the beginning of the trace to the last sample.
    pub last_s: f64,
    /// Whether it was there before the trace.
    pub began_before: bool,
    /// Whether it ended during the trace.
    pub ended: bool,
    /// Rows of the file.
    pub samples: u64,
    /// Events of the connection that found no room in the ring buffer.
    pub lost: u64,
    /// Segments that it received while it was established and of which the kernel did not tell the
    /// tracer; with a sample on every ACK. Each may have been a sample.
    #[serde(default)]
    pub skipped: u64,
    /// Samples that found no room on the disk.
    #[serde(default)]
    pub unwritten: u64,
    /// Why the file cannot be read, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What `trace.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// 1.
    pub format_version: u32,
    /// Whether the trace has ended and all of it is here; without, what was there at the latest
    /// look.
    pub complete: bool,
    /// Seconds since 1970 at the beginning of the trace.
    pub began_unix_s: f64,
    /// Length of the trace, seconds.
    pub duration_s: f64,
    /// Seconds between samples; nothing without an interval.
    pub interval_s: Option<f64>,
    /// Whether every ACK gave a sample.
    pub every_ack: bool,
    /// Events that found no room in the ring buffer.
    pub lost: u64,
    /// The same by CPU.
    pub lost_by_cpu: Vec<u64>,
    /// Connections that match, but for which the kernel had no memory.
    pub unwatched: u64,
    /// Runs of the tracer's programs that the kernel left out.
    pub missed_runs: u64,
    /// Segments of which the kernel did not tell the tracer, of all connections.
    #[serde(default)]
    pub skipped: u64,
    /// Intervals that passed without a sample, since the tracer got no processor.
    pub late_intervals: u64,
    /// Samples that found no room on the disk, those of removed files too.
    pub unwritten: u64,
    /// Connections without a file, since there were as many files as there may be.
    pub unrecorded: u64,
    /// Connections whose files were removed to make room; they are no longer in the list.
    pub removed: u64,
    /// The connections, in the order in which they were first seen; those that have not ended only
    /// once the trace is complete.
    pub connections: Vec<Connection>,
}

/// Length and manner of a trace, for its index.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Length of the trace, seconds.
    pub duration_s: f64,
    /// Seconds between samples; nothing without an interval.
    pub interval_s: Option<f64>,
    /// Whether every ACK gave a sample.
    pub every_ack: bool,
    /// Intervals that passed without a sample.
    pub late_intervals: u64,
}
