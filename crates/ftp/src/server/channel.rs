//! How data connections come about: the client is connected to (PORT, EPRT), or comes (PASV, EPSV).

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use socket2::SockRef;
use tokio::net::TcpSocket;
use tokio::time::timeout;

use super::config::Config;
use crate::data::SocketPlan;

/// What the client asked for, until a transfer takes it.
#[derive(Debug)]
pub enum Setup {
    /// To connect here.
    Active(SocketAddr),
    /// To wait here.
    Passive(Listening),
}

/// A socket that waits for a data connection.
#[derive(Debug)]
pub struct Listening {
    listener: Arc<TcpListener>,
    plan: SocketPlan,
}

/// An open data connection, and the socket it came in by.
#[derive(Debug)]
pub struct Channel {
    /// The connection.
    pub stream: TcpStream,
    /// The listening socket.
    pub listener: Option<Arc<TcpListener>>,
}

impl Listening {
    /// Waits at `address`, at a port of the configured range.
    ///
    /// # Errors
    /// No port is free, or the kernel refuses the plan.
    pub fn open(config: &Config, address: IpAddr, plan: SocketPlan) -> io::Result<Self> {
        let socket = match &config.passive_ports {
            None => plan.listen(SocketAddr::new(address, 0))?,
            Some(ports) => {
                // Somewhere in the range, so that ports are not guessed from the last one.
                let width = u32::from(ports.end() - ports.start()) + 1;
                let begin = random(width)?;
                (0..width)
                    .map(|step| *ports.start() + ((begin + step) % width) as u16)
                    .find_map(|port| match plan.listen(SocketAddr::new(address, port)) {
                        Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
                        result => Some(result),
                    })
                    .ok_or_else(|| io::Error::from(io::ErrorKind::AddrInUse))??
            }
        };
        Ok(Self {
            listener: Arc::new(socket.into()),
            plan,
        })
    }

    /// Where it waits.
    ///
    /// # Errors
    /// The kernel's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The data connection of the client, or of a peer that the policy names. Others who come are
    /// turned away: a data connection cannot be stolen by who guesses its port.
    async fn accept(self, config: &Config, client: IpAddr) -> io::Result<Channel> {
        let waiting = tokio::net::TcpListener::from_std(self.listener.try_clone()?)?;
        loop {
            let (stream, peer) = waiting.accept().await?;
            if config.permits_peer(client, peer.ip()) {
                let stream = stream.into_std()?;
                self.plan.settle(SockRef::from(&stream))?;
                return Ok(Channel {
                    stream,
                    listener: Some(self.listener),
                });
            }
            tracing::warn!("a data connection for {client} came from {peer}: turned away");
        }
    }
}

/// Opens the data connection for a client.
///
/// # Errors
/// Nobody came, nobody was there, or it took longer than `connect_s`.
pub async fn open(
    setup: Setup,
    config: &Config,
    local: IpAddr,
    client: IpAddr,
    plan: SocketPlan,
) -> io::Result<Channel> {
    let opening = async {
        match setup {
            Setup::Passive(listening) => listening.accept(config, client).await,
            Setup::Active(address) => connect(address, local, &plan).await,
        }
    };
    timeout(config.limits.connect(), opening).await?
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
        stream,
        listener: None,
    })
}

/// A number below `width` that nobody guesses.
fn random(width: u32) -> io::Result<u32> {
    let mut bytes = [0; 4];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u32::from_ne_bytes(bytes) % width)
}
