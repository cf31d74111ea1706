//! The right-sizing connection: opened beside the data connection, between the same two hosts.
//!
//! The host that opened the data connection also opens this one, to the same address and port, and
//! identifies itself with `DRS <token>`. The host that listened accepts it if it comes from the data
//! connection's peer and presents the token. From then on both send nothing but
//! [`Sbuf`](super::message::Sbuf). Beside a protected data connection this one is protected, too.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use fairwind_kernel::TcpInfo;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::message::{LINE_LIMIT, Line, Lines, trimmed};
use super::rate::Rate;
use super::token::Token;
use crate::{Protection, Protector, RateLimitedLog, SocketPlan, Transfer};

static TURNED_AWAY: RateLimitedLog = RateLimitedLog::new();

/// Time allowed for establishing the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Most unidentified connections at once: as many as the backlog of the listening socket.
const MAX_UNIDENTIFIED: usize = 4;

/// How often to check whether the data connection has been established at the peer.
const PEER_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Unsent bytes from which on nothing more is read: the peer does not read what it is sent.
const BACKLOG: usize = 64 << 10;

/// Bytes read at once.
const READ: usize = 4_096;

/// Most further reads of what a protection has taken from the socket already: messages are short, and so are the
/// records in which they come.
const RECORDS: usize = 64;

/// Malformed lines after which the peer is considered to speak another protocol.
const FAULTS: u32 = 32;

/// Wakes a waiting thread.
#[derive(Debug)]
pub(super) struct Wake(OwnedFd);

impl Wake {
    /// Not signalled yet.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(
            0,
            EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC,
        )?))
    }

    /// Ends the wait, and every later one.
    pub(super) fn signal(&self) {
        // Cannot fail: the counter is raised once and so never full.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// Why the channel was not established, or has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChannelError {
    /// The transfer is over.
    #[error("the transfer is over")]
    Over,
    /// It was not established in time.
    #[error("none came within {} s", CONNECT_TIMEOUT.as_secs())]
    Late,
    /// The peer closed it.
    #[error("the other end closed it")]
    Closed,
    /// The peer sent something other than this protocol.
    #[error("{FAULTS} lines came that are not messages")]
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

/// Waits until `deadline` for one of `sources`, or for the end of the transfer.
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
    let timeout = Timespec::try_from(time).ok();
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    if !fds[0].revents().is_empty() {
        return Err(ChannelError::Over);
    }
    Ok(())
}

/// The connection, once it is established.
#[derive(Debug)]
pub(super) struct Channel {
    stream: TcpStream,
    protection: Option<Box<dyn Protection>>,
    lines: Lines,
    /// Lines that arrived with the greeting.
    early: Vec<Line>,
    outgoing: Vec<u8>,
    faults: u32,
    rate: Rate,
}

