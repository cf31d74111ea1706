//! The end of a transfer: the server's final reply, the extensions' reports, the checksums.

use std::path::Path;
use std::time::Duration;

use fairwind_transfer::TransferError;

use super::checksum::Method;
use super::{Checksum, ChecksumPolicy, ClientError, FileReport, Session, Verification};
use crate::protocol::Reply;

/// How long the server has to explain a broken data connection.
const FINAL_REPLY_TIMEOUT: Duration = Duration::from_secs(2);

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
        let algorithm = method.algorithm().name();
        match self.remote_checksum(method, path, Some(size))? {
            Ok(there) if there == here => Ok(Ok(Verification::Verified(Checksum {
                algorithm,
                value: here,
            }))),
            Ok(there) => Ok(Err(format!(
                "its {algorithm} is {here} here and {there} there"
            ))),
            Err(reply) if self.options.checksum == ChecksumPolicy::Required => {
                Ok(Err(format!("there is no {algorithm} of it: {reply}")))
            }
            Err(reply) => Ok(Ok(Verification::Refused { reply })),
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
