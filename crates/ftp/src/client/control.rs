//! The client side of the control connection: sends commands and reads their replies, with limits on time and
//! size.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_transfer::Protection;
use rustix::event::PollFlags;
use socket2::{SockRef, TcpKeepalive};

use super::ahead::Command;
use super::progress::wait;
use super::protection::complete;
use super::route::Way;
use super::{ClientError, Place, Progress, Route};
use crate::protocol::Reply;
use crate::protocol::line::{Line, LineDecoder, escaped};
use crate::protocol::path::one_line;
use crate::protocol::reply::{LONGEST, ReplyReader};
use crate::tls::{Fingerprint, Protected};

/// Longest accepted line of a reply, bytes.
const LONGEST_LINE: usize = 16 << 10;
/// Most preliminary replies before a final one.
const MOST_PRELIMINARY: usize = 100;
/// Idle time before the kernel sends a keepalive probe, so that NATs on the path do not drop a control
/// connection that is silent during a long transfer.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// A control connection.
pub(super) struct Control {
    stream: TcpStream,
    protection: Option<Protected>,
    /// Host and port, as shown in messages.
    pub(super) server: String,
    pub(super) local: SocketAddr,
    /// The server's address.
    pub(super) peer: SocketAddr,
    patience: Duration,
    progress: Arc<dyn Progress>,
    decoder: LineDecoder,
    /// Received lines of replies that have not been read yet.
    lines: VecDeque<Line>,
    asked: String,
    /// Commands sent ahead that have no reply yet.
    owed: VecDeque<String>,
    /// Replies to commands sent ahead that nobody has asked for yet.
    early: VecDeque<Reply>,
    /// How the server expects the byte 255; `None` until that has been found out.
    pub(super) telnet: Option<Telnet>,
    /// How the server was reached, and is for data connections.
    pub(super) way: Way,
}

/// How a server reads the byte 255 (IAC of Telnet) in commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telnet {
    /// Two of them are one byte of the argument.
    Doubled,
    /// It is an ordinary byte.
    Plain,
}

impl Control {
    /// Connects to the first of the server's addresses that accepts, in the order of the resolver.
    ///
    /// # Errors
    /// If the name cannot be resolved, or no address accepts; then the error is that of the last address.
    pub(super) fn connect(
        place: &Place,
        route: &Route,
        patience: Duration,
        progress: Arc<dyn Progress>,
    ) -> Result<Self, ClientError> {
        let server = place.server();
        let failed = |error| ClientError::transient(format!("no connection to {server}: {error}"));
        let way = route.to(place)?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in way.addresses.clone() {
            if progress.stopped() {
                return Err(ClientError::Stopped);
            }
            match open(&way, address, patience, &*progress) {
                Ok(stream) => {
                    return Ok(Self {
                        local: stream.local_addr().map_err(failed)?,
                        peer: stream.peer_addr().map_err(failed)?,
                        stream,
                        protection: None,
                        server,
                        patience,
                        progress,
                        decoder: LineDecoder::new(LONGEST_LINE),
                        lines: VecDeque::new(),
                        asked: "the connection".into(),
                        owed: VecDeque::new(),
                        early: VecDeque::new(),
                        telnet: None,
                        way,
                    });
                }
                Err(error) => last = said(error, address, patience),
            }
        }
        Err(failed(last))
    }

