//! The part that downloads and uploads share: moving bytes over an open data connection with all its
//! watchers, reading the server's final reply, and filling in the report.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fairwind_transfer::{
    Bounds, Direction, Meter, Mover, Transfer, TransferError, TransferWatcher, Watchers,
};

use super::data_connection::Channel;
use super::ending::retransmits;
use super::running_checksum::RunningChecksum;
use super::{ClientError, FileReport, Progress, Session};

/// The bytes to move and what goes with them.
pub(super) struct Part<'a> {
    /// Up to the server or down from it.
    pub direction: Direction,
    /// The file's number in progress reports.
    pub number: usize,
    /// The path on the server.
    pub remote: &'a [u8],
    /// Offset of the first byte moved.
    pub first: u64,
    /// Number of bytes to move, if known.
    pub total: Option<u64>,
    /// The local file.
    pub path: &'a Path,
    /// The running checksum of the local file.
    pub checksum: Option<&'a RunningChecksum>,
}

impl Session {
    /// Opens a data connection, moves the bytes with `act`, and reads the server's final reply.
    pub(super) fn move_part(
        &mut self,
        part: &Part<'_>,
        report: &mut FileReport,
        act: impl FnOnce(Mover<'_>) -> Result<u64, TransferError>,
    ) -> Result<(), ClientError> {
        self.prepare()?;
        let (began, direction) = (Instant::now(), part.direction);
        let verb = match direction {
            Direction::Send => "STOR",
            Direction::Receive => "RETR",
        };
        let channel = match self.open_channel(verb, part.remote, part.first, direction) {
            // A server that refuses an offset may still append.
            Err(error) if direction == Direction::Send && is_about_restart(&error) => {
                self.open_channel("APPE", part.remote, 0, direction)
            }
            opened => opened,
        };
        let Channel { stream, transfer } = channel?;
        let transfer = Transfer {
            total: part.total,
            ..transfer
        };
        let meter = Meter::default();
        let mut watcher = ProgressWatcher {
            progress: self.options.progress.clone(),
            meter: &meter,
            file: Some((part.number, part.first)),
            checksum: part.checksum,
            others: Watchers(self.watchers(&transfer)),
        };
        drop(transfer);
        let bounds = Bounds::patience(self.options.patience);
        let moved = Mover::new(&stream, &meter, &mut watcher, bounds).and_then(act);
        drop(watcher);
        let finished = self.finish(moved, part.path);
        report.moved(meter.moved(), began, Instant::now());
        report.read_socket(&stream, direction);
        self.collect(report);
        let reply = match finished {
            // A wait for the local side may have ended with that.
            Err(_) if self.options.progress.stopped() => return Err(ClientError::Stopped),
            finished => finished?,
        };
        if direction == Direction::Receive {
            report.retransmits = retransmits(&reply).or(report.retransmits);
        }
        Ok(())
    }
}

/// Whether the server refused the offset (REST) and not the file.
pub(super) fn is_about_restart(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { what, reply, .. }
        if what.starts_with("REST") && reply.code / 100 == 5)
}

/// Reports progress, stops the transfer when the user asks for it, and calls the other watchers.
pub(super) struct ProgressWatcher<'a> {
    pub progress: Arc<dyn Progress>,
    pub meter: &'a Meter,
    /// The file's number in progress reports, and the byte that the transfer begins with; none for a listing.
    pub file: Option<(usize, u64)>,
    pub checksum: Option<&'a RunningChecksum>,
    pub others: Watchers,
}

impl TransferWatcher for ProgressWatcher<'_> {
    fn started(&mut self, socket: BorrowedFd<'_>, total: Option<u64>) {
        if let Some((file, first)) = self.file {
            self.progress.begins(file, first);
        }
        self.others.started(socket, total);
    }

    fn progressed(&mut self, moved: u64) {
        if let Some((file, first)) = self.file {
            self.progress.reaches(file, first + moved);
            if let Some(checksum) = self.checksum {
                checksum.reaches(first + moved);
            }
        }
        if self.progress.stopped() {
            self.meter.stop();
        }
        self.others.progressed(moved);
    }

    fn ended(&mut self, moved: u64) {
        self.others.ended(moved);
    }
}
