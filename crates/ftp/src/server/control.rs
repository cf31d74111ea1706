//! The server's side of a control connection. TLS, once there is any, will be another kind of stream
//! here.

use std::io;
use std::time::Duration;

use fairwind_kernel::TcpInfo;
use fairwind_transfer::limit_silence;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::extension::PeerFacts;
use crate::protocol::Reply;
use crate::protocol::line::{Line, LineDecoder};

/// Bytes read at once; commands are short.
const READ: usize = 1 << 10;

/// A client that accepts no reply for this time is considered gone.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Lines in, replies out.
#[derive(Debug)]
pub(super) struct Control {
    stream: TcpStream,
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
            stream,
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

    /// Whether the client has closed its side, though lines from it may still wait to be read.
    pub(super) fn is_left(&self) -> bool {
        let mut fds = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        poll(&mut fds, Some(&Timespec::default())).is_ok() && !fds[0].revents().is_empty()
    }

    /// Sends a reply.
    pub(super) async fn send(&mut self, reply: &Reply) -> io::Result<()> {
        timeout(REPLY_TIMEOUT, self.stream.write_all(&reply.encode())).await?
    }

    /// The shortest round-trip time to the client: most others include a delayed acknowledgement.
    pub(super) fn shortest_round_trip(&self) -> Duration {
        let counters = TcpInfo::of(&self.stream).ok();
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
