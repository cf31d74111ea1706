//! Downloads: into `.NAME.part`, resumed where an earlier attempt broke off, verified, renamed.
//!
//! A sink that cannot be rewound is written to directly. After a broken connection the download continues
//! after the last byte written; only at the end is it known whether the bytes are those of the file.

use std::fs::{self, Metadata};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;

use fairwind_transfer::Direction;

use super::ahead::Behind;
use super::checksum::Method;
use super::clash::{Places, Settled};
use super::local::{Partial, partial_name};
use super::moving::{Part, is_about_restart};
use super::ranges;
use super::retry::Task;
use super::running_checksum::RunningChecksum;
use super::session::Original;
use super::stream::Stream;
use super::target::Target;
use super::{ClientError, Connection, Entry, FileReport, Place, Session};
use crate::bounded::Bounded;
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
    /// What the local path leads to.
    target: Target,
    settled: Arc<Settled>,
    number: usize,
    /// `None` before the first attempt.
    sink: Option<Sink>,
    report: FileReport,
    /// The original as it was when the bytes that are here arrived; `None` if unknown.
    origin: Option<Original>,
    /// Earlier attempts left bytes that this one continues.
    continued: bool,
    /// The server refuses to start in the middle of a file.
    no_restart: bool,
}

/// What takes the bytes.
enum Sink {
    Partial(Partial),
    Stream(Stream),
}

impl Sink {
    /// Number of bytes that are there.
    fn len(&self) -> Result<u64, ClientError> {
        match self {
            Self::Partial(partial) => partial.len(),
            Self::Stream(stream) => Ok(stream.passed()),
        }
    }

    fn writer(&mut self, first: u64) -> Box<dyn Write + '_> {
        match self {
            Self::Partial(partial) => Box::new(partial.writer(first)),
            Self::Stream(stream) => Box::new(stream),
        }
    }

    /// Removes bytes that are useless, where that can be done.
    fn discard(self) {
        if let Self::Partial(partial) = self {
            partial.discard();
        }
    }
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
        let mut report = FileReport::new(source.to_string(), self.shown_target());
        let target = Target::find(&self.target).map_err(ClientError::local(&self.target))?;
        let settled = connection.settled();
        if let Target::File(path) = &target
            && let Some(present) = self.present(connection, path)?
        {
            settled
                .settle(&present, path, || Ok(()))
                .map_err(ClientError::local(&self.target))?;
            connection.options().progress.begins(number, present.len());
            report.size = present.len();
            report.skipped = true;
            return Ok(report);
        }
        let ranges = connection.options().ranges;
        if let Target::File(path) = &target
            && ranges.get() > 1
            && ranges::fetch(self, connection, number, path, ranges, &mut report)?
        {
            return Ok(report);
        }
        let mut fetch = Fetch {
            retrieval: self,
            target,
            settled,
            number,
            sink: None,
            report,
            origin: None,
            continued: false,
            no_restart: false,
        };
        let result = connection.carry_out(&mut fetch);
        if let (Err(_), Some(Sink::Partial(partial))) = (&result, fetch.sink.take()) {
            partial.abandon();
        }
        result.map(|()| fetch.report)
    }
}

impl Retrieval {
    /// The local path, as shown in reports.
    pub(super) fn shown_target(&self) -> String {
        one_line(self.target.as_os_str().as_bytes()).into_owned()
    }

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

    /// Whether the local file has the size and time of the listed one.
    pub(super) fn is_done(&self, connection: &mut Connection) -> Result<bool, ClientError> {
        match Target::find(&self.target).map_err(ClientError::local(&self.target))? {
            Target::File(path) => Ok(self.present(connection, &path)?.is_some()),
            Target::Flow(_) => Ok(false),
        }
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
        Ok(original.is(&here).then_some(here))
    }
}

