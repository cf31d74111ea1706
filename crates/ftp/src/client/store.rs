//! Uploads: under `.NAME.part`, resumed where an earlier attempt broke off, verified, renamed.
//!
//! For a source that cannot be rewound there is only one attempt: the bytes gather under a name that is never
//! resumed, and are verified and renamed like any other file.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use fairwind_transfer::Direction;
use jiff::Timestamp;

use super::ahead::Behind;
use super::checksum::Method;
use super::clash::Places;
use super::local::{partial_name, stream_name};
use super::moving::Part;
use super::place;
use super::retrieve::shown;
use super::retry::Task;
use super::running_checksum::RunningChecksum;
use super::stream::Stream;
use super::target::Target;
use super::{ClientError, Connection, Entry, FileReport, Session, Verification};
use crate::protocol::path::one_line;

/// A file to upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// The local file. A pipe, a device or an open descriptor is read to its end.
    pub source: PathBuf,
    /// Its path on the server.
    pub remote: Vec<u8>,
    /// Its entry in a listing of the server: a file with the same size and time is not uploaded again. The
    /// server is asked for the time if the listing lacks it.
    pub present: Option<Entry>,
}

/// An upload in progress.
struct Push<'a> {
    storage: &'a Storage,
    number: usize,
    source: Source,
    /// The path of the partial upload.
    partial: Vec<u8>,
    report: FileReport,
    /// Earlier attempts left bytes that this one continues.
    continued: bool,
}

/// Where the bytes come from.
enum Source {
    File {
        file: File,
        size: u64,
        modified: Option<Timestamp>,
    },
    /// Standard input, a pipe or a device.
    Stream(Stream),
}

impl Storage {
    /// Uploads the file; `number` identifies it in progress reports.
    ///
    /// # Errors
    /// If it could not be completed. The bytes sent so far stay under `.NAME.part` on the server unless they
    /// are wrong.
    pub fn run(
        &self,
        connection: &mut Connection,
        number: usize,
    ) -> Result<FileReport, ClientError> {
        let failed = |error| ClientError::local(&self.source)(error);
        let destination = shown(connection.place(), &self.remote);
        let mut report = FileReport::new(self.shown(), destination);
        let in_place = connection.options().in_place;
        let (source, partial) = match Target::find(&self.source).map_err(failed)? {
            Target::Flow(flow) => {
                let progress = connection.options().progress.clone();
                let stream = Stream::from(&flow, progress).map_err(failed)?;
                let partial = place::beside(&self.remote, in_place, stream_name);
                (Source::Stream(stream), partial)
            }
            Target::File(_) => {
                let file = File::open(&self.source).map_err(failed)?;
                let facts = file.metadata().map_err(failed)?;
                if !facts.is_file() {
                    return Err(failed(std::io::Error::other("that is not a regular file")));
                }
                let (size, modified) = (facts.len(), modified(&file));
                report.size = size;
                if self.is_there(connection, size, modified)? {
                    connection.options().progress.begins(number, size);
                    report.skipped = true;
                    return Ok(report);
                }
                let source = Source::File {
                    file,
                    size,
                    modified,
                };
                (source, self.places(in_place).partial)
            }
        };
        let mut push = Push {
            storage: self,
            number,
            source,
            partial,
            report,
            continued: false,
        };
        connection.carry_out(&mut push)?;
        Ok(push.report)
    }
}

impl Storage {
    /// The local file, as shown in messages.
    fn shown(&self) -> String {
        one_line(self.source.as_os_str().as_bytes()).into_owned()
    }

    /// The final and partial paths.
    pub(super) fn places(&self, in_place: bool) -> Places {
        Places {
            whole: self.remote.clone(),
            partial: place::beside(&self.remote, in_place, partial_name),
        }
    }

    /// Whether the listed file has the size and time of the local one.
    pub(super) fn is_done(&self, connection: &mut Connection) -> Result<bool, ClientError> {
        let facts = fs::metadata(&self.source).map_err(ClientError::local(&self.source))?;
        let modified = facts.modified().ok();
        let modified = modified.and_then(|time| Timestamp::try_from(time).ok());
        self.is_there(connection, facts.len(), modified)
    }

