//! How data connections are established: the server connects (PORT, EPRT), or the client does (PASV,
//! EPSV).

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use fairwind_transfer::{RateLimitedLog, SocketPlan};
use rustix::io::Errno;
use socket2::SockRef;
use tokio::net::TcpSocket;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::config::Config;
use super::third_party::DataTls;
use crate::blocks::Blocks;
use crate::tls::Protected;

static TURNED_AWAY: RateLimitedLog = RateLimitedLog::new();

/// What the client has asked for, until a transfer takes it.
#[derive(Debug)]
pub(super) enum Setup {
    /// To connect to this address.
    Active(SocketAddr),
    /// To listen here.
    Passive(Listening),
    /// The client has connected; a transfer may take the connection until this time.
    Open(Channel, Instant),
    /// It is open from an earlier transfer, in block mode; until this time for another.
    Shared(Channel, Instant),
    /// It failed.
    Failed(io::Error),
}

/// A socket that listens for a data connection.
#[derive(Debug)]
pub(super) struct Listening {
    socket: Arc<TcpListener>,
    /// The same socket, for asynchronous waiting.
    waiting: tokio::net::TcpListener,
    plan: SocketPlan,
    until: Instant,
}

/// An open data connection, and the socket that accepted it.
#[derive(Debug)]
pub(super) struct Channel {
    /// The connection.
    pub stream: TcpStream,
    /// Its addresses here and there. The kernel forgets the latter when the peer resets the connection, though what
    /// came before that can still be read.
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// The listening socket.
    pub listener: Option<Arc<TcpListener>>,
    /// TLS, once its handshake is over.
    pub protection: Option<Box<Protected>>,
    /// What an earlier transfer in block mode has left, with the protection below.
    pub blocks: Option<Box<Blocks>>,
}

impl Setup {
    /// What can be done before a transfer takes the data connection: accepts the client when it connects,
    /// and ends a wait of more than `connect_s`. Returns when something has changed. May be cancelled at
    /// any time; nothing is lost.
    pub(super) async fn advance(setup: &mut Option<Self>, config: &Config, client: IpAddr) {
        let next = match setup {
            Some(Self::Passive(listening)) => match listening.accept(config, client).await {
                Ok(channel) => Self::Open(channel, listening.until),
                Err(error) => Self::Failed(error),
            },
            Some(Self::Open(_, until)) => {
                sleep_until(*until).await;
                Self::Failed(late(config))
            }
            Some(Self::Shared(_, until)) => {
                sleep_until(*until).await;
                let seconds = config.limits.connect_s;
                let text = format!("it was closed after {seconds} s without a transfer");
                Self::Failed(io::Error::new(io::ErrorKind::TimedOut, text))
            }
            Some(Self::Active(_) | Self::Failed(_)) | None => std::future::pending().await,
        };
        *setup = Some(next);
    }
}

impl Channel {
    /// The same connection after the handshake that the session asks for, which an earlier transfer has had already.
    ///
    /// # Errors
    /// If it fails.
    pub(super) async fn protected(self, tls: Option<&DataTls>) -> io::Result<Self> {
        let Some(tls) = tls.filter(|_| self.blocks.is_none()) else {
            return Ok(self);
        };
        let (stream, protection) = tls.accept(self.stream).await?;
        Ok(Self {
            stream,
            protection: Some(Box::new(protection)),
            ..self
        })
    }

    /// Checks that a connection that waits for another transfer has not ended, or that something was sent ahead of its end.
    ///
    /// # Errors
    /// If it has.
    pub(super) fn check(&mut self) -> io::Result<()> {
        let Some(blocks) = &mut self.blocks else {
            return Ok(());
        };
        blocks.look_ahead(&self.stream).map_err(|error| {
            let text = format!("the one that was open has ended: {error}");
            io::Error::new(error.kind(), text)
        })
    }
}

impl Listening {
    /// Listens on this socket, until `connect_s` from now.
    ///
    /// # Errors
    /// If the socket cannot be duplicated, or not be registered with the runtime.
    pub(super) fn new(
        socket: Arc<TcpListener>,
        plan: SocketPlan,
        config: &Config,
    ) -> io::Result<Self> {
        Ok(Self {
            waiting: tokio::net::TcpListener::from_std(socket.try_clone()?)?,
            socket,
            plan,
            until: Instant::now() + config.limits.connect(),
        })
    }

    /// Accepts the data connection of the client, or of a peer that the policy allows. Others are turned
    /// away: guessing the port is not enough to steal a data connection.
    async fn accept(&self, config: &Config, client: IpAddr) -> io::Result<Channel> {
        loop {
            let (stream, peer) = match timeout_at(self.until, self.waiting.accept()).await {
                Err(_) => return Err(late(config)),
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    return Err(io::Error::other("the port went to a client who had fewer"));
                }
                Ok(come) => come?,
            };
            if config.permits_peer(client, peer.ip()) {
                let stream = stream.into_std()?;
                self.plan.settle(SockRef::from(&stream))?;
                self.plan.settle(SockRef::from(&*self.socket))?;
                return Ok(Channel {
                    local: stream.local_addr()?,
                    peer,
                    stream,
                    listener: Some(Arc::clone(&self.socket)),
                    protection: None,
                    blocks: None,
                });
            }
            TURNED_AWAY
                .warn(|| format!("a data connection for {client} came from {peer}: turned away"));
        }
    }
}

fn late(config: &Config) -> io::Error {
    let seconds = config.limits.connect_s;
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!("it did not come about within {seconds} s"),
    )
}

/// Opens the data connection for a client.
///
/// # Errors
/// If nobody connects, the peer is not reached, or it takes longer than `connect_s`.
pub(super) async fn open(
    setup: Setup,
    config: &Config,
    local: IpAddr,
    client: IpAddr,
    plan: SocketPlan,
) -> io::Result<Channel> {
    match setup {
        Setup::Passive(listening) => listening.accept(config, client).await,
        Setup::Open(channel, _) | Setup::Shared(channel, _) => Ok(channel),
        Setup::Failed(error) => Err(error),
        Setup::Active(address) => {
            let connecting = connect(address, local, &plan);
            timeout(config.limits.connect(), connecting)
                .await
                .unwrap_or_else(|_| Err(late(config)))
        }
    }
}

async fn connect(address: SocketAddr, local: IpAddr, plan: &SocketPlan) -> io::Result<Channel> {
    let socket = plan.socket(address)?;
    if local.is_ipv4() == address.is_ipv4() {
        socket.bind(&SocketAddr::new(local, 0).into())?;
    }
    socket.set_nonblocking(true)?;
    let stream = TcpSocket::from_std_stream(socket.into())
        .connect(address)
        .await?
        .into_std()?;
    plan.settle(SockRef::from(&stream))?;
    Ok(Channel {
        local: stream.local_addr()?,
        peer: address,
        stream,
        listener: None,
        protection: None,
        blocks: None,
    })
}
