//! Uploads from a source that cannot be rewound: standard input, a pipe, a device. There is only one attempt;
//! the bytes gather under a name that is never resumed, and are verified and renamed like any other file.

use std::os::unix::ffi::OsStrExt;

use fairwind_transfer::Direction;

use super::moving::Part;
use super::place;
use super::retry::Task;
use super::store::Storage;
use super::stream::Stream;
use super::target::Flow;
use super::{ClientError, Connection, FileReport, Session};
use crate::protocol::path::one_line;

/// Uploads what `flow` yields; `number` identifies it in progress reports.
pub(super) fn run(
    storage: &Storage,
    flow: &Flow,
    connection: &mut Connection,
    number: usize,
    report: FileReport,
) -> Result<FileReport, ClientError> {
    let failed = ClientError::local(&storage.source);
    let stream = Stream::from(flow, connection.options().progress.clone()).map_err(failed)?;
    let (directory, name) = place::split(&storage.remote);
    let mut inflow = StreamUpload {
        storage,
        number,
        partial: if connection.options().in_place {
            storage.remote.clone()
        } else {
            place::join(directory, &super::local::stream_name(name))
        },
        stream,
        report,
    };
    connection.carry_out(&mut inflow)?;
    Ok(inflow.report)
}

struct StreamUpload<'a> {
    storage: &'a Storage,
    number: usize,
    partial: Vec<u8>,
    stream: Stream,
    report: FileReport,
}

impl Task for StreamUpload<'_> {
    fn attempt(&mut self, session: &mut Session) -> Result<(), ClientError> {
        session.can_write(&self.storage.remote)?;
        match self.push(session) {
            // Another attempt would store the rest as if it were the whole.
            Err(error) if self.report.began.is_some() && error.is_transient() => {
                // If the connection is broken, the file stays under a name that shows what it is.
                let _ = session.delete(&self.partial);
                Err(ClientError::Differs(format!(
                    "{error}; what has been read of {} cannot be read again",
                    one_line(self.storage.source.as_os_str().as_bytes())
                )))
            }
            pushed => pushed,
        }
    }

    fn report(&mut self) -> Option<&mut FileReport> {
        Some(&mut self.report)
    }
}

impl StreamUpload<'_> {
    fn push(&mut self, session: &mut Session) -> Result<(), ClientError> {
        let method = session.method()?;
        self.stream.sum_up(method.map(|method| method.algorithm()));
        let part = Part {
            direction: Direction::Send,
            number: self.number,
            remote: &self.partial,
            first: 0,
            total: None,
            path: &self.storage.source,
            checksum: None,
        };
        let stream = &mut self.stream;
        session.move_part(&part, &mut self.report, |mover| {
            mover.send_from(stream, None)
        })?;
        let size = self.stream.passed();
        self.report.size = size;
        self.verify(session, size)?;
        if self.partial != self.storage.remote {
            session.rename(&self.partial, &self.storage.remote)?;
        }
        Ok(())
    }

    /// Checks that all bytes are there and equal those that were read.
    fn verify(&mut self, session: &mut Session, size: u64) -> Result<(), ClientError> {
        let wrong = match session.size(&self.partial)? {
            Some(there) if there != size => Some(format!("it has {there} bytes of {size}")),
            _ => None,
        };
        let verified = match (wrong, session.method()?) {
            (Some(wrong), _) => Err(wrong),
            (None, None) => Ok(session.without_method()),
            (None, Some(method)) => match self.stream.sum(method.algorithm()) {
                Ok(here) => session.compare(method, &self.partial, size, here)?,
                Err(error) => Err(error.to_string()),
            },
        };
        match verified {
            Ok(verification) => {
                self.report.checksum = verification;
                Ok(())
            }
            Err(why) => {
                session.delete(&self.partial)?;
                Err(ClientError::Differs(format!(
                    "what {} has got is not what was read: {why}",
                    session.server()
                )))
            }
        }
    }
}
