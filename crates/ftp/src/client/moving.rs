//! The part that downloads and uploads share: moving bytes over an open data connection with all its
//! watchers, reading the server's final reply, and filling in the report.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Instant;

use fairwind_transfer::{Bounds, Meter, Mover, Transfer, TransferError, TransferWatcher, Watchers};

use super::data_connection::Channel;
use super::running_checksum::RunningChecksum;
use super::tcp::ProgressWatcher;
use super::{ClientError, FileReport, Session};
use crate::protocol::Reply;

/// The bytes to move and what goes with them.
pub(super) struct Part<'a> {
    /// The file's number in progress reports.
    pub number: usize,
    /// Offset of the first byte moved.
    pub first: u64,
    /// Number of bytes to move, if known.
    pub total: Option<u64>,
    /// The local file.
    pub path: &'a Path,
    /// The running checksum of the local file.
    pub checksum: Option<&'a RunningChecksum>,
    /// When the first command for the data connection was sent.
    pub began: Instant,
}

impl Session {
    /// Moves the bytes with `act`; returns the server's final reply.
    pub(super) fn move_part(
        &mut self,
        part: &Part<'_>,
        channel: Channel,
        report: &mut FileReport,
        act: impl FnOnce(Mover<'_>) -> Result<u64, TransferError>,
    ) -> Result<Reply, ClientError> {
        let Channel { stream, transfer } = channel;
        let transfer = Transfer {
            total: part.total,
            ..transfer
        };
        let (direction, progress) = (transfer.direction, self.options.progress.clone());
        let meter = Meter::default();
        let mut following = Following {
            own: ProgressWatcher::new(progress, &meter).reporting(part.number, part.first),
            checksum: part.checksum,
            first: part.first,
            others: Watchers(self.watchers(&transfer)),
        };
        drop(transfer);
        let bounds = Bounds::patience(self.options.patience);
        let moved = Mover::new(&stream, &meter, &mut following, bounds).and_then(act);
        drop(following);
        let finished = self.finish(moved, part.path);
        report.moved(meter.moved(), part.began, Instant::now());
        report.read_socket(&stream, direction);
        self.collect(report);
        finished
    }
}

/// All watchers of a transfer.
struct Following<'a> {
    own: ProgressWatcher<'a>,
    checksum: Option<&'a RunningChecksum>,
    first: u64,
    others: Watchers,
}

impl TransferWatcher for Following<'_> {
    fn started(&mut self, socket: BorrowedFd<'_>, total: Option<u64>) {
        self.own.started(socket, total);
        self.others.started(socket, total);
    }

    fn progressed(&mut self, moved: u64) {
        self.own.progressed(moved);
        if let Some(checksum) = self.checksum {
            checksum.reaches(self.first + moved);
        }
        self.others.progressed(moved);
    }

    fn ended(&mut self, moved: u64) {
        self.own.ended(moved);
        self.others.ended(moved);
    }
}
