//! Downloads: into `.NAME.part`, resumed where an earlier attempt broke off, verified, renamed.

use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use fairwind_transfer::Direction;
use jiff::Timestamp;

use super::checksum::Method;
use super::clash::{Places, Settled};
use super::ending::retransmits;
use super::local::{Partial, partial_name};
use super::moving::Part;
use super::original::Original;
use super::retry::Task;
use super::running_checksum::RunningChecksum;
use super::stream_retrieve;
use super::target::Target;
use super::{ClientError, Connection, Entry, FileReport, Place, Session};
use crate::protocol::path::one_line;

/// A file to download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retrieval {
    /// Its path on the server.
    pub remote: Vec<u8>,
    /// Its local path. Symbolic links are followed; a pipe, a device or an open descriptor is written to
    /// directly.
    pub target: PathBuf,
    /// Its entry in a listing: a local file with the same size and time is not downloaded again. The server
    /// is asked for what the listing lacks. `None` downloads the file in any case.
    pub listed: Option<Entry>,
}

/// A download in progress.
struct Fetch<'a> {
    retrieval: &'a Retrieval,
    /// The local path with links resolved.
    target: PathBuf,
    settled: Arc<Settled>,
    number: usize,
    partial: Option<Partial>,
    report: FileReport,
    /// The original as it was when the bytes that are here arrived; `None` if unknown.
    origin: Option<Original>,
    /// Earlier attempts left bytes that this one continues.
    continued: bool,
    /// The server refuses to start in the middle of a file.
    no_restart: bool,
}

impl Retrieval {
    /// The size in bytes, if the listing has it.
    pub fn size(&self) -> Option<u64> {
        self.listed.as_ref().and_then(|entry| entry.size)
    }

    /// Downloads the file; `number` identifies it in progress reports.
    ///
    /// # Errors
    /// If it could not be completed. The bytes received so far stay in `.NAME.part` unless they are wrong.
    pub fn run(
        &self,
        connection: &mut Connection,
        number: usize,
    ) -> Result<FileReport, ClientError> {
        let source = connection.place().with_path(self.remote.clone());
        let shown = one_line(self.target.as_os_str().as_bytes());
        let mut report = FileReport::new(source.to_string(), shown.into_owned());
        let target = match Target::find(&self.target).map_err(ClientError::local(&self.target))? {
            Target::File(path) => path,
            Target::Flow(flow) => {
                return stream_retrieve::run(self, flow, connection, number, report);
            }
        };
        let settled = connection.settled();
        if let Some(present) = self.present(connection, &target)? {
            settled
                .settle(&present, &target, || Ok(()))
                .map_err(ClientError::local(&self.target))?;
            connection.options().progress.begins(number, present.len());
            report.size = present.len();
            report.skipped = true;
            return Ok(report);
        }
        let mut fetch = Fetch {
            retrieval: self,
            target,
            settled,
            number,
            partial: None,
            report,
            origin: None,
            continued: false,
            no_restart: false,
        };
        let result = connection.carry_out(&mut fetch);
        if let (Err(_), Some(partial)) = (&result, fetch.partial.take()) {
            partial.abandon();
        }
        result.map(|()| fetch.report)
    }
}

impl Retrieval {
    /// The final and partial paths; `None` if the target is a stream or a device.
    pub(super) fn places(&self) -> Option<Places> {
        let path = match Target::find(&self.target) {
            Ok(Target::File(path)) => path,
            Ok(_) => return None,
            // The error is reported when the file is tried.
            Err(_) => self.target.clone(),
        };
        let whole = path::absolute(&path).unwrap_or(path);
        let name = whole.file_name().unwrap_or_default().as_bytes();
        let partial = whole.with_file_name(std::ffi::OsStr::from_bytes(&partial_name(name)));
        Some(Places {
            partial: partial.into_os_string().into_encoded_bytes(),
            whole: whole.into_os_string().into_encoded_bytes(),
        })
    }