    /// Whether the server has the file, with the same size and time. A server whose times cannot be set has
    /// the time of the upload, which is later than that of the file.
    fn is_there(
        &self,
        connection: &mut Connection,
        size: u64,
        modified: Option<Timestamp>,
    ) -> Result<bool, ClientError> {
        let Some(present) = self
            .present
            .as_ref()
            .filter(|entry| entry.size == Some(size))
        else {
            return Ok(false);
        };
        connection.with(|session| {
            let there = match present.modified {
                None => {
                    session.can_write(&self.remote)?;
                    session.modified(&self.remote)?
                }
                known => known,
            };
            Ok(match (there, modified) {
                (Some(there), Some(here)) if session.features.has("MFMT") => {
                    there.as_second() == here.as_second()
                }
                (Some(there), Some(here)) => there.as_second() >= here.as_second(),
                _ => false,
            })
        })
    }
}

fn modified(file: &File) -> Option<Timestamp> {
    let time = file.metadata().ok()?.modified().ok()?;
    Timestamp::try_from(time).ok()
}

impl Task for Push<'_> {
    fn attempt(&mut self, session: &mut Session) -> Result<(), ClientError> {
        session.can_write(&self.storage.remote)?;
        match self.send(session) {
            // Another attempt would store the rest as if it were the whole.
            Err(error)
                if matches!(self.source, Source::Stream(_))
                    && self.report.began.is_some()
                    && error.is_transient() =>
            {
                // If the connection is broken, the file stays under a name that shows what it is.
                let _ = session.delete(&self.partial);
                Err(ClientError::Differs(format!(
                    "{error}; what has been read of {} cannot be read again",
                    self.storage.shown()
                )))
            }
            sent => sent,
        }
    }

    fn report(&mut self) -> Option<&mut FileReport> {
        Some(&mut self.report)
    }
}

