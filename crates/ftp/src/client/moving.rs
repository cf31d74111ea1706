//! The part that downloads and uploads share: moving bytes over an open data connection with all its
//! watchers, reading the server's final reply, and filling in the report.

use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_transfer::{
    Bounds, Direction, Meter, Mover, Protection, Transfer, TransferError, TransferWatcher, Watchers,
};

use super::ahead::Behind;
use super::checksum::Method;
use super::data_connection::Channel;
use super::protection::listen_for_tickets;
use super::running_checksum::RunningChecksum;
use super::{Checksum, ChecksumPolicy, ClientError, FileReport, Progress, Session, Verification};
use crate::protocol::Reply;

/// How long the server has to explain a broken data connection.
const FINAL_REPLY_TIMEOUT: Duration = Duration::from_secs(2);

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
    /// The byte that progress reports begin with.
    pub told_from: u64,
    /// Number of bytes to move, if known.
    pub total: Option<u64>,
    /// The local file.
    pub path: &'a Path,
    /// The running checksum of the local file.
    pub checksum: Option<&'a RunningChecksum>,
    /// What may go to the server before the bytes have come.
    pub behind: Behind,
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
        let opened =
            self.open_channel_before(verb, part.remote, part.first, direction, part.behind);
        let channel = match opened {
            // A server that refuses an offset may still append.
            Err(error) if direction == Direction::Send && is_about_restart(&error) => {
                self.open_channel("APPE", part.remote, 0, direction)
            }
            opened => opened,
        };
        let Channel {
            stream,
            mut protection,
            transfer,
        } = channel?;
        let transfer = Transfer {
            total: part.total,
            ..transfer
        };
        let meter = Meter::default();
        self.keep_to_limit(&stream, direction)?;
        let mut watcher = ProgressWatcher {
            progress: self.options.progress.clone(),
            meter: &meter,
            file: Some((part.number, part.told_from)),
            checksum: part.checksum,
            others: Watchers(self.watchers(&transfer)),
        };
        drop(transfer);
        let protected = protection.as_mut().map(|protection| protection as _);
        let moved = self
            .mover(&stream, protected, &meter, &mut watcher)
            .and_then(act);
        drop(watcher);
        if let (Ok(_), Direction::Send, Some(protection)) = (&moved, direction, &mut protection) {
            listen_for_tickets(protection, &stream);
        }
        let finished = self.finish(moved, part.path);
        report.moved(part.first, meter.moved(), began, Instant::now());
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

impl Session {
    /// Prepares the data connection of a file for the limit of the rate, if there is one.
    ///
    /// # Errors
    /// If an option cannot be set.
    pub(super) fn keep_to_limit(
        &self,
        stream: &TcpStream,
        direction: Direction,
    ) -> Result<(), ClientError> {
        match &self.options.limit {
            Some(limit) => limit
                .prepare(stream, direction)
                .map_err(|error| self.data_error(error)),
            None => Ok(()),
        }
    }

    /// What moves the bytes of a file, patiently and within that limit.
    ///
    /// # Errors
    /// If the socket's mode or timeouts cannot be set.
    pub(super) fn mover<'a>(
        &'a self,
        stream: &'a TcpStream,
        protection: Option<&'a mut dyn Protection>,
        meter: &'a Meter,
        watcher: &'a mut dyn TransferWatcher,
    ) -> Result<Mover<'a>, TransferError> {
        let bounds = Bounds::patience(self.options.patience);
        let mover = Mover::new(stream, meter, watcher, bounds)?.protected_by(protection);
        Ok(match self.options.limit.as_deref() {
            Some(limit) => mover.through(limit),
            None => mover,
        })
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

/// The count in the final reply of a fairwind server: `... 3 retransmits`.
pub(super) fn retransmits(reply: &Reply) -> Option<u64> {
    let text = reply.text();
    let words: Vec<&str> = text.split([' ', ',', ';', ':']).collect();
    words
        .windows(2)
        .find(|pair| pair[1].starts_with("retransmit"))
        .and_then(|pair| pair[0].parse().ok())
}

impl Session {
    /// Checks with SIZE, if the server has it, that a file exists and is readable.
    pub(super) fn exists(&mut self, path: &[u8]) -> Result<(), ClientError> {
        if self.features.has("SIZE") {
            self.control.must("SIZE", path)?;
        }
        Ok(())
    }

    /// How the server is to compute checksums; `None` if they are off or the server has none.
    pub(super) fn method(&self) -> Result<Option<Method>, ClientError> {
        let best = self.methods().first().copied();
        match self.options.checksum {
            ChecksumPolicy::Off => Ok(None),
            ChecksumPolicy::Required if best.is_none() => Err(ClientError::Differs(format!(
                "{} computes no checksums",
                self.server()
            ))),
            _ => Ok(best),
        }
    }

    /// The verification to report if there is no method.
    pub(super) fn without_method(&self) -> Verification {
        match self.options.checksum {
            ChecksumPolicy::Off => Verification::Off,
            _ => Verification::NotOffered,
        }
    }

    /// Compares a local checksum with the server's; the inner error says how they differ.
    pub(super) fn compare(
        &mut self,
        method: Method,
        path: &[u8],
        size: u64,
        here: String,
    ) -> Result<Result<Verification, String>, ClientError> {
        let there = self.remote_checksum(method, path, Some(size))?;
        Ok(self.judge(method, here, there))
    }

    /// What a local checksum and the server's, or its refusal, show; the error says how they differ.
    pub(super) fn judge(
        &self,
        method: Method,
        here: String,
        there: Result<String, String>,
    ) -> Result<Verification, String> {
        let algorithm = method.algorithm().name();
        match there {
            Ok(there) if there == here => Ok(Verification::Verified(Checksum {
                algorithm,
                value: here,
            })),
            Ok(there) => Err(format!("its {algorithm} is {here} here and {there} there")),
            Err(reply) if self.options.checksum == ChecksumPolicy::Required => {
                Err(format!("there is no {algorithm} of it: {reply}"))
            }
            Err(reply) => Ok(Verification::Refused { reply }),
        }
    }

    /// Reads the server's final reply to a transfer, whether or not all bytes were moved.
    pub(super) fn finish(
        &mut self,
        moved: Result<u64, TransferError>,
        path: &Path,
    ) -> Result<Reply, ClientError> {
        let reply = match moved {
            Ok(_) => self.control.last_reply(self.options.patience)?,
            Err(TransferError::Stopped) => return Err(ClientError::Stopped),
            Err(TransferError::File(error)) => return Err(ClientError::local(path)(error)),
            Err(TransferError::Stalled(time)) => {
                return Err(self.data_error(format!("nothing moved for {time:?}")));
            }
            Err(error @ (TransferError::Slow(_) | TransferError::Long(_))) => {
                return Err(self.data_error(error));
            }
            // A server that refuses in the middle closes the data connection and gives the reason.
            Err(TransferError::Connection(error)) => {
                match self.control.last_reply(FINAL_REPLY_TIMEOUT) {
                    Ok(reply) if !reply.is_positive() => reply,
                    _ => return Err(self.data_error(error)),
                }
            }
        };
        self.control.accepted(reply)
    }

    /// Adds what the extensions did in the transfer that has just ended.
    pub(super) fn collect(&mut self, report: &mut FileReport) {
        for extension in &mut self.extensions {
            let done = extension.report();
            for note in &done.notes {
                self.options.progress.note(note);
            }
            report.add(done);
        }
    }
}