    /// The local file, if it has the size and time of the listed one.
    fn present(
        &self,
        connection: &mut Connection,
        target: &Path,
    ) -> Result<Option<Metadata>, ClientError> {
        let (Some(listed), Ok(here)) = (&self.listed, fs::symlink_metadata(target)) else {
            return Ok(None);
        };
        if !here.is_file() || listed.size.is_some_and(|size| size != here.len()) {
            return Ok(None);
        }
        let original = match (listed.size, listed.modified) {
            (Some(_), Some(_)) => Original {
                size: listed.size,
                modified: listed.modified,
            },
            // The times in the output of LIST are not usable.
            _ => connection.with(|session| {
                session.can_read(&self.remote)?;
                Original::ask(session, &self.remote)
            })?,
        };
        let same_time = here
            .modified()
            .ok()
            .and_then(|time| Timestamp::try_from(time).ok())
            .zip(original.modified)
            .is_some_and(|(here, there)| here.as_second() == there.as_second());
        Ok((original.size == Some(here.len()) && same_time).then_some(here))
    }
}

impl Task for Fetch<'_> {
    fn attempt(&mut self, session: &mut Session) -> Result<(), ClientError> {
        session.can_read(&self.retrieval.remote)?;
        let original = Original::ask(session, &self.retrieval.remote)?;
        if self.partial.is_none() {
            if original.size.is_none() {
                // Avoids creating a partial file for a file that does not exist.
                session.exists(&self.retrieval.remote)?;
            }
            let partial = Partial::open(&self.target)?;
            let facts = partial.file().metadata();
            let free = facts.and_then(|facts| self.settled.check(&facts));
            free.map_err(|error| partial.failed(error))?;
            self.partial = Some(partial);
            if let (None, Some(size)) = (self.retrieval.size(), original.size) {
                session.options.progress.expect(size);
            }
        }
        let method = session.method()?;
        let first = self.first(session, original, method)?;
        if self.report.interruptions.is_empty() {
            self.report.resumed_at = first;
        }
        let running = self.fetch(session, original, method, first)?;
        self.verify(session, original, method, running)
    }

    fn report(&mut self) -> Option<&mut FileReport> {
        Some(&mut self.report)
    }
}

