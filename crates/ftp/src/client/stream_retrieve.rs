//! Downloads to a sink that cannot be rewound. After a broken connection the download continues after the
//! last byte written; only at the end is it known whether the bytes are those of the file.

use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use fairwind_transfer::Direction;

use super::ending::retransmits;
use super::moving::Part;
use super::original::Original;
use super::retrieve::is_about_restart;
use super::retry::Task;
use super::stream::Stream;
use super::target::Flow;
use super::{ClientError, Connection, FileReport, Retrieval, Session};
use crate::protocol::path::one_line;

/// Downloads the file to `flow`; `number` identifies it in progress reports.
pub(super) fn run(
    retrieval: &Retrieval,
    flow: Flow,
    connection: &mut Connection,
    number: usize,
    report: FileReport,
) -> Result<FileReport, ClientError> {
    let mut outflow = StreamDownload {
        retrieval,
        flow,
        number,
        stream: None,
        origin: None,
        report,
    };
    connection.carry_out(&mut outflow)?;
    Ok(outflow.report)
}

struct StreamDownload<'a> {
    retrieval: &'a Retrieval,
    flow: Flow,
    number: usize,
    stream: Option<Stream>,
    /// The original as it was when its first byte was requested.
    origin: Option<Original>,
    report: FileReport,
}

impl Task for StreamDownload<'_> {
    fn attempt(&mut self, session: &mut Session) -> Result<(), ClientError> {
        session.can_read(&self.retrieval.remote)?;
        let original = Original::ask(session, &self.retrieval.remote)?;
        match self.origin {
            Some(origin) if origin != original => {
                return Err(ClientError::Differs(format!(
                    "{} was changed while it was fetched",
                    one_line(&self.retrieval.remote)
                )));
            }
            Some(_) => {}
            None => {
                if original.size.is_none() {
                    session.exists(&self.retrieval.remote)?;
                }
                if let (None, Some(size)) = (self.retrieval.size(), original.size) {
                    session.options.progress.expect(size);
                }
                let progress = session.options.progress.clone();
                let open = Stream::to(&self.flow, progress).map_err(self.failed())?;
                self.stream = Some(open.ok_or(ClientError::Stopped)?);
                self.origin = Some(original);
            }
        }
        self.fetch(session, original)
    }

    fn report(&mut self) -> Option<&mut FileReport> {
        Some(&mut self.report)
    }
}

impl StreamDownload<'_> {
    fn failed(&self) -> impl FnOnce(std::io::Error) -> ClientError + use<> {
        ClientError::local(self.retrieval.target.clone())
    }

    fn fetch(&mut self, session: &mut Session, original: Original) -> Result<(), ClientError> {
        let failed = self.failed();
        let method = session.method()?;
        let stream = self.stream.as_mut().expect("an attempt opens it first");
        stream.sum_up(method.map(|method| method.algorithm()));
        stream.end_at(original.size);
        let first = stream.passed();
        if first == 0 || original.size != Some(first) {
            session.prepare()?;
            let began = Instant::now();
            let remote = &self.retrieval.remote;
            let channel = match session.open_channel("RETR", remote, first, Direction::Receive) {
                Err(error) if first > 0 && is_about_restart(&error) => {
                    return Err(ClientError::Differs(format!(
                        "{} cannot be resumed after {first} bytes, and these cannot be taken \
                         back: {error}",
                        one_line(remote)
                    )));
                }
                channel => channel?,
            };
            let part = Part {
                number: self.number,
                first,
                total: original.size.map(|size| size - first),
                path: &self.retrieval.target,
                checksum: None,
                began,
            };
            let moved = session.move_part(&part, channel, &mut self.report, |mover| {
                mover.receive_into(stream, part.total)
            });
            if session.options.progress.stopped() {
                return Err(ClientError::Stopped);
            }
            if let (true, Some(size)) = (stream.is_over(), original.size) {
                return Err(ClientError::too_long(session.server(), remote, size, false));
            }
            self.report.retransmits = retransmits(&moved?).or(self.report.retransmits);
        }
        let passed = stream.passed();
        self.report.size = passed;
        if let Some(size) = original.size
            && passed < size
        {
            return Err(session.data_error(format!("it ended after {passed} of {size} bytes")));
        }
        let Some(method) = method else {
            self.report.checksum = session.without_method();
            return Ok(());
        };
        let here = stream
            .sum(method.algorithm())
            .ok_or_else(|| failed(std::io::Error::other("its checksum was begun otherwise")))?;
        let verified = session.compare(method, &self.retrieval.remote, passed, here)?;
        self.report.checksum = verified.map_err(|why| {
            let target = one_line(self.retrieval.target.as_os_str().as_bytes());
            ClientError::Differs(format!(
                "what was written to {target} is not what {} has: {why}",
                session.server()
            ))
        })?;
        Ok(())
    }
}
