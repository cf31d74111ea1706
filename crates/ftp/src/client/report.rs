//! Results of transfers.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fairwind_kernel::TcpInfo;
use fairwind_transfer::Direction;
use rustix::net::sockopt;
use serde::Serialize;
use socket2::SockRef;

use super::{Change, ExtensionReport, Verification};

/// The result of one file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FileReport {
    /// Where the file came from.
    pub source: String,
    /// Where it went.
    pub destination: String,
    /// Size of the whole file, bytes.
    pub size: u64,
    /// Bytes transferred by this command.
    pub bytes: u64,
    /// Bytes already present from an earlier, interrupted transfer.
    pub resumed_at: u64,
    /// The destination already had the file, with the same size and time: nothing was transferred.
    pub skipped: bool,
    /// Time from the first command for the data connection to the server's final reply, summed over all
    /// attempts.
    pub seconds: f64,
    /// `bytes` per `seconds`, 10^6 bit/s.
    pub mbps: f64,
    /// Retransmitted segments; `None` if the peer was the sender and did not report them.
    pub retransmits: Option<u64>,
    /// Packets received out of order, if this host was the receiver.
    pub out_of_order: Option<u64>,
    /// Smallest round-trip time of the data connection, milliseconds.
    pub min_rtt_ms: Option<f64>,
    /// Congestion control of the local socket at the end.
    pub congestion_control: Option<String>,
    /// `SO_SNDBUF` of the local socket at the end, bytes, as the kernel counts them.
    pub send_buffer: Option<u64>,
    /// `SO_RCVBUF` of the local socket at the end, bytes, as the kernel counts them.
    pub receive_buffer: Option<u64>,
    /// How many times the congestion control was changed.
    pub control_changes: usize,
    /// All changes made to live connections, with their reasons.
    pub changes: Vec<Change>,
    /// Numbers reported by extensions, by name.
    #[serde(flatten)]
    pub figures: BTreeMap<String, f64>,
    /// The reason for each retry.
    pub interruptions: Vec<String>,
    /// The result of the verification.
    pub checksum: Verification,
    /// Messages for the user.
    pub notes: Vec<String>,
    #[serde(skip)]
    pub(super) began: Option<Instant>,
    #[serde(skip)]
    pub(super) ended: Option<Instant>,
    #[serde(skip)]
    pub(super) reach: Reach,
}

/// How far the attempts to move a file have come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// The furthest byte that one could begin with: an upload's, what the server has kept of those before.
    first: u64,
    /// The furthest byte that one has moved.
    last: u64,
}

impl Reach {
    /// Whether this is further than `before` in any way.
    pub(super) fn is_beyond(self, before: Self) -> bool {
        self.first > before.first || self.last > before.last
    }
}

impl FileReport {
    /// A report of a transfer that has not begun.
    pub fn new(source: String, destination: String) -> Self {
        Self {
            source,
            destination,
            ..Self::default()
        }
    }

    /// A report of a file of this size that was there already.
    pub fn there(source: String, destination: String, size: u64) -> Self {
        Self {
            size,
            skipped: true,
            ..Self::new(source, destination)
        }
    }

    /// Adds a data connection that moved `bytes` from byte `first` on between the two times.
    pub(super) fn moved(&mut self, first: u64, bytes: u64, began: Instant, ended: Instant) {
        self.bytes += bytes;
        self.reach.first = self.reach.first.max(first);
        self.reach.last = self.reach.last.max(first.saturating_add(bytes));
        self.seconds += (ended - began).as_secs_f64();
        self.mbps = mbps(self.bytes, Duration::from_secs_f64(self.seconds));
        self.began.get_or_insert(began);
        self.ended = Some(ended);
    }