    /// Whether a line of a reply has been received already; does not read the socket.
    pub(super) fn has_line(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Sends `verb argument`; an empty argument is omitted.
    ///
    /// # Errors
    /// [`ClientError::Name`] if the argument holds a line end or a zero; [`ClientError::Broken`] if the
    /// connection broke.
    pub(super) fn send(&mut self, verb: &str, argument: &[u8]) -> Result<(), ClientError> {
        self.send_with(verb, argument, &[])
    }

    /// Sends `verb argument`, and others behind it whose replies [`reply_ahead`](Self::reply_ahead) reads after its own.
    ///
    /// # Errors
    /// As for [`send`](Self::send); then none has been sent.
    pub(super) fn send_with(
        &mut self,
        verb: &str,
        argument: &[u8],
        behind: &[Command],
    ) -> Result<(), ClientError> {
        let (mut lines, asked) = self.line(verb, argument)?;
        let (behind, owed) = self.lines(behind)?;
        lines.extend(behind);
        // The replies come in the order of the commands.
        while let Some(asked) = self.owed.pop_front() {
            self.asked = asked;
            let reply = self.last_reply(self.patience)?;
            self.early.push_back(reply);
        }
        self.asked = asked;
        self.write(&lines).map_err(|error| self.broken(error))?;
        self.owed = owed;
        Ok(())
    }

    /// Sends commands whose replies [`reply_ahead`](Self::reply_ahead) and [`first_reply_ahead`](Self::first_reply_ahead)
    /// read behind those still owed.
    ///
    /// # Errors
    /// As for [`send`](Self::send); then none has been sent.
    pub(super) fn send_ahead(&mut self, commands: &[Command]) -> Result<(), ClientError> {
        let (lines, mut owed) = self.lines(commands)?;
        self.write(&lines).map_err(|error| self.broken(error))?;
        self.owed.append(&mut owed);
        Ok(())
    }

    /// The final reply to the next of the commands sent ahead.
    ///
    /// # Errors
    /// As for [`reply`](Self::reply).
    pub(super) fn reply_ahead(&mut self, patience: Duration) -> Result<Reply, ClientError> {
        if let Some(reply) = self.early.pop_front() {
            return Ok(reply);
        }
        if let Some(asked) = self.owed.pop_front() {
            self.asked = asked;
        }
        self.last_reply(patience)
    }

    /// The next reply, which may be preliminary, to the next of the commands sent ahead.
    ///
    /// # Errors
    /// As for [`reply`](Self::reply).
    pub(super) fn first_reply_ahead(&mut self, patience: Duration) -> Result<Reply, ClientError> {
        if let Some(asked) = self.owed.pop_front() {
            self.asked = asked;
        }
        self.reply(patience)
    }

    /// Commands as they are sent together, and as each is shown.
    fn lines(&self, commands: &[Command]) -> Result<(Vec<u8>, VecDeque<String>), ClientError> {
        let (mut lines, mut shown) = (Vec::new(), VecDeque::new());
        for (verb, argument) in commands {
            let (line, asked) = self.line(verb, argument)?;
            lines.extend(line);
            shown.push_back(asked);
        }
        Ok((lines, shown))
    }

    /// A command as it is sent, and as it is shown.
    fn line(&self, verb: &str, argument: &[u8]) -> Result<(Vec<u8>, String), ClientError> {
        if argument
            .iter()
            .chain(verb.as_bytes())
            .any(|byte| matches!(byte, 0 | b'\r' | b'\n'))
        {
            return Err(ClientError::invalid_name(argument));
        }
        let mut line = verb.as_bytes().to_vec();
        if !argument.is_empty() {
            line.push(b' ');
            line.extend_from_slice(argument);
        }
        let asked = match verb {
            "PASS" => verb.to_owned(),
            _ => one_line(&line).into_owned(),
        };
        let mut line = match self.telnet {
            Some(Telnet::Plain) => line,
            // Telnet's escaping, as the standard demands, until something else is known.
            Some(Telnet::Doubled) | None => escaped(&line).into_owned(),
        };
        line.extend_from_slice(b"\r\n");
        Ok((line, asked))
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let Some(protection) = &mut self.protection else {
            return self.stream.write_all(line);
        };
        let mut rest = line;
        while !rest.is_empty() {
            let count = protection.write(&self.stream, rest)?;
            rest = &rest[count..];
        }
        protection.flush(&self.stream)
    }

    /// From now on waits so long for replies, until this says to stop.
    pub(super) fn adopt(&mut self, patience: Duration, progress: Arc<dyn Progress>) {
        (self.patience, self.progress) = (patience, progress);
    }

    /// The certificate that the server has shown; none in clear.
    pub(super) fn certificate(&self) -> Option<Fingerprint> {
        let shown = self.protection.as_ref()?.connection().peer_certificates()?;
        shown
            .first()
            .map(|certificate| Fingerprint::of(certificate))
    }

    /// Whether the server has neither said anything unasked nor closed the connection.
    pub(super) fn is_silent(&self) -> bool {
        let arrival = (self.stream.as_fd(), PollFlags::IN);
        let waited = wait(&*self.progress, &[arrival], Some(Instant::now()));
        self.is_empty() && waited.is_ok_and(|ready| !ready[0])
    }

    /// Whether nothing has come that has not been read yet.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.decoder.is_empty()
    }