impl Task for Fetch<'_> {
    fn attempt(&mut self, session: &mut Session) -> Result<(), ClientError> {
        session.can_read(&self.retrieval.remote)?;
        let original = Original::ask_before_download(session, &self.retrieval.remote)?;
        if self.sink.is_none() {
            if original.size.is_none() {
                // Avoids creating a partial file for a file that does not exist.
                session.exists(&self.retrieval.remote)?;
            }
            self.sink = Some(self.open(session)?);
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
    fn open(&self, session: &Session) -> Result<Sink, ClientError> {
        match &self.target {
            Target::File(path) => {
                let partial = Partial::open(path)?.unless_settled(&self.settled)?;
                Ok(Sink::Partial(partial))
            }
            Target::Flow(flow) => {
                let open = Stream::to(flow, session.options.progress.clone());
                let open = open.map_err(ClientError::local(&self.retrieval.target))?;
                open.map(Sink::Stream).ok_or(ClientError::Stopped)
            }
        }
    }

    /// The byte to continue from. Bytes that may belong to another file are discarded.
    fn first(
        &mut self,
        session: &Session,
        original: Original,
        method: Option<Method>,
    ) -> Result<u64, ClientError> {
        let before = self.origin.replace(original);
        let partial = match self.sink.as_mut().expect("an attempt opens it first") {
            Sink::Partial(partial) => partial,
            Sink::Stream(_) if before.is_some_and(|before| before != original) => {
                return Err(ClientError::Differs(format!(
                    "{} was changed while it was fetched",
                    one_line(&self.retrieval.remote)
                )));
            }
            Sink::Stream(stream) => {
                stream.sum_up(method.map(|method| method.algorithm()));
                return Ok(stream.passed());
            }
        };
        let present = partial.len()?;
        // Either this process saw where the bytes came from, or it was recorded, or a checksum will tell.
        let same = match before {
            Some(before) => before == original,
            None => match (partial.origin(), original.note()) {
                (Some(noted), Some(now)) => noted == now,
                _ => method.is_some(),
            },
        };
        let within = original.size.is_none_or(|size| present <= size);
        let wanted = session.options.resume || before.is_some();
        self.continued = present > 0 && same && within && wanted && !self.no_restart;
        if self.continued {
            return Ok(present);
        }
        if present > 0 && wanted {
            session.options.progress.note(&format!(
                "{}: starting again, because the partial file is not, or may not be, of this file",
                one_line(&self.retrieval.remote)
            ));
        }
        partial.begin_anew(original.note())?;
        Ok(0)
    }

    /// Downloads the missing bytes; returns the checksum computed meanwhile.
    fn fetch(
        &mut self,
        session: &mut Session,
        original: Original,
        method: Option<Method>,
        first: u64,
    ) -> Result<Option<RunningChecksum>, ClientError> {
        let remote = &self.retrieval.remote;
        let sink = self.sink.as_mut().expect("an attempt opens it first");
        let (path, running) = match (&*sink, method) {
            (Sink::Stream(_), _) => (self.retrieval.target.clone(), None),
            (Sink::Partial(partial), None) => (partial.path.clone(), None),
            (Sink::Partial(partial), Some(method)) => {
                let begun = RunningChecksum::begin(&partial.file, method.algorithm(), first);
                let begun = begun.map_err(|error| partial.failed(error))?;
                (partial.path.clone(), Some(begun))
            }
        };
        if first > 0 && original.size == Some(first) {
            session.options.progress.begins(self.number, first);
            return Ok(running);
        }
        let part = Part {
            direction: Direction::Receive,
            number: self.number,
            remote,
            first,
            told_from: first,
            total: original.size.map(|size| size - first),
            path: &path,
            checksum: running.as_ref(),
            behind: Behind::File(method),
        };
        let refusal = || std::io::Error::other("more bytes than were announced");
        let most = part.total.unwrap_or(u64::MAX);
        let mut writer = Bounded::new(sink.writer(first), most, refusal);
        let moved = session.move_part(&part, &mut self.report, |mover| {
            mover.receive_into(&mut writer, part.total)
        });
        let is_over = writer.is_over();
        drop(writer);
        match (moved, original.size, &*sink) {
            (_, Some(size), _) if is_over => {
                drop(running);
                Err(self.too_long(session, original, size))
            }
            (Err(error), _, Sink::Stream(_)) if is_about_restart(&error) => {
                Err(ClientError::Differs(format!(
                    "{} cannot be resumed after {first} bytes, and these cannot be taken back: {error}",
                    one_line(remote)
                )))
            }
            (Err(error), _, Sink::Partial(_)) if is_about_restart(&error) => {
                self.no_restart = true;
                drop(running);
                self.begin_anew(original)?;
                self.fetch(session, original, method, 0)
            }
            (moved, ..) => moved.map(|()| running),
        }
    }

    /// Discards the bytes of a partial file that was continued.
    fn begin_anew(&mut self, original: Original) -> Result<(), ClientError> {
        self.continued = false;
        match &self.sink {
            Some(Sink::Partial(partial)) => partial.begin_anew(original.note()),
            Some(Sink::Stream(_)) | None => Ok(()),
        }
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
        } else if let Some(sink) = self.sink.take() {
            sink.discard();
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
        let sink = self.sink.as_ref().expect("an attempt opens it first");
        let present = sink.len()?;
        self.report.size = present;
        if let Some(size) = original.size
            && present < size
        {
            return Err(session.data_error(format!("it ended after {present} of {size} bytes")));
        }
        let target = &self.retrieval.target;
        let verification = match method {
            None => Ok(session.without_method()),
            Some(method) => {
                let here = match (sink, running) {
                    (Sink::Partial(partial), Some(running)) => running
                        .finish(present)
                        .map_err(|error| partial.failed(error))?,
                    (Sink::Stream(stream), _) => stream
                        .sum(method.algorithm())
                        .map_err(ClientError::local(target))?,
                    (Sink::Partial(_), None) => unreachable!("it began with the download"),
                };
                session.compare(method, &self.retrieval.remote, present, here)?
            }
        };
        match verification {
            Ok(verification) => {
                if let Some(Sink::Partial(partial)) = self.sink.take() {
                    partial.complete(original.modified, &self.settled)?;
                }
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
                let what = match sink {
                    Sink::Partial(_) => "",
                    Sink::Stream(_) => "what was written to ",
                };
                let text = format!(
                    "{what}{} is not what {} has: {why}",
                    one_line(target.as_os_str().as_bytes()),
                    session.server()
                );
                if let Some(sink) = self.sink.take() {
                    sink.discard();
                }
                Err(ClientError::Differs(text))
            }
        }
    }
}

/// A location on a server, as shown in reports.
pub(super) fn shown(place: &Place, path: &[u8]) -> String {
    place.with_path(path.to_vec()).to_string()
}