    /// Reads the kernel's counters of a data connection that is about to be closed.
    pub(super) fn read_socket(&mut self, stream: &TcpStream, direction: Direction) {
        if let Ok(counters) = TcpInfo::of(stream) {
            let (count, new) = match direction {
                Direction::Send => (&mut self.retransmits, Some(counters.tcpi_total_retrans)),
                Direction::Receive => (&mut self.out_of_order, counters.out_of_order()),
            };
            if let Some(new) = new {
                *count.get_or_insert(0) += u64::from(new);
            }
            let min_rtt_ms = counters.min_rtt().map(|time| time.as_secs_f64() * 1e3);
            self.min_rtt_ms = self
                .min_rtt_ms
                .into_iter()
                .chain(min_rtt_ms)
                .reduce(f64::min);
        }
        let socket = SockRef::from(stream);
        self.congestion_control = sockopt::tcp_congestion(stream).ok();
        self.send_buffer = socket.send_buffer_size().ok().map(|bytes| bytes as u64);
        self.receive_buffer = socket.recv_buffer_size().ok().map(|bytes| bytes as u64);
    }

    /// Adds the report of an extension.
    pub(super) fn add(&mut self, report: ExtensionReport) {
        let of_control = |change: &&Change| change.what.starts_with("congestion control");
        self.control_changes += report.changes.iter().filter(of_control).count();
        self.changes.extend(report.changes);
        self.figures.extend(report.figures);
        self.notes.extend(report.notes);
    }
}

/// A file that could not be transferred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The file.
    pub source: String,
    /// The reason.
    pub error: String,
}

/// The result of a command.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Files that are complete at their destination.
    pub files: usize,
    /// Of these, files that were already there.
    pub skipped: usize,
    /// Bytes transferred by this command.
    pub bytes: u64,
    /// Time from the start of the first transfer to the end of the last one.
    pub seconds: f64,
    /// `bytes` per `seconds`, 10^6 bit/s.
    pub mbps: f64,
    /// Retransmitted segments of all files; `None` if none of them has a count.
    pub retransmits: Option<u64>,
    /// How many times the congestion control was changed.
    pub control_changes: usize,
    /// Number of retries.
    pub retries: usize,
    /// Files whose copies have the same checksum.
    pub verified: usize,
    /// One entry per file.
    pub transfers: Vec<FileReport>,
    /// Files that could not be transferred.
    pub failures: Vec<Failed>,
    #[serde(skip)]
    began: Option<Instant>,
    #[serde(skip)]
    ended: Option<Instant>,
}

impl Outcome {
    /// Adds a failure.
    pub fn fail(&mut self, source: &str, error: &str) {
        self.failures.push(Failed {
            source: source.to_owned(),
            error: error.to_owned(),
        });
    }

    /// Adds a completed file.
    pub fn add(&mut self, report: FileReport) {
        self.files += 1;
        self.skipped += usize::from(report.skipped);
        self.bytes += report.bytes;
        self.control_changes += report.control_changes;
        self.retries += report.interruptions.len();
        self.verified += usize::from(matches!(report.checksum, Verification::Verified(_)));
        if let Some(retransmits) = report.retransmits {
            *self.retransmits.get_or_insert(0) += retransmits;
        }
        let began = self.began.into_iter().chain(report.began);
        self.began = began.min();
        self.ended = self.ended.max(report.ended);
        self.transfers.push(report);
        if let (Some(began), Some(ended)) = (self.began, self.ended) {
            self.seconds = (ended - began).as_secs_f64();
            self.mbps = mbps(self.bytes, ended - began);
        }
    }
}

fn mbps(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() {
        return 0.0;
    }
    bytes as f64 * 8.0 / time.as_secs_f64() / 1e6
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_connection_on_one_host_has_a_short_round_trip_and_loses_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut report = FileReport::default();
        report.read_socket(&stream, Direction::Send);
        report.read_socket(&stream, Direction::Receive);
        assert_eq!(report.retransmits, Some(0));
        assert_eq!(report.out_of_order, Some(0));
        let min_rtt_ms = report.min_rtt_ms.unwrap();
        assert!((0.001..1_000.0).contains(&min_rtt_ms), "{min_rtt_ms}");
    }
}