    /// Lets everything pass through TLS from now on; drives its handshake.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn protect(&mut self, mut protected: Protected) -> io::Result<()> {
        let progress = Arc::clone(&self.progress);
        complete(&mut protected, &self.stream, &*progress, self.patience)?;
        self.protection = Some(protected);
        Ok(())
    }

    /// Ends TLS in order, as far as the server still listens.
    pub(super) fn end(&mut self) {
        if let Some(protection) = &mut self.protection {
            let _ = protection.end(&self.stream);
        }
    }

    /// Sends a command and waits for its final reply, skipping preliminary ones. A refusal is a reply, not an
    /// error.
    ///
    /// # Errors
    /// If the command cannot be sent, or no valid reply comes in time.
    pub(super) fn ask(&mut self, verb: &str, argument: &[u8]) -> Result<Reply, ClientError> {
        self.send(verb, argument)?;
        self.last_reply(self.patience)
    }

    /// Sends commands that do not depend on each other and waits for all their replies: one round trip
    /// together. None may open a data connection. A refusal is a reply, not an error.
    ///
    /// # Errors
    /// If a command cannot be sent, or no valid reply comes in time.
    pub(super) fn ask_all<const N: usize>(
        &mut self,
        commands: [(&str, &[u8]); N],
    ) -> Result<[Reply; N], ClientError> {
        let mut asked = Vec::with_capacity(N);
        for (verb, argument) in commands {
            self.send(verb, argument)?;
            asked.push(self.asked.clone());
        }
        let mut replies = Vec::with_capacity(N);
        for asked in asked {
            self.asked = asked;
            replies.push(self.last_reply(self.patience)?);
        }
        Ok(replies.try_into().expect("a reply for each command"))
    }

    /// Waits for the next reply that is not preliminary: as for [`Control::reply`], and as long again after a preliminary one,
    /// however many there are.
    ///
    /// # Errors
    /// As for [`Control::reply`], and if there are too many preliminary ones.
    pub(super) fn last_reply(&mut self, patience: Duration) -> Result<Reply, ClientError> {
        let mut deadline = Instant::now() + patience;
        for preliminary in 0..=MOST_PRELIMINARY {
            let reply = self.reply_until(deadline, patience)?;
            if !reply.is_preliminary() {
                return Ok(reply);
            }
            if preliminary == 0 {
                deadline = Instant::now() + patience;
            }
        }
        Err(self.protocol_error("preliminary replies without end"))
    }

    /// Waits for the next reply: at most `patience` for its first byte, and as long again for the rest.
    ///
    /// # Errors
    /// If the connection breaks, nothing comes in time, what comes is no valid reply, the server closes the
    /// session (421), or the user stops. The connection cannot be used afterwards.
    pub(super) fn reply(&mut self, patience: Duration) -> Result<Reply, ClientError> {
        self.reply_until(Instant::now() + patience, patience)
    }

    /// The same with the time until which the first byte has to come.
    fn reply_until(
        &mut self,
        mut deadline: Instant,
        patience: Duration,
    ) -> Result<Reply, ClientError> {
        let mut reader = ReplyReader::default();
        let mut begun = false;
        let mut taken = 0;
        let mut bytes = [0; 4096];
        loop {
            while let Some(line) = self.lines.pop_front() {
                let Line::Whole(line) = line else {
                    return Err(self.protocol_error("a line of a reply is too long"));
                };
                match reader.take(&line) {
                    Ok(Some(reply)) if reply.code == 421 => return Err(self.refused(reply)),
                    Ok(Some(reply)) => return Ok(reply),
                    Ok(None) => {}
                    Err(error) => return Err(self.protocol_error(&error)),
                }
            }
            // Overlong lines are discarded by the decoder but counted here.
            if taken > LONGEST {
                return Err(self.protocol_error("a reply without end"));
            }
            if self.progress.stopped() {
                return Err(ClientError::Stopped);
            }
            match self.read(&mut bytes, deadline) {
                Ok(0) => return Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    if !std::mem::replace(&mut begun, true) {
                        // That of a reply which is there already may be past.
                        deadline = deadline.min(Instant::now()) + patience;
                    }
                    taken += count;
                    self.decoder.take(&bytes[..count]);
                    while let Some(line) = self.decoder.next_line() {
                        self.lines.push_back(line);
                    }
                }
                Err(error) if is_wait(&error) => {}
                Err(error) => return Err(self.broken(error)),
            }
            if Instant::now() >= deadline {
                let (server, asked) = (&self.server, &self.asked);
                return Err(ClientError::transient(format!(
                    "{server} did not answer {asked} within {patience:?}"
                )));
            }
        }
    }

    /// Reads what has come, or comes before `deadline`; the error is `WouldBlock` if nothing does, or the wait
    /// ends early.
    fn read(&mut self, bytes: &mut [u8], deadline: Instant) -> io::Result<usize> {
        if let Some(protection) = &mut self.protection {
            match protection.decrypted(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if protection.has_more() {
                protection.take_in(&self.stream)?;
                return protection.decrypted(bytes);
            }
        }
        let arrival = (self.stream.as_fd(), PollFlags::IN);
        let ready = wait(&*self.progress, &[arrival], Some(deadline))?;
        if !ready[0] {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match &mut self.protection {
            None => self.stream.read(bytes),
            Some(protection) => {
                protection.take_in(&self.stream)?;
                protection.decrypted(bytes)
            }
        }
    }

    /// As [`ask`](Self::ask), but a refusal is an error.
    ///
    /// # Errors
    /// As for `ask`, and if the server refuses.
    pub(super) fn must(&mut self, verb: &str, argument: &[u8]) -> Result<Reply, ClientError> {
        let reply = self.ask(verb, argument)?;
        self.accepted(reply)
    }

    /// The reply to the last command, unless it is a refusal.
    pub(super) fn accepted(&self, reply: Reply) -> Result<Reply, ClientError> {
        if reply.is_positive() {
            return Ok(reply);
        }
        Err(self.refused(reply))
    }

    /// The error for a negative reply to the last command.
    pub(super) fn refused(&self, reply: Reply) -> ClientError {
        ClientError::Refused {
            server: self.server.clone(),
            what: self.asked.clone(),
            reply,
        }
    }

    /// The error for an answer that makes no sense.
    pub(super) fn protocol_error(&self, what: &str) -> ClientError {
        ClientError::Failed {
            what: format!("{}: {what}, in answer to {}", self.server, self.asked),
            transient: false,
        }
    }

    fn broken(&self, error: io::Error) -> ClientError {
        let (server, asked) = (&self.server, &self.asked);
        let reason = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it closed the connection".into(),
            _ => error.to_string(),
        };
        ClientError::transient(format!(
            "{server} broke the control connection off while {asked} was to be answered: {reason}"
        ))
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn open(
    way: &Way,
    address: SocketAddr,
    patience: Duration,
    progress: &dyn Progress,
) -> io::Result<TcpStream> {
    let stream = way.control(address, patience, progress)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(patience))?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE / 4);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}

/// Adds the address to the error, and for a timeout the time waited.
fn said(error: io::Error, address: SocketAddr, patience: Duration) -> io::Error {
    let kind = error.kind();
    match kind {
        io::ErrorKind::TimedOut => io::Error::new(
            kind,
            format!("{} did not answer within {patience:?}", address.ip()),
        ),
        _ => io::Error::new(kind, format!("{}: {error}", address.ip())),
    }
}

/// Whether a read failed only because nothing has arrived yet.
pub(super) fn is_wait(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
