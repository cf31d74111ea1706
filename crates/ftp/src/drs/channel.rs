//! The right-sizing connection: opened beside the data connection, between the same two ends.
//!
//! Who opened the data connection opens this one, to the same address and port, and says who it is:
//! `DRS <token>`. Who listened accepts it, if it comes from the data connection's peer and knows the
//! token. From then on both speak of nothing but [`Sbuf`](super::message::Sbuf).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::message::{LINE_LIMIT, Line, Lines, trimmed};
use super::rate::Rate;
use super::token::Token;
use crate::data::{Transfer, tcp_info};
use crate::sparing::Sparing;

static STRANGER: Sparing = Sparing::new();

/// Time for the connection to come about.
const PATIENCE: Duration = Duration::from_secs(15);

/// Strangers at the door at once: as many as the listening socket keeps.
const STRANGERS: usize = 4;

/// How often it is looked whether the data connection has come about at the other end.
const GLANCE: Duration = Duration::from_millis(5);

/// Bytes that the other end may leave unread.
const BACKLOG: usize = 64 << 10;

/// Lines that are no messages before the other end is taken for something else.
const FAULTS: u32 = 32;

/// Wakes a thread that waits.
#[derive(Debug)]
pub struct Wake(OwnedFd);

impl Wake {
    /// # Errors
    /// The kernel's.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(
            0,
            EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC,
        )?))
    }

    /// From now on nobody waits.
    pub fn ring(&self) {
        // The counter is not full: it is rung once.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// Why there is no channel, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The transfer is over.
    #[error("the transfer is over")]
    Over,
    /// It did not come about in time.
    #[error("none came within {} s", PATIENCE.as_secs())]
    Late,
    /// The other end closed it.
    #[error("the other end closed it")]
    Closed,
    /// What came was not of this protocol.
    #[error("{FAULTS} lines came that are no messages")]
    Garbage,
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for ChannelError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Waits until `deadline` for one of `sources`, and for the end of the transfer.
fn wait(
    wake: &Wake,
    sources: &[(BorrowedFd<'_>, PollFlags)],
    deadline: Instant,
) -> Result<(), ChannelError> {
    let mut fds = vec![PollFd::new(&wake.0, PollFlags::IN)];
    fds.extend(
        sources
            .iter()
            .map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)),
    );
    let time = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec {
        tv_sec: time.as_secs() as _,
        tv_nsec: time.subsec_nanos().into(),
    };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    match fds[0].revents().is_empty() {
        true => Ok(()),
        false => Err(ChannelError::Over),
    }
}

/// The connection, once both ends know each other.
#[derive(Debug)]
pub struct Channel {
    stream: TcpStream,
    lines: Lines,
    /// Lines that came with the greeting.
    early: Vec<Line>,
    outgoing: Vec<u8>,
    faults: u32,
    rate: Rate,
}

impl Channel {
    /// Opens or accepts the channel of a transfer whose data connection is `data`.
    ///
    /// # Errors
    /// [`ChannelError`]
    pub fn open(
        transfer: &mut Transfer,
        data: BorrowedFd<'_>,
        token: Token,
        wake: &Wake,
    ) -> Result<Self, ChannelError> {
        let deadline = Instant::now() + PATIENCE;
        match transfer.listener.take() {
            Some(listener) => accept(&listener, transfer.peer, token, wake, deadline),
            None => connect(transfer, data, token, wake, deadline),
        }
    }

    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            lines: Lines::default(),
            early: Vec::new(),
            outgoing: Vec::new(),
            faults: 0,
            rate: Rate::new(Instant::now()),
        })
    }

    /// Waits until `deadline` at most for lines.
    ///
    /// # Errors
    /// [`ChannelError`]
    pub fn lines(&mut self, wake: &Wake, deadline: Instant) -> Result<Vec<Line>, ChannelError> {
        if !self.early.is_empty() {
            return Ok(std::mem::take(&mut self.early));
        }
        // Nothing is read that could not be answered, and no more than there is time for.
        let now = Instant::now();
        let pause = self.rate.pause(now);
        let flags = match self.outgoing.len() < BACKLOG && pause.is_none() {
            true => PollFlags::IN,
            false => PollFlags::empty(),
        };
        let deadline = pause.map_or(deadline, |pause| deadline.min(now + pause));
        let flags = match self.outgoing.is_empty() {
            true => flags,
            false => flags | PollFlags::OUT,
        };
        // Who is not listened to is not waited for either: that he has gone would be told at once, again and
        // again.
        let source = [(self.stream.as_fd(), flags)];
        let sources = if flags.is_empty() { &[] } else { &source[..] };
        wait(wake, sources, deadline)?;
        self.flush()?;
        match flags.contains(PollFlags::IN) {
            true => self.read(),
            false => Ok(Vec::new()),
        }
    }

    fn read(&mut self) -> Result<Vec<Line>, ChannelError> {
        let mut bytes = [0; 4_096];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(ChannelError::Closed),
            Ok(count) => {
                let lines = self.lines.take(&bytes[..count]);
                self.rate.count(lines.len(), Instant::now());
                Ok(lines)
            }
            Err(error) if is_later(&error) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether all that was sent has at least left this process.
    pub fn is_idle(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Sends bytes, now or when there is room.
    ///
    /// # Errors
    /// The connection's.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), ChannelError> {
        self.outgoing.extend(bytes);
        self.flush()
    }

    fn flush(&mut self) -> Result<(), ChannelError> {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(error) if is_later(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// A line came that is no message.
    ///
    /// # Errors
    /// It was one too many.
    pub fn fault(&mut self) -> Result<(), ChannelError> {
        self.faults += 1;
        match self.faults < FAULTS {
            true => Ok(()),
            false => Err(ChannelError::Garbage),
        }
    }
}

/// Connects as the data connection did, when that is certain to have come about at the other end:
/// until then this one could be taken for it.
fn connect(
    transfer: &Transfer,
    data: BorrowedFd<'_>,
    token: Token,
    wake: &Wake,
    deadline: Instant,
) -> Result<Channel, ChannelError> {
    while !has_moved(data) {
        if Instant::now() >= deadline {
            return Err(ChannelError::Late);
        }
        wait(wake, &[], deadline.min(Instant::now() + GLANCE))?;
    }
    let socket = Socket::new(
        Domain::for_address(transfer.peer),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.bind(&SocketAddr::new(transfer.local.ip(), 0).into())?;
    socket.set_nonblocking(true)?;
    match socket.connect(&transfer.peer.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(error.into()),
    }
    wait(wake, &[(socket.as_fd(), PollFlags::OUT)], deadline)?;
    if let Some(error) = socket.take_error()? {
        return Err(error.into());
    }
    if Instant::now() >= deadline {
        return Err(ChannelError::Late);
    }
    let mut channel = Channel::new(socket.into())?;
    channel.send(format!("DRS {token}\r\n").as_bytes())?;
    Ok(channel)
}

/// Whether the other end's kernel has acknowledged or sent data.
fn has_moved(data: BorrowedFd<'_>) -> bool {
    // The SYN counts as one byte acknowledged.
    tcp_info(data).is_none_or(|info| info.tcpi_bytes_acked > 1 || info.tcpi_bytes_received > 0)
}

/// Accepts connections until one says the token.
fn accept(
    listener: &TcpListener,
    peer: SocketAddr,
    token: Token,
    wake: &Wake,
    deadline: Instant,
) -> Result<Channel, ChannelError> {
    let mut guests: Vec<Channel> = Vec::new();
    loop {
        if Instant::now() >= deadline {
            return Err(ChannelError::Late);
        }
        let mut sources: Vec<_> = guests
            .iter()
            .map(|guest| (guest.stream.as_fd(), PollFlags::IN))
            .collect();
        if guests.len() < STRANGERS {
            sources.push((listener.as_fd(), PollFlags::IN));
        }
        wait(wake, &sources, deadline)?;
        if guests.len() < STRANGERS {
            match listener.accept() {
                Ok((stream, from)) if same_host(from, peer) => guests.push(Channel::new(stream)?),
                Ok((_, from)) => STRANGER.warn(|| format!("right-sizing: {from} turned away")),
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut remaining = Vec::new();
        for mut guest in guests {
            match greet(&mut guest, token) {
                Greeting::Known => return Ok(guest),
                Greeting::Waiting => remaining.push(guest),
                Greeting::Stranger => {
                    STRANGER.warn(|| format!("right-sizing: a stranger at {peer} turned away"));
                }
            }
        }
        guests = remaining;
    }
}

enum Greeting {
    Known,
    Waiting,
    Stranger,
}

fn greet(guest: &mut Channel, token: Token) -> Greeting {
    let Ok(mut lines) = guest.read() else {
        return Greeting::Stranger;
    };
    if lines.is_empty() {
        return Greeting::Waiting;
    }
    let rest = lines.split_off(1);
    match &lines[0] {
        Line::Whole(line) if greeting(trimmed(line)) == Some(token) => {
            guest.early = rest;
            Greeting::Known
        }
        _ => Greeting::Stranger,
    }
}

fn greeting(line: &[u8]) -> Option<Token> {
    debug_assert!(line.len() <= LINE_LIMIT);
    let text = std::str::from_utf8(line).ok()?;
    text.strip_prefix("DRS ")?.parse().ok()
}

fn same_host(one: SocketAddr, other: SocketAddr) -> bool {
    one.ip().to_canonical() == other.ip().to_canonical()
}

fn is_later(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted)
}