impl Channel {
    /// Opens or accepts the channel of a transfer whose data connection is `data`.
    ///
    /// # Errors
    /// [`ChannelError`] if it is not established in time, the connection fails, or the transfer ends.
    pub(super) fn open(
        transfer: &mut Transfer,
        data: BorrowedFd<'_>,
        token: Token,
        wake: &Wake,
    ) -> Result<Self, ChannelError> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        match transfer.listener.take() {
            Some(listener) => accept(&listener, transfer, token, wake, deadline),
            None => connect(transfer, data, token, wake, deadline),
        }
    }

    fn new(stream: TcpStream, protector: Option<&Protector>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let mut protection = protector.map(Protector::protect).transpose()?;
        // Between two servers, who accepts the connection may have to begin the handshake.
        if let Some(protection) = &mut protection {
            match protection.flush(&stream) {
                Err(error) if !is_later(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(Self {
            stream,
            protection,
            lines: Lines::default(),
            early: Vec::new(),
            outgoing: Vec::new(),
            faults: 0,
            rate: Rate::new(Instant::now()),
        })
    }

    /// Waits for lines until `deadline`, sending what is due meanwhile.
    ///
    /// # Errors
    /// [`ChannelError`] if the connection is closed or fails, or the transfer ends.
    pub(super) fn lines(
        &mut self,
        wake: &Wake,
        deadline: Instant,
    ) -> Result<Vec<Line>, ChannelError> {
        if !self.early.is_empty() {
            return Ok(std::mem::take(&mut self.early));
        }
        // Read nothing that could not be answered, and no more than the rate limit allows.
        let now = Instant::now();
        let pause = self.rate.pause(now);
        let mut flags = PollFlags::empty();
        flags.set(
            PollFlags::IN,
            self.outgoing.len() < BACKLOG && pause.is_none(),
        );
        let sending = self.protection.as_ref();
        let sending = sending.is_some_and(|protection| protection.is_sending());
        flags.set(PollFlags::OUT, sending || !self.outgoing.is_empty());
        let deadline = pause.map_or(deadline, |pause| deadline.min(now + pause));
        // A peer that is not read from is not polled either: a hangup would be reported at once, again
        // and again.
        let source = [(self.stream.as_fd(), flags)];
        let sources = if flags.is_empty() { &[] } else { &source[..] };
        wait(wake, sources, deadline)?;
        self.flush()?;
        if !flags.contains(PollFlags::IN) {
            return Ok(Vec::new());
        }
        self.read()
    }

    fn read(&mut self) -> Result<Vec<Line>, ChannelError> {
        let mut bytes = [0; READ];
        let mut lines = match self.receive(&mut bytes) {
            Ok(0) => return Err(ChannelError::Closed),
            Ok(count) => self.lines.take(&bytes[..count]),
            Err(error) if is_later(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        // What its protection keeps back would not wake a wait on the socket.
        let mut more = if self.protection.is_some() {
            RECORDS
        } else {
            0
        };
        while more > 0
            && let Ok(count @ 1..) = self.receive(&mut bytes)
        {
            lines.extend(self.lines.take(&bytes[..count]));
            more -= 1;
        }
        self.rate.count(lines.len(), Instant::now());
        Ok(lines)
    }

    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.protection {
            Some(protection) => protection.read(&self.stream, bytes),
            None => self.stream.read(bytes),
        }
    }

    /// Whether everything sent has at least left this process.
    pub(super) fn is_idle(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Sends bytes, now or when there is room.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), ChannelError> {
        self.outgoing.extend(bytes);
        self.flush()
    }

    fn flush(&mut self) -> Result<(), ChannelError> {
        if let Some(protection) = &mut self.protection {
            match protection.flush(&self.stream) {
                Err(error) if !is_later(&error) => return Err(error.into()),
                _ => {}
            }
        }
        while !self.outgoing.is_empty() {
            let sent = match &mut self.protection {
                Some(protection) => protection.write(&self.stream, &self.outgoing),
                None => self.stream.write(&self.outgoing),
            };
            match sent {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(error) if is_later(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Counts a line that is not a message.
    ///
    /// # Errors
    /// [`ChannelError::Garbage`] if there have been too many.
    pub(super) fn fault(&mut self) -> Result<(), ChannelError> {
        self.faults += 1;
        if self.faults >= FAULTS {
            return Err(ChannelError::Garbage);
        }
        Ok(())
    }
}

/// Connects as the data connection did, but not before that one is certain to be established at the peer:
/// until then this one could be mistaken for it.
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
        wait(
            wake,
            &[],
            deadline.min(Instant::now() + PEER_CHECK_INTERVAL),
        )?;
    }
    let socket = SocketPlan::default().socket(transfer.peer)?;
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
    let mut channel = Channel::new(socket.into(), transfer.protector.as_ref())?;
    channel.send(format!("DRS {token}\r\n").as_bytes())?;
    Ok(channel)
}

/// Whether the peer's kernel has acknowledged or sent data.
fn has_moved(data: BorrowedFd<'_>) -> bool {
    // The SYN counts as one byte acknowledged.
    TcpInfo::of(data)
        .ok()
        .is_none_or(|info| info.tcpi_bytes_acked > 1 || info.tcpi_bytes_received > 0)
}

/// Accepts connections until one presents the token.
fn accept(
    listener: &TcpListener,
    transfer: &Transfer,
    token: Token,
    wake: &Wake,
    deadline: Instant,
) -> Result<Channel, ChannelError> {
    let peer = transfer.peer;
    let mut waiting: Vec<Channel> = Vec::new();
    loop {
        if Instant::now() >= deadline {
            return Err(ChannelError::Late);
        }
        let mut sources: Vec<_> = waiting
            .iter()
            .map(|channel| (channel.stream.as_fd(), PollFlags::IN))
            .collect();
        if waiting.len() < MAX_UNIDENTIFIED {
            sources.push((listener.as_fd(), PollFlags::IN));
        }
        wait(wake, &sources, deadline)?;
        if waiting.len() < MAX_UNIDENTIFIED {
            match listener.accept() {
                Ok((stream, from)) if same_host(from, peer) => {
                    waiting.push(Channel::new(stream, transfer.protector.as_ref())?);
                }
                Ok((_, from)) => TURNED_AWAY.warn(|| format!("right-sizing: {from} turned away")),
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut remaining = Vec::new();
        for mut channel in waiting {
            match greet(&mut channel, token) {
                Greeting::Known => return Ok(channel),
                Greeting::Waiting => remaining.push(channel),
                Greeting::Wrong => {
                    TURNED_AWAY.warn(|| format!("right-sizing: a stranger at {peer} turned away"));
                }
            }
        }
        waiting = remaining;
    }
}

enum Greeting {
    Known,
    Waiting,
    Wrong,
}

fn greet(channel: &mut Channel, token: Token) -> Greeting {
    let Ok(mut lines) = channel.read() else {
        return Greeting::Wrong;
    };
    if lines.is_empty() {
        return Greeting::Waiting;
    }
    let rest = lines.split_off(1);
    match &lines[0] {
        Line::Whole(line) if greeting(trimmed(line)) == Some(token) => {
            channel.early = rest;
            Greeting::Known
        }
        _ => Greeting::Wrong,
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
