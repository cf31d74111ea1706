//! Commands sent ahead to servers that take them (`PIPELINING`).
//!
//! - Behind RETR go the request for the file's checksum and the first commands of the next download. Their replies arrive
//!   with the file, so that each further file of a batch costs the round trips of its data connection and no others.
//! - Before STOR goes ALLO, behind it the requests for size and checksum of what has been stored. Whether the file gets its
//!   name depends on the replies, so that costs a round trip more, in which go the first commands of the next upload.
//!
//! A server carries out commands in their order (RFC 959 section 5.4), so the checksum is that of the file after it was
//! moved, and the port is that of the next data connection.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::checksum::Method;
use super::session::{Original, size};
use super::{ClientError, Session};
use crate::protocol::line::IAC;
use crate::protocol::{Reply, time};

/// How long a port that was asked for ahead is used: servers give up those that nobody connects to.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A command and its argument.
pub(super) type Command = (&'static str, Vec<u8>);

/// A file that is likely to be moved next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Upcoming {
    /// Its path on the server.
    Download(Vec<u8>),
    /// The path of its partial file there.
    Upload(Vec<u8>),
}

impl Upcoming {
    fn path(&self) -> &[u8] {
        let (Self::Download(path) | Self::Upload(path)) = self;
        path
    }
}

/// Whether nothing has to be found out before a path can be sent.
pub(super) fn is_plain(path: &[u8]) -> bool {
    !path
        .iter()
        .any(|byte| matches!(*byte, 0 | b'\r' | b'\n' | IAC))
}

/// What may go with the command for a data connection before its reply.
#[derive(Debug, Clone, Copy)]
pub(super) enum Behind {
    /// Nothing.
    Nothing,
    /// The next data connection's port.
    Port,
    /// The checksum of the file by this method, if any, and the first commands of the next download.
    File(Option<Method>),
    /// Before an upload its size, in bytes, and behind it the size and, by this method, the checksum of what has been
    /// stored.
    Stored(u64, Option<Method>),
}

impl Behind {
    /// How a checksum is asked for ahead.
    pub(super) fn method(self) -> Option<Method> {
        match self {
            Self::File(method) | Self::Stored(_, method) => method,
            Self::Nothing | Self::Port => None,
        }
    }
}

/// What was sent ahead and not answered yet, in the order of the replies.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The size of a file that was stored.
    stored: Option<Vec<u8>>,
    /// The checksum of a file.
    checksum: Option<(Method, Vec<u8>)>,
    /// Size and time of the next file.
    facts: Option<Vec<u8>>,
    /// The size of the next partial file.
    partial: Option<Vec<u8>>,
    /// EPSV.
    port: bool,
}

impl Session {
    /// Whether commands may be sent before the replies to earlier ones.
    pub(super) fn takes_commands_in_advance(&self) -> bool {
        self.features.has("PIPELINING")
    }