impl Fetch<'_> {
    fn partial(&self) -> &Partial {
        self.partial.as_ref().expect("an attempt opens it first")
    }

    /// The byte to continue from. Bytes that may belong to another file are discarded.
    fn first(
        &mut self,
        session: &Session,
        original: Original,
        method: Option<Method>,
    ) -> Result<u64, ClientError> {
        let present = self.partial().len()?;
        // Either this process saw where the bytes came from, or it was recorded, or a checksum will tell.
        let same = match self.origin {
            Some(origin) => origin == original,
            None => match (self.partial().origin(), original.note()) {
                (Some(noted), Some(now)) => noted == now,
                _ => method.is_some(),
            },
        };
        let within = original.size.is_none_or(|size| present <= size);
        let wanted = session.options.resume || self.origin.is_some();
        self.origin = Some(original);
        if present > 0 && same && within && wanted && !self.no_restart {
            self.continued = true;
            return Ok(present);
        }
        if present > 0 && wanted {
            session.options.progress.note(&format!(
                "{}: starting again, because the partial file is not, or may not be, of this file",
                one_line(&self.retrieval.remote)
            ));
        }
        self.begin_anew(original)?;
        Ok(0)
    }

    fn begin_anew(&mut self, original: Original) -> Result<(), ClientError> {
        self.continued = false;
        self.partial().empty()?;
        if let Some(note) = original.note() {
            self.partial().note_origin(&note);
        }
        Ok(())
    }

    /// Downloads the missing bytes; returns the checksum computed meanwhile.
    fn fetch(
        &mut self,
        session: &mut Session,
        original: Original,
        method: Option<Method>,
        first: u64,
    ) -> Result<Option<RunningChecksum>, ClientError> {
        let running = match method {
            Some(method) => {
                let file = self.partial().file();
                let begun = RunningChecksum::begin(file, method.algorithm(), first);
                Some(begun.map_err(|error| self.partial().failed(error))?)
            }
            None => None,
        };
        let number = self.number;
        if first > 0 && original.size == Some(first) {
            session.options.progress.begins(number, first);
            return Ok(running);
        }
        session.prepare()?;
        let began = Instant::now();
        let opened =
            session.open_channel("RETR", &self.retrieval.remote, first, Direction::Receive);
        let channel = match opened {
            Err(error) if first > 0 && is_about_restart(&error) => {
                self.no_restart = true;
                drop(running);
                self.begin_anew(original)?;
                return self.fetch(session, original, method, 0);
            }
            opened => opened?,
        };
        let partial = self.partial.as_ref().expect("an attempt opens it first");
        let part = Part {
            number,
            first,
            total: original.size.map(|size| size - first),
            path: partial.path(),
            checksum: running.as_ref(),
            began,
        };
        let mut writer = partial.writer(first).up_to(original.size);
        let moved = session.move_part(&part, channel, &mut self.report, |mover| {
            mover.receive_into(&mut writer, part.total)
        });
        if let (true, Some(size)) = (writer.is_over(), original.size) {
            drop(running);
            return Err(self.too_long(session, original, size));
        }
        self.report.retransmits = retransmits(&moved?).or(self.report.retransmits);
        Ok(running)
    }

    /// Handles a server that sends more than it announced. If the download was resumed, the server may have
    /// ignored the offset: one transfer from the beginning is tried.
    fn too_long(&mut self, session: &Session, original: Original, size: u64) -> ClientError {
        let resumed = self.continued;
        if resumed {
            self.no_restart = true;
            if let Err(error) = self.begin_anew(original) {
                return error;
            }
        } else if let Some(partial) = self.partial.take() {
            partial.discard();
        }
        ClientError::too_long(session.server(), &self.retrieval.remote, size, resumed)
    }

    /// Checks that all bytes are there and equal those of the original; a resumed file that differs is
    /// downloaded once more from the beginning.
    fn verify(
        &mut self,
        session: &mut Session,
        original: Original,
        method: Option<Method>,
        running: Option<RunningChecksum>,
    ) -> Result<(), ClientError> {
        let present = self.partial().len()?;
        self.report.size = present;
        if let Some(size) = original.size
            && present < size
        {
            return Err(session.data_error(format!("it ended after {present} of {size} bytes")));
        }
        let verification = match (method, running) {
            (Some(method), Some(running)) => {
                let here = running
                    .finish(present)
                    .map_err(|error| self.partial().failed(error))?;
                session.compare(method, &self.retrieval.remote, present, here)?
            }
            _ => Ok(session.without_method()),
        };
        match verification {
            Ok(verification) => {
                let partial = self.partial.take().expect("it was there just now");
                partial.complete(original.modified, &self.settled)?;
                self.report.checksum = verification;
                Ok(())
            }
            Err(_) if self.continued => {
                session.options.progress.note(&format!(
                    "{}: starting again, because the partial file was not of this file",
                    one_line(&self.retrieval.remote)
                ));
                self.begin_anew(original)?;
                let running = self.fetch(session, original, method, 0)?;
                self.verify(session, original, method, running)
            }
            Err(why) => {
                if let Some(partial) = self.partial.take() {
                    partial.discard();
                }
                Err(ClientError::Differs(format!(
                    "{} is not what {} has: {why}",
                    one_line(self.retrieval.target.as_os_str().as_bytes()),
                    session.server()
                )))
            }
        }
    }
}

/// Whether the server refused the offset (REST) and not the file.
pub(super) fn is_about_restart(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { what, reply, .. }
        if what.starts_with("REST") && reply.code / 100 == 5)
}

/// A location on a server, as shown in reports.
pub(super) fn shown(place: &Place, path: &[u8]) -> String {
    place.with_path(path.to_vec()).to_string()
}
