//! The server's side of a control connection, plain or under TLS.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use fairwind_kernel::TcpInfo;
use fairwind_transfer::limit_silence;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use super::extension::PeerFacts;
use crate::protocol::Reply;
use crate::protocol::line::{Line, LineDecoder};
use crate::tls::ServerSessionTls;

/// Bytes read at once; commands are short.
const READ: usize = 1 << 10;

/// A client that accepts no reply for this time is considered gone.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for telling a client that its TLS connection ends.
const END_TIMEOUT: Duration = Duration::from_millis(100);

/// What lines come from and replies go to.
#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// A handshake has failed.
    Closed,
}

impl Stream {
    /// The connection below; none if it is closed.
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Plain(stream) => Some(stream),
            Self::Tls(stream) => Some(stream.get_ref().0),
            Self::Closed => None,
        }
    }

    /// Reads what has come; 0 at the end. May be cancelled at any time.
    async fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => read_plain(stream, bytes).await,
            Self::Tls(stream) => match read_tls(stream, bytes).await {
                // Many clients leave without TLS's closing message. Commands are whole lines: none is lost.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
            Self::Closed => Ok(0),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes).await,
            Self::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
            Self::Closed => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// Reads what has come. A read ends before urgent data, with more behind it: `TcpStream`'s own would take the few bytes
/// for all that there is, and wait for others.
async fn read_plain(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    let read = || Ok(rustix::io::read(stream, &mut *bytes)?);
    stream.async_io(Interest::READABLE, read).await
}

/// Reads what has come. What TLS itself answers, such as that nothing is negotiated anew, goes out at once: `TlsStream`'s
/// own read leaves it to the next reply, for which the client may not ask before it has that answer.
async fn read_tls(stream: &mut TlsStream<TcpStream>, bytes: &mut [u8]) -> io::Result<usize> {
    let read = poll_fn(|context| {
        let mut buffer = ReadBuf::new(bytes);
        let read = Pin::new(&mut *stream).poll_read(context, &mut buffer);
        if stream.get_ref().1.wants_write() {
            // An error comes again with the next reply.
            let _ = Pin::new(&mut *stream).poll_flush(context);
        }
        read.map_ok(|()| buffer.filled().len())
    });
    read.await
}

/// Lines in, replies out.
#[derive(Debug)]
pub(super) struct Control {
    stream: Stream,
    decoder: LineDecoder,
    /// The addresses of both hosts.
    pub(super) facts: PeerFacts,
}

impl Control {
    /// Takes over an accepted connection; lines have at most `limit` bytes, and a client that
    /// acknowledges nothing for `silence` is considered gone.
    ///
    /// # Errors
    /// If the client has gone already.
    pub(super) fn new(stream: TcpStream, limit: usize, silence: Duration) -> io::Result<Self> {
        let socket = SockRef::from(&stream);
        // The Synch before ABOR arrives as urgent data; it is read in line, as part of the text.
        socket.set_out_of_band_inline(true)?;
        limit_silence(socket, silence)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            facts: PeerFacts {
                local: canonical(stream.local_addr()?),
                peer: canonical(stream.peer_addr()?),
            },
            decoder: LineDecoder::new(limit),
            stream: Stream::Plain(stream),
        })
    }

    /// The next line; none once the client has closed. May be cancelled at any time; nothing is lost.
    pub(super) async fn line(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.decoder.next_line() {
                return Ok(Some(line));
            }
            let mut bytes = [0; READ];
            match self.stream.read(&mut bytes).await? {
                0 => return Ok(None),
                count => self.decoder.take(&bytes[..count]),
            }
        }
    }

    /// Whether nothing of the client waits here to be read.
    pub(super) fn is_empty(&self) -> bool {
        self.decoder.is_empty()
    }

    /// The handshake of TLS: from now on everything passes through it.
    ///
    /// # Errors
    /// If it fails; then the connection is closed.
    pub(super) async fn protect(&mut self, tls: &mut ServerSessionTls) -> io::Result<()> {
        let Stream::Plain(stream) = std::mem::replace(&mut self.stream, Stream::Closed) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let stream = tls.accept_control(stream).await?;
        self.stream = Stream::Tls(Box::new(stream));
        Ok(())
    }

    /// Ends the session's stream in order; whether the client learns of it does not matter.
    pub(super) async fn end(&mut self) {
        if let Stream::Tls(stream) = &mut self.stream {
            let _ = timeout(END_TIMEOUT, stream.shutdown()).await;
        }
    }

    /// Whether the client has closed its side, though lines from it may still wait to be read.
    pub(super) fn is_left(&self) -> bool {
        let Some(stream) = self.stream.tcp() else {
            return true;
        };
        let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
        poll(&mut fds, Some(&Timespec::default())).is_ok() && !fds[0].revents().is_empty()
    }

    /// Sends a reply.
    pub(super) async fn send(&mut self, reply: &Reply) -> io::Result<()> {
        timeout(REPLY_TIMEOUT, self.stream.write(&reply.encode())).await?
    }

    /// The shortest round-trip time to the client: most others include a delayed acknowledgement.
    pub(super) fn shortest_round_trip(&self) -> Duration {
        let counters = self
            .stream
            .tcp()
            .and_then(|stream| TcpInfo::of(stream).ok());
        counters
            .and_then(|counters| counters.min_rtt())
            .unwrap_or_default()
    }
}

/// Makes the IPv4-mapped address of a client on a dual-stack socket an IPv4 address.
fn canonical(mut address: std::net::SocketAddr) -> std::net::SocketAddr {
    address.set_ip(address.ip().to_canonical());
    address
}
