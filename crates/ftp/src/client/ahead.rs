//! Commands sent ahead to servers that take them (`PIPELINING`): behind RETR go the request for the file's checksum and the
//! first commands of the next download. Their replies arrive with the file, so that each further file of a batch costs the
//! round trips of its data connection and no others.
//!
//! A server carries out commands in their order (RFC 959 section 5.4), so the checksum is that of the file after it was
//! sent, and the port is that of the next data connection.

use std::time::{Duration, Instant};

use super::checksum::Method;
use super::session::Original;
use super::{ClientError, Session};
use crate::protocol::Reply;
use crate::protocol::line::IAC;

/// How long a port that was asked for ahead is used: servers give up those that nobody connects to.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A command and its argument.
pub(super) type Command = (&'static str, Vec<u8>);

/// What may follow the command for a data connection before its reply.
#[derive(Debug, Clone, Copy)]
pub(super) enum Behind {
    /// Nothing.
    Nothing,
    /// The next data connection's port.
    Port,
    /// The checksum of the file by this method, if any, and the first commands of the next download.
    File(Option<Method>),
}

/// What was sent ahead and not answered yet, in the order of the replies.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The checksum of a file.
    checksum: Option<(Method, Vec<u8>)>,
    /// Size and time of the next file.
    facts: Option<Vec<u8>>,
    /// EPSV.
    port: bool,
}

impl Session {
    /// Whether commands may be sent before the replies to earlier ones.
    pub(super) fn takes_commands_in_advance(&self) -> bool {
        self.features.has("PIPELINING")
    }

    /// What to send behind `verb path`; notes the replies that will come.
    pub(super) fn send_ahead(
        &mut self,
        verb: &str,
        path: &[u8],
        behind: Behind,
    ) -> Result<(), ClientError> {
        let mut ahead = Ahead::default();
        let mut commands: Vec<Command> = Vec::new();
        if self.takes_commands_in_advance() {
            let next = match behind {
                Behind::Nothing => return self.control.send(verb, path),
                Behind::Port => None,
                Behind::File(method) => {
                    if let Some(method) = method {
                        commands.push(method.request(path));
                        ahead.checksum = Some((method, path.to_vec()));
                    }
                    self.next.take().filter(|next| is_plain(next))
                }
            };
            ahead.port = self.takes_passive_in_advance()
                && (next.is_some() || matches!(behind, Behind::Port));
            if let Some(next) = next {
                commands.push(("SIZE", next.clone()));
                commands.push(("MDTM", next.clone()));
                ahead.facts = Some(next);
            }
            if ahead.port {
                commands.push(("EPSV", Vec::new()));
            }
        }
        self.control.send_with(verb, path, &commands)?;
        self.ahead = ahead;
        Ok(())
    }

    /// The reply to a request for a checksum that was sent ahead; `None` if there was none.
    pub(super) fn checksum_ahead(
        &mut self,
        method: Method,
        path: &[u8],
        patience: Duration,
    ) -> Result<Option<Reply>, ClientError> {
        let asked = self
            .ahead
            .checksum
            .take_if(|(known, asked)| *known == method && asked == path);
        asked
            .map(|_| self.control.reply_ahead(patience))
            .transpose()
    }

    /// Reads what is left of the replies to commands sent ahead.
    ///
    /// # Errors
    /// If the control connection fails, or the reply to EPSV makes no sense.
    pub(super) fn settle_ahead(&mut self) -> Result<(), ClientError> {
        let ahead = std::mem::take(&mut self.ahead);
        let patience = self.options.patience;
        if ahead.checksum.is_some() {
            // Of a file that was refused, or came not as a whole.
            self.control.reply_ahead(patience)?;
        }
        if let Some(path) = ahead.facts {
            let size = self.control.reply_ahead(patience)?;
            let time = self.control.reply_ahead(patience)?;
            self.known = Some((path, Original::read(&size, &time)));
        }
        if ahead.port {
            let reply = self.control.reply_ahead(patience)?;
            let address = self.extended_address(&reply)?;
            self.listening = address.map(|address| (address, Instant::now()));
        }
        Ok(())
    }

    /// Size and time of a file, if they were asked for ahead of everything else.
    pub(super) fn known_ahead(&mut self, path: &[u8]) -> Option<Original> {
        let (of, original) = self.known.take()?;
        (of == path).then_some(original)
    }

    /// Whether the server listens already for the next data connection.
    pub(super) fn is_listening(&mut self) -> bool {
        self.listening
            .take_if(|(_, since)| since.elapsed() > LONGEST_WAIT);
        self.listening.is_some()
    }
}

/// Whether nothing has to be found out before the path can be sent.
fn is_plain(path: &[u8]) -> bool {
    !path
        .iter()
        .any(|byte| matches!(*byte, 0 | b'\r' | b'\n' | IAC))
}
