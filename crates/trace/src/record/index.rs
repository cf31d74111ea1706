//! The record of a trace as a whole: `trace.json`.

use serde::{Deserialize, Serialize};

/// The list of connections in the folder of a trace.
pub const INDEX_FILE: &str = "trace.json";

/// A traced connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// File in the folder of the trace.
    pub file: String,
    /// Local address and port.
    pub local: String,
    /// The peer's address and port.
    pub remote: String,
    /// Whether the peer opened it; unknown for connections from before the trace.
    pub incoming: Option<bool>,
    /// Inode of the network namespace.
    pub netns: u32,
    /// Inode of the control group.
    pub cgroup: u64,
    /// The program that opened it or listens for it; at most 15 bytes of its name.
    pub program: Option<String>,
    /// The process that opened it or listens for it.
    pub pid: Option<u32>,
    /// Its congestion controls, in the order of their first use.
    pub congestion_controls: Vec<String>,
    /// Seconds from the beginning of the trace to the first sample.
    pub first_s: f64,
    /// Seconds from the beginning of the trace to the last sample.
    pub last_s: f64,
    /// Whether it was open before the trace.
    pub began_before: bool,
    /// Whether it ended during the trace.
    pub ended: bool,
    /// Rows of the file.
    pub samples: u64,
    /// Events of the connection that found no room in the ring buffer.
    pub lost: u64,
    /// Segments received while it was established that the kernel did not report to the tracer;
    /// counted only if every ACK is sampled. Each may have been a sample.
    #[serde(default)]
    pub skipped: u64,
    /// Samples that found no room on the disk or were lost with a file that could not be written.
    #[serde(default)]
    pub unwritten: u64,
    /// Why the file could not be written, if so; it is then incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The contents of `trace.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// Version of this format: 1.
    pub format_version: u32,
    /// Whether the trace has ended and everything is here; otherwise this is the state at the
    /// latest checkpoint.
    pub complete: bool,
    /// Seconds since 1970 at the beginning of the trace.
    pub began_unix_s: f64,
    /// Length of the trace, seconds.
    pub duration_s: f64,
    /// Seconds between samples; `None` without an interval.
    pub interval_s: Option<f64>,
    /// Whether every ACK gave a sample.
    pub every_ack: bool,
    /// Events that found no room in the ring buffer.
    pub lost: u64,
    /// Events that found no room in the ring buffer, per CPU.
    pub lost_by_cpu: Vec<u64>,
    /// Matching connections that are not traced, as the kernel had no memory for them.
    pub unwatched: u64,
    /// Runs of the tracer's programs that the kernel skipped.
    pub missed_runs: u64,
    /// Segments that the kernel did not report to the tracer, over all connections.
    #[serde(default)]
    pub skipped: u64,
    /// Intervals that passed without a sample, as the tracer got no processor time.
    pub late_intervals: u64,
    /// Samples that found no room on the disk or were lost with a file that could not be written,
    /// including those of removed files.
    pub unwritten: u64,
    /// Connections without a file, as the limit of files was reached.
    pub unrecorded: u64,
    /// Connections whose files were removed to make room; they are not listed any more.
    pub removed: u64,
    /// The connections, in the order in which they were first seen; those still open are listed
    /// only once the trace is complete.
    pub connections: Vec<Connection>,
}

/// Duration and mode of a trace, for its index.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Length of the trace, seconds.
    pub duration_s: f64,
    /// Seconds between samples; `None` without an interval.
    pub interval_s: Option<f64>,
    /// Whether every ACK gave a sample.
    pub every_ack: bool,
    /// Intervals that passed without a sample.
    pub late_intervals: u64,
}
