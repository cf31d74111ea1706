//! Uploads: under `.NAME.part`, resumed where an earlier attempt broke off, verified, renamed.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use fairwind_transfer::Direction;
use jiff::Timestamp;

use super::checksum::Method;
use super::clash::Places;
use super::local::partial_name;
use super::moving::Part;
use super::place;
use super::retrieve::shown;
use super::retry::Task;
use super::running_checksum::RunningChecksum;
use super::stream_store;
use super::target::Target;
use super::{ClientError, Connection, Entry, FileReport, Session};
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
    file: File,
    size: u64,
    modified: Option<Timestamp>,
    /// The path of the partial upload.
    partial: Vec<u8>,
    report: FileReport,
    /// Earlier attempts left bytes that this one continues.
    continued: bool,
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
        let mut report = FileReport::new(
            one_line(self.source.as_os_str().as_bytes()).into_owned(),
            destination,
        );
        match Target::find(&self.source).map_err(failed)? {
            Target::File(_) => {}
            Target::Flow(flow) => {
                return stream_store::run(self, &flow, connection, number, report);
            }
        }
        let file = File::open(&self.source).map_err(failed)?;
        let facts = file.metadata().map_err(failed)?;
        if !facts.is_file() {
            return Err(failed(std::io::Error::other("that is no plain file")));
        }
        let modified = modified(&file);
        report.size = facts.len();
        if self.is_there(connection, facts.len(), modified)? {
            connection.options().progress.begins(number, facts.len());
            report.skipped = true;
            return Ok(report);
        }
        let partial = self.places(connection.options().in_place).partial;
        let mut push = Push {
            storage: self,
            number,
            file,
            size: facts.len(),
            modified,
            partial,
            report,
            continued: false,
        };
        connection.carry_out(&mut push)?;
        Ok(push.report)
    }
}

impl Storage {
    /// The final and partial paths.
    pub(super) fn places(&self, in_place: bool) -> Places {
        let (directory, name) = place::split(&self.remote);
        Places {
            whole: self.remote.clone(),
            partial: if in_place {
                self.remote.clone()
            } else {
                place::join(directory, &partial_name(name))
            },
        }
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
        let method = session.method()?;
        let first = self.first(session, method)?;
        if self.report.interruptions.is_empty() {
            self.report.resumed_at = first;
        }
        let running = self.push(session, method, first)?;
        self.verify(session, method, running)
    }

    fn report(&mut self) -> Option<&mut FileReport> {
        Some(&mut self.report)
    }
}

impl Push<'_> {
    /// The byte to continue from.
    fn first(&mut self, session: &mut Session, method: Option<Method>) -> Result<u64, ClientError> {
        self.continued = false;
        // Uploaded in place, what is there may be a complete older file.
        // This process has sent bytes.
        let begun = self.report.began.is_some();
        let wanted = begun || (session.options.resume && !session.options.in_place);
        if !wanted {
            return Ok(0);
        }
        let present = match session.size(&self.partial)? {
            Some(present) if present > 0 && present <= self.size => present,
            _ => return Ok(0),
        };
        // Bytes of an earlier process belong to this file if it has not changed since they were sent.
        let same = begun || method.is_some() || {
            let there = session.modified(&self.partial)?;
            there
                .zip(self.modified)
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
        let failed = |error| ClientError::local(&self.storage.source)(error);
        let running = method
            .map(|method| RunningChecksum::begin(&self.file, method.algorithm(), first))
            .transpose()
            .map_err(failed)?;
        let number = self.number;
        if first > 0 && first == self.size {
            session.options.progress.begins(number, first);
            return Ok(running);
        }
        session.announce(self.size)?;
        let part = Part {
            direction: Direction::Send,
            number,
            remote: &self.partial,
            first,
            total: Some(self.size - first),
            path: &self.storage.source,
            checksum: running.as_ref(),
        };
        session.move_part(&part, &mut self.report, |mover| {
            mover.send_file(&self.file, first, self.size)
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
    ) -> Result<(), ClientError> {
        let there = session.size(&self.partial)?;
        if let Some(there) = there
            && there < self.size
        {
            let what = format!("{there} of {} bytes have arrived", self.size);
            return Err(session.data_error(what));
        }
        let verification = match (method, running) {
            (Some(method), Some(running)) => {
                let here = running
                    .finish(self.size)
                    .map_err(ClientError::local(&self.storage.source))?;
                session.compare(method, &self.partial, self.size, here)?
            }
            _ => Ok(session.without_method()),
        };
        let too_long = there.is_some_and(|there| there > self.size);
        match verification {
            Ok(verification) if !too_long => {
                self.report.checksum = verification;
                self.complete(session)
            }
            _ if self.continued => {
                session.options.progress.note(&format!(
                    "{} begins anew: what was there before was not of this file",
                    one_line(&self.storage.remote)
                ));
                self.continued = false;
                let running = self.push(session, method, 0)?;
                self.verify(session, method, running)
            }
            verification => {
                // Must not be resumed.
                session.delete(&self.partial)?;
                let why = verification
                    .err()
                    .unwrap_or_else(|| "there are too many bytes".into());
                Err(ClientError::Differs(format!(
                    "{} is not what {} has got: {why}",
                    one_line(self.storage.source.as_os_str().as_bytes()),
                    session.server()
                )))
            }
        }
    }

    fn complete(&mut self, session: &mut Session) -> Result<(), ClientError> {
        let facts = self
            .file
            .metadata()
            .map_err(ClientError::local(&self.storage.source))?;
        if facts.len() != self.size || modified(&self.file) != self.modified {
            session.delete(&self.partial)?;
            return Err(ClientError::Differs(format!(
                "{} was changed while it was sent",
                one_line(self.storage.source.as_os_str().as_bytes())
            )));
        }
        if self.partial != self.storage.remote {
            session.rename(&self.partial, &self.storage.remote)?;
        }
        match self.modified {
            Some(modified) => session.set_modified(&self.storage.remote, modified),
            None => Ok(()),
        }
    }
}