    /// Sends `verb path` with what may go with it; notes the replies that will come.
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
                Behind::Port | Behind::Stored(..) => None,
                Behind::File(_) => match self.next_plain() {
                    Some(Upcoming::Download(next)) => Some(next),
                    _ => None,
                },
            };
            if let Behind::Stored(..) = behind {
                commands.push(("SIZE", path.to_vec()));
                ahead.stored = Some(path.to_vec());
            }
            if let Some(method) = behind.method() {
                commands.push(method.request(path));
                ahead.checksum = Some((method, path.to_vec()));
            }
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
        match (behind, self.announces_ahead(behind)) {
            (Behind::Stored(size, _), true) => {
                commands.insert(0, ("STOR", path.to_vec()));
                let size = size.to_string();
                self.control.send_with("ALLO", size.as_bytes(), &commands)?;
            }
            _ => self.control.send_with(verb, path, &commands)?,
        }
        self.ahead = ahead;
        Ok(())
    }

    /// Whether ALLO goes together with the command for a data connection.
    pub(super) fn announces_ahead(&self, behind: Behind) -> bool {
        matches!(behind, Behind::Stored(..)) && self.takes_commands_in_advance()
    }

    /// The next file, if it can be asked for ahead.
    fn next_plain(&mut self) -> Option<Upcoming> {
        self.next.take().filter(|next| is_plain(next.path()))
    }

    /// The size of a file that has just been stored, in bytes; `None` if the server does not say.
    pub(super) fn stored_size(&mut self, path: &[u8]) -> Result<Option<u64>, ClientError> {
        match self.ahead.stored.take_if(|stored| stored == path) {
            Some(_) => Ok(size(&self.control.reply_ahead(self.options.patience)?)),
            None => self.size(path),
        }
    }

    /// The size of a partial file that an upload may go on with, in bytes. A server that takes commands in advance listens
    /// for the data connection meanwhile, or may have answered already.
    pub(super) fn partial_size(&mut self, path: &[u8]) -> Result<Option<u64>, ClientError> {
        self.settle_ahead()?;
        if let Some((of, size)) = self.partial.take()
            && of == path
        {
            return Ok(size);
        }
        if !self.takes_passive_in_advance() || self.is_listening() {
            return self.size(path);
        }
        self.prepare()?;
        let [bytes, listens] = self
            .control
            .ask_all([("SIZE", path), ("EPSV", b"".as_slice())])?;
        let address = self.extended_address(&listens)?;
        self.listening = address.map(|address| (address, Instant::now()));
        Ok(size(&bytes))
    }

    /// Renames a file that has arrived as a whole, gives it its time, and asks for what the next upload needs. To servers
    /// that do not take commands in advance one after the other.
    ///
    /// # Errors
    /// As for [`rename`](Self::rename).
    pub(super) fn name_upload(
        &mut self,
        from: &[u8],
        to: &[u8],
        modified: Option<Timestamp>,
    ) -> Result<(), ClientError> {
        if !self.takes_commands_in_advance() {
            self.rename(from, to)?;
            return match modified {
                Some(modified) => self.set_modified(to, modified),
                None => Ok(()),
            };
        }
        self.settle_ahead()?;
        let mut commands: Vec<Command> = vec![("RNFR", from.to_vec()), ("RNTO", to.to_vec())];
        // The time comes first: so it is never that of an older file whose name cannot be had.
        let sets_time = modified.filter(|_| self.features.has("MFMT"));
        if let Some(modified) = sets_time {
            let argument = [time::format(modified).as_bytes(), b" ", from].concat();
            commands.insert(0, ("MFMT", argument));
        }
        let mut ahead = Ahead::default();
        if let Some(Upcoming::Upload(next)) = self.next_plain() {
            commands.push(("SIZE", next.clone()));
            ahead.partial = Some(next);
            ahead.port = self.takes_passive_in_advance() && !self.is_listening();
            if ahead.port {
                commands.push(("EPSV", Vec::new()));
            }
        }
        let (verb, argument) = commands.remove(0);
        self.control.send_with(verb, &argument, &commands)?;
        let patience = self.options.patience;
        let first = self.control.last_reply(patience)?;
        let may_rename = match sets_time {
            // A server that sets no times does not keep the file from its name.
            Some(_) => self.control.reply_ahead(patience)?,
            None => first,
        };
        let renamed = self.control.reply_ahead(patience)?;
        self.ahead = ahead;
        self.judge_rename(from, to, may_rename, renamed)?;
        match modified {
            Some(modified) if sets_time.is_none() => self.set_modified(to, modified),
            _ => Ok(()),
        }
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
        if ahead.stored.is_some() {
            self.control.reply_ahead(patience)?;
        }
        if ahead.checksum.is_some() {
            // Of a file that was refused, or came not as a whole.
            self.control.reply_ahead(patience)?;
        }
        if let Some(path) = ahead.facts {
            let size = self.control.reply_ahead(patience)?;
            let time = self.control.reply_ahead(patience)?;
            self.known = Some((path, Original::read(&size, &time)));
        }
        if let Some(path) = ahead.partial {
            let reply = self.control.reply_ahead(patience)?;
            self.partial = Some((path, size(&reply)));
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
