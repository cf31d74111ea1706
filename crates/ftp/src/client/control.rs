//! The client's end of the control connection: a command goes, its reply comes, in time and of sane
//! size.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};

use super::{ClientError, Place, Progress};
use crate::protocol::Reply;
use crate::protocol::line::{Line, LineDecoder, escaped};
use crate::protocol::path::one_line;
use crate::protocol::reply::{LONGEST, ReplyReader};

/// Longest line of a reply, bytes.
const LONGEST_LINE: usize = 16 << 10;
/// How often a wait looks whether the user wants an end.
const TICK: Duration = Duration::from_millis(100);
/// Silence after which the kernel asks whether the other end is there, so that translators of
/// addresses on the way do not forget a control connection during a long transfer.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// A control connection.
pub struct Control {
    stream: TcpStream,
    server: String,
    local: SocketAddr,
    peer: SocketAddr,
    patience: Duration,
    progress: Arc<dyn Progress>,
    decoder: LineDecoder,
    /// Lines that have come and belong to replies nobody has asked for yet.
    lines: VecDeque<Line>,
    asked: String,
    /// How the server wants the byte 255; none before anybody has found out.
    pub(super) telnet: Option<Telnet>,
}

/// How a server takes the byte 255 in commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telnet {
    /// Sent twice, it is one.
    Doubled,
    /// It is taken as it comes.
    Plain,
}

impl Control {
    /// Connects to one of the server's addresses, in the order that the resolver gives them.
    ///
    /// # Errors
    /// The last address's, or the resolver's.
    pub fn connect(
        place: &Place,
        patience: Duration,
        progress: Arc<dyn Progress>,
    ) -> Result<Self, ClientError> {
        let server = place.server();
        let failed = |error| ClientError::Connect {
            server: server.clone(),
            error,
        };
        let addresses = (place.host.as_str(), place.port)
            .to_socket_addrs()
            .map_err(failed)?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            if progress.stopped() {
                return Err(ClientError::Stopped);
            }
            match open(address, patience) {
                Ok(stream) => {
                    return Ok(Self {
                        local: stream.local_addr().map_err(failed)?,
                        peer: stream.peer_addr().map_err(failed)?,
                        stream,
                        server,
                        patience,
                        progress,
                        decoder: LineDecoder::new(LONGEST_LINE),
                        lines: VecDeque::new(),
                        asked: "the connection".into(),
                        telnet: None,
                    });
                }
                Err(error) => last = said(error, address, patience),
            }
        }
        Err(failed(last))
    }

    /// Host and port, as messages name the server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// This end.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The server's end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether a line of a reply is here already, without looking at the socket.
    pub fn has_line(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Sends `verb argument`; an empty argument is left out.
    ///
    /// # Errors
    /// [`ClientError::Name`] if the argument holds a line end or a zero; the connection broke.
    pub fn send(&mut self, verb: &str, argument: &[u8]) -> Result<(), ClientError> {
        if argument
            .iter()
            .chain(verb.as_bytes())
            .any(|byte| matches!(byte, 0 | b'\r' | b'\n'))
        {
            return Err(ClientError::unspeakable(argument));
        }
        let mut line = verb.as_bytes().to_vec();
        if !argument.is_empty() {
            line.push(b' ');
            line.extend_from_slice(argument);
        }
        self.asked = match verb {
            "PASS" => verb.to_owned(),
            _ => one_line(&line).into_owned(),
        };
        let mut line = match self.telnet {
            Some(Telnet::Plain) => line,
            // The standard holds as long as nothing else is known.
            Some(Telnet::Doubled) | None => escaped(&line).into_owned(),
        };
        line.extend_from_slice(b"\r\n");
        self.stream
            .write_all(&line)
            .map_err(|error| self.broken(error))
    }

    /// Sends a command and waits for the reply that ends it; preliminary ones are passed over.
    ///
    /// # Errors
    /// Those of the connection; a refusal is a reply.
    pub fn ask(&mut self, verb: &str, argument: &[u8]) -> Result<Reply, ClientError> {
        self.send(verb, argument)?;
        self.last_reply(self.patience)
    }

    /// Sends commands that do not depend on each other, and waits for their replies: one round trip for
    /// all. None may be one that moves data.
    ///
    /// # Errors
    /// Those of the connection; a refusal is a reply.
    pub fn ask_all<const N: usize>(
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

    /// The next reply that is not preliminary.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn last_reply(&mut self, patience: Duration) -> Result<Reply, ClientError> {
        loop {
            let reply = self.reply(patience)?;
            if !reply.is_preliminary() {
                return Ok(reply);
            }
        }
    }

    /// The next reply. Its first byte, and then the whole of it, each has `patience`.
    ///
    /// # Errors
    /// Those of the connection, silence, and what is no reply. After any of them the connection is of
    /// no more use.
    pub fn reply(&mut self, patience: Duration) -> Result<Reply, ClientError> {
        let mut reader = ReplyReader::default();
        let mut deadline = Instant::now() + patience;
        let mut begun = false;
        let mut taken = 0;
        let mut bytes = [0; 4096];
        loop {
            while let Some(line) = self.lines.pop_front() {
                let Line::Whole(line) = line else {
                    return Err(self.nonsense("a line of a reply is too long"));
                };
                // Replies are shown: nothing in them may steer a terminal.
                match reader.take(&one_line(&line)) {
                    Ok(Some(reply)) if reply.code == 421 => return Err(self.refused(reply)),
                    Ok(Some(reply)) => return Ok(reply),
                    Ok(None) => {}
                    Err(error) => return Err(self.nonsense(&error.to_string())),
                }
            }
            // Lines that are too long are thrown away by the decoder and counted here.
            if taken > LONGEST {
                return Err(self.nonsense("a reply without end"));
            }
            if self.progress.stopped() {
                return Err(ClientError::Stopped);
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    if !std::mem::replace(&mut begun, true) {
                        deadline = Instant::now() + patience;
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
                return Err(ClientError::Silent {
                    server: self.server.clone(),
                    what: self.asked.clone(),
                    patience,
                });
            }
        }
    }

    /// That the server said no to the last command.
    pub fn refused(&self, reply: Reply) -> ClientError {
        ClientError::Refused {
            server: self.server.clone(),
            what: self.asked.clone(),
            reply,
        }
    }

    /// That the server's answer makes no sense.
    pub fn nonsense(&self, what: &str) -> ClientError {
        ClientError::Protocol {
            server: self.server.clone(),
            what: format!("{what}, in answer to {}", self.asked),
        }
    }

    fn broken(&self, error: io::Error) -> ClientError {
        ClientError::Broken {
            server: self.server.clone(),
            what: self.asked.clone(),
            reason: match error.kind() {
                io::ErrorKind::UnexpectedEof => "it closed the connection".into(),
                _ => error.to_string(),
            },
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn open(address: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TICK))?;
    stream.set_write_timeout(Some(patience))?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE / 4);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}

/// The error with the address it is about, and the time waited if that is what it is about.
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

/// Nothing has come yet.
pub fn is_wait(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