impl Push<'_> {
    fn send(&mut self, session: &mut Session) -> Result<(), ClientError> {
        let method = session.method()?;
        let first = self.first(session, method)?;
        if self.report.interruptions.is_empty() {
            self.report.resumed_at = first;
        }
        let running = self.push(session, method, first)?;
        match &self.source {
            Source::File { size, modified, .. } => {
                let (size, modified) = (*size, *modified);
                self.verify(session, method, running, size)?;
                self.complete(session, size, modified)
            }
            Source::Stream(stream) => {
                self.report.size = stream.passed();
                self.report.checksum = self.verify_stream(session, method, stream)?;
                self.take_name(session)
            }
        }
    }

    /// The byte to continue from.
    fn first(&mut self, session: &mut Session, method: Option<Method>) -> Result<u64, ClientError> {
        self.continued = false;
        let Source::File { size, modified, .. } = &self.source else {
            return Ok(0);
        };
        // Uploaded in place, what is there may be a complete older file.
        // This process has sent bytes.
        let begun = self.report.began.is_some();
        let wanted = begun || (session.options.resume && !session.options.in_place);
        if !wanted {
            return Ok(0);
        }
        let present = match session.partial_size(&self.partial)? {
            Some(present) if present > 0 && present <= *size => present,
            _ => return Ok(0),
        };
        // Bytes of an earlier process belong to this file if it has not changed since they were sent.
        let same = begun || method.is_some() || {
            let there = session.modified(&self.partial)?;
            there
                .zip(*modified)
                .is_some_and(|(there, here)| there >= here)
        };
        self.continued = same;
        Ok(if same { present } else { 0 })
    }

    /// Uploads the missing bytes; returns the checksum computed meanwhile.
    fn push(
        &mut self,
        session: &mut Session,
        method: Option<Method>,
        first: u64,
    ) -> Result<Option<RunningChecksum>, ClientError> {
        let (running, total, behind) = match &mut self.source {
            Source::File { file, size, .. } => {
                let running = method
                    .map(|method| RunningChecksum::begin(file, method.algorithm(), first))
                    .transpose()
                    .map_err(ClientError::local(&self.storage.source))?;
                if first > 0 && first == *size {
                    session.options.progress.begins(self.number, first);
                    return Ok(running);
                }
                // REST has to stand directly before STOR, and what STOR may replace must be no more than a partial file
                // before it is known that there is room.
                let is_ahead = first == 0
                    && self.partial != self.storage.remote
                    && session.takes_commands_in_advance();
                let behind = if is_ahead {
                    Behind::Stored(*size, method)
                } else {
                    session.announce(*size)?;
                    Behind::Nothing
                };
                (running, Some(*size - first), behind)
            }
            Source::Stream(stream) => {
                stream.sum_up(method.map(|method| method.algorithm()));
                (None, None, Behind::Nothing)
            }
        };
        let part = Part {
            direction: Direction::Send,
            number: self.number,
            remote: &self.partial,
            first,
            told_from: first,
            total,
            path: &self.storage.source,
            checksum: running.as_ref(),
            behind,
        };
        session.move_part(&part, &mut self.report, |mover| match &mut self.source {
            Source::File { file, size, .. } => mover.send_file(file, first, *size),
            Source::Stream(stream) => mover.send_from(stream, None),
        })?;
        Ok(running)
    }

    /// Checks that all bytes are there and equal those of the file; a resumed upload that differs is repeated
    /// once from the beginning.
    fn verify(
        &mut self,
        session: &mut Session,
        method: Option<Method>,
        running: Option<RunningChecksum>,
        size: u64,
    ) -> Result<(), ClientError> {
        let there = session.stored_size(&self.partial)?;
        if let Some(there) = there
            && there < size
        {
            let what = format!("{there} of {size} bytes have arrived");
            return Err(session.data_error(what));
        }
        let verification = match (method, running) {
            (Some(method), Some(running)) => {
                let here = running
                    .finish(size)
                    .map_err(ClientError::local(&self.storage.source))?;
                session.compare(method, &self.partial, size, here)?
            }
            _ => Ok(session.without_method()),
        };
        let too_long = there.is_some_and(|there| there > size);
        match verification {
            Ok(verification) if !too_long => {
                self.report.checksum = verification;
                Ok(())
            }
            _ if self.continued => {
                session.options.progress.note(&format!(
                    "{}: starting again, because the partial file was not of this file",
                    one_line(&self.storage.remote)
                ));
                self.continued = false;
                let running = self.push(session, method, 0)?;
                self.verify(session, method, running, size)
            }
            verification => {
                // Must not be resumed.
                session.delete(&self.partial)?;
                let why = verification
                    .err()
                    .unwrap_or_else(|| "there are too many bytes".into());
                Err(ClientError::Differs(format!(
                    "{} is not what {} has got: {why}",
                    self.storage.shown(),
                    session.server()
                )))
            }
        }
    }

    /// Checks that all bytes are there and equal those that were read.
    fn verify_stream(
        &self,
        session: &mut Session,
        method: Option<Method>,
        stream: &Stream,
    ) -> Result<Verification, ClientError> {
        let size = stream.passed();
        let verified = match (session.size(&self.partial)?, method) {
            (Some(there), _) if there != size => Err(format!("it has {there} bytes of {size}")),
            (_, None) => Ok(session.without_method()),
            (_, Some(method)) => match stream.sum(method.algorithm()) {
                Ok(here) => session.compare(method, &self.partial, size, here)?,
                Err(error) => Err(error.to_string()),
            },
        };
        verified.or_else(|why| {
            session.delete(&self.partial)?;
            Err(ClientError::Differs(format!(
                "what {} has got is not what was read: {why}",
                session.server()
            )))
        })
    }

    fn complete(
        &self,
        session: &mut Session,
        size: u64,
        sent: Option<Timestamp>,
    ) -> Result<(), ClientError> {
        let Source::File { file, .. } = &self.source else {
            return Ok(());
        };
        let facts = file
            .metadata()
            .map_err(ClientError::local(&self.storage.source))?;
        if facts.len() != size || modified(file) != sent {
            session.delete(&self.partial)?;
            return Err(ClientError::Differs(format!(
                "{} was changed while it was sent",
                self.storage.shown()
            )));
        }
        let (partial, remote) = (&self.partial, &self.storage.remote);
        match sent {
            _ if partial != remote => session.name_upload(partial, remote, sent),
            Some(modified) => session.set_modified(remote, modified),
            None => Ok(()),
        }
    }

    fn take_name(&self, session: &mut Session) -> Result<(), ClientError> {
        if self.partial != self.storage.remote {
            session.rename(&self.partial, &self.storage.remote)?;
        }
        Ok(())
    }
}
