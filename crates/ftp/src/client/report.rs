//! What became of it.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use serde::Serialize;
use socket2::SockRef;

use super::{Change, ExtensionReport, Verification, tcp};
use crate::data::Direction;

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileReport {
    /// Where it came from.
    pub source: String,
    /// Where it went.
    pub destination: String,
    /// Bytes of the whole file.
    pub size: u64,
    /// Bytes that were moved now.
    pub bytes: u64,
    /// Bytes that were there from an earlier, broken transfer.
    pub resumed_at: u64,
    /// Both ends had the file already, of the same size and time: nothing was moved.
    pub skipped: bool,
    /// From the first command of the data connection to the server's last word; all attempts together.
    pub seconds: f64,
    /// `bytes` by `seconds`, 10^6 bit/s.
    pub mbps: f64,
    /// Segments sent again; none if the other end was the sender, and does not say.
    pub retransmits: Option<u64>,
    /// Packets that arrived out of order, when this end was the receiver.
    pub out_of_order: Option<u64>,
    /// Smallest round trip that the data connection saw, milliseconds.
    pub min_rtt_ms: Option<f64>,
    /// Congestion control of this end at the end.
    pub congestion_control: Option<String>,
    /// `SO_SNDBUF` of this end at the end, bytes, as the kernel counts them.
    pub send_buffer: Option<u64>,
    /// `SO_RCVBUF` of this end at the end, bytes, as the kernel counts them.
    pub receive_buffer: Option<u64>,
    /// How often the congestion control was changed.
    pub control_changes: usize,
    /// All that was changed on live connections, and why.
    pub changes: Vec<Change>,
    /// Numbers of those who followed the connection.
    #[serde(flatten)]
    pub figures: BTreeMap<String, f64>,
    /// Why it was tried again, once for each time.
    pub interruptions: Vec<String>,
    /// The checksum.
    pub checksum: Verification,
    /// Sentences for the user.
    pub notes: Vec<String>,
    #[serde(skip)]
    pub(super) began: Option<Instant>,
    #[serde(skip)]
    pub(super) ended: Option<Instant>,
}

impl FileReport {
    /// Nothing has been done yet.
    pub fn new(source: String, destination: String) -> Self {
        Self {
            source,
            destination,
            size: 0,
            bytes: 0,
            resumed_at: 0,
            skipped: false,
            seconds: 0.0,
            mbps: 0.0,
            retransmits: None,
            out_of_order: None,
            min_rtt_ms: None,
            congestion_control: None,
            send_buffer: None,
            receive_buffer: None,
            control_changes: 0,
            changes: Vec::new(),
            figures: BTreeMap::new(),
            interruptions: Vec::new(),
            checksum: Verification::Off,
            notes: Vec::new(),
            began: None,
            ended: None,
        }
    }

    /// A data connection that began and ended then has moved so many bytes.
    pub(super) fn moved(&mut self, bytes: u64, began: Instant, ended: Instant) {
        self.bytes += bytes;
        self.seconds += (ended - began).as_secs_f64();
        self.mbps = mbps(self.bytes, Duration::from_secs_f64(self.seconds));
        self.began.get_or_insert(began);
        self.ended = Some(ended);
    }

    /// What the kernel knows of a data connection that is about to be closed.
    pub(super) fn read_socket(&mut self, stream: &TcpStream, direction: Direction) {
        if let Some(counts) = tcp::counts(stream) {
            match direction {
                Direction::Send => *self.retransmits.get_or_insert(0) += counts.retransmits,
                Direction::Receive => {
                    if let Some(packets) = counts.out_of_order {
                        *self.out_of_order.get_or_insert(0) += packets;
                    }
                }
            }
            self.min_rtt_ms = match (self.min_rtt_ms, counts.min_rtt_ms) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        let socket = SockRef::from(stream);
        self.congestion_control = sockopt::tcp_congestion(stream).ok();
        self.send_buffer = socket.send_buffer_size().ok().map(|bytes| bytes as u64);
        self.receive_buffer = socket.recv_buffer_size().ok().map(|bytes| bytes as u64);
    }

    /// What those who followed the connection did.
    pub(super) fn add(&mut self, report: ExtensionReport) {
        let of_control = |change: &&Change| change.what.starts_with("congestion control");
        self.control_changes += report.changes.iter().filter(of_control).count();
        self.changes.extend(report.changes);
        self.figures.extend(report.figures);
        self.notes.extend(report.notes);
    }
}

/// Something that could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The file.
    pub source: String,
    /// Why.
    pub error: String,
}

/// What became of all files.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Files that are complete at their destination.
    pub files: usize,
    /// Of these, files that were there already.
    pub skipped: usize,
    /// Bytes moved now.
    pub bytes: u64,
    /// From the beginning of the first transfer to the end of the last one.
    pub seconds: f64,
    /// `bytes` by `seconds`, 10^6 bit/s.
    pub mbps: f64,
    /// Segments sent again by this end; none if it only received.
    pub retransmits: Option<u64>,
    /// How often the congestion control was changed.
    pub control_changes: usize,
    /// How often something was tried again.
    pub retries: usize,
    /// Files whose checksum is the same at both ends.
    pub verified: usize,
    /// One entry a file.
    pub transfers: Vec<FileReport>,
    /// What could not be done.
    pub failures: Vec<Failed>,
}

impl Outcome {
    /// Adds something that could not be done.
    pub fn fail(&mut self, source: &str, error: &str) {
        self.failures.push(Failed {
            source: source.to_owned(),
            error: error.to_owned(),
        });
    }

    /// Adds a file.
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
        self.transfers.push(report);
        let began = self.transfers.iter().filter_map(|file| file.began).min();
        let ended = self.transfers.iter().filter_map(|file| file.ended).max();
        if let (Some(began), Some(ended)) = (began, ended) {
            self.seconds = (ended - began).as_secs_f64();
            self.mbps = mbps(self.bytes, ended - began);
        }
    }
}

fn mbps(bytes: u64, time: Duration) -> f64 {
    match time.is_zero() {
        true => 0.0,
        false => bytes as f64 * 8.0 / time.as_secs_f64() / 1e6,
    }
}
