//! The server: sessions on the control connection, files below a root that nothing leaves, transfers
//! in threads of their own.

mod abilities;
mod agreement;
mod answers;
mod channel;
mod config;
mod control;
mod copying;
mod digest;
mod digests;
mod extension;
mod files;
mod listing;
mod login;
mod names;
mod origin;
mod partial;
mod passwords;
mod places;
mod ports;
mod session;
mod transfer;
mod turns;
mod upload;
mod uploads;
mod users;
mod work;
mod xferlog;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::watch;

pub use config::{Config, Limits, SyncPolicy, UserConfig};
pub use extension::{Extension, PeerFacts, SessionExtension};
pub use origin::Origin;
pub use passwords::hash_password;

use control::Control;
use digest::Checksums;
use passwords::Checks;
use places::Places;
use ports::Ports;
use session::Session;
use uploads::Uploads;
use users::Users;
use xferlog::Xferlog;

use crate::advised::AdvisedServer;
use crate::data::Buffer;
use crate::drs::{Budget, Caps, RightSizingServer};
use crate::protocol::Reply;

/// What all sessions share.
pub(crate) struct Shared {
    config: Config,
    users: Users,
    extensions: Vec<Arc<dyn Extension>>,
    xferlog: Option<Xferlog>,
    ledger: Ledger,
}

/// What clients use up, and what is remembered of them.
#[derive(Default)]
struct Ledger {
    sessions: Places,
    ports: Ports,
    checks: Checks,
    checksums: Checksums,
    uploads: Uploads,
}

/// Asks a running server to stop.
#[derive(Debug, Clone)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::channel(false).0)
    }
}

impl Stop {
    /// The server says goodbye to its clients and [`Server::run`] returns.
    pub fn ask(&self) {
        self.0.send_replace(true);
    }
}

/// A server that is bound and does not run yet.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// Time that sessions have to end when the server stops.
const FAREWELL: Duration = Duration::from_millis(500);

/// Pause after the system had no descriptor for another connection.
const RESPITE: Duration = Duration::from_millis(100);

/// The extensions that a configuration asks for.
fn extensions(config: &Config, budget: &Budget) -> io::Result<Vec<Arc<dyn Extension>>> {
    let mut extensions: Vec<Arc<dyn Extension>> = Vec::new();
    if let Some(advised) = AdvisedServer::of(config)? {
        extensions.push(Arc::new(advised));
    }
    // Buffers that the operator fixed are not sized by anybody else.
    if config.drs && config.buffer == Buffer::Auto {
        extensions.push(Arc::new(RightSizingServer {
            budget: budget.clone(),
            caps: Caps {
                all: config.limits.drs_bytes,
                own: config.limits.drs_bytes_per_address,
            },
            ..RightSizingServer::default()
        }));
    }
    Ok(extensions)
}

impl Server {
    /// Opens the root, the users' directories, the log and the listening socket.
    ///
    /// # Errors
    /// What of it is not possible.
    pub fn bind(config: Config) -> io::Result<Self> {
        let extensions = extensions(&config, &Budget::default())?;
        Self::with_extensions(config, extensions)
    }

    /// As [`bind`](Self::bind), with these extensions.
    ///
    /// # Errors
    /// As there.
    pub fn with_extensions(
        config: Config,
        extensions: Vec<Arc<dyn Extension>>,
    ) -> io::Result<Self> {
        let users = Users::open(&config)?;
        let xferlog = config.xferlog.clone().map(Xferlog::open).transpose()?;
        let listener = listen(config.listen)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", config.listen)))?;
        Ok(Self {
            listener,
            shared: Arc::new(Shared {
                users,
                extensions,
                xferlog,
                ledger: Ledger::default(),
                config,
            }),
        })
    }

    /// Where clients connect.
    ///
    /// # Errors
    /// The kernel's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until asked to stop.
    ///
    /// # Errors
    /// The listening socket's, and if threads cannot be started.
    pub fn run(self, stop: &Stop) -> io::Result<()> {
        // A transfer has a thread to itself; 1,000 idle sessions have none.
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(self.shared.config.limits.sessions + 16)
            .thread_stack_size(512 << 10)
            .thread_name("ftp")
            .enable_all()
            .build()?;
        let stopping = stop.0.subscribe();
        let result = runtime.block_on(self.accept(stopping));
        runtime.shutdown_timeout(FAREWELL);
        result
    }

    async fn accept(self, mut stop: watch::Receiver<bool>) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let (shared, stop) = (Arc::clone(&self.shared), stop.clone());
                    tokio::spawn(serve(stream, peer.ip().to_canonical(), shared, stop));
                }
                // Out of descriptors, or the client went before it was served.
                Err(error) => {
                    tracing::warn!("accept: {error}");
                    tokio::time::sleep(RESPITE).await;
                }
            }
        }
        drop(listener);
        let last_moment = tokio::time::Instant::now() + FAREWELL;
        while self.shared.ledger.sessions.count() > 0 && tokio::time::Instant::now() < last_moment {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    // `[::]` is for clients of both families.
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

async fn serve(stream: TcpStream, peer: IpAddr, shared: Arc<Shared>, stop: watch::Receiver<bool>) {
    let limits = &shared.config.limits;
    let Ok(mut control) = Control::new(stream, limits.line, limits.silence(None)) else {
        return;
    };
    let (own, all) = (limits.sessions_per_address, limits.sessions);
    let Some(_place) = shared.ledger.sessions.take(Origin::from(peer), own, all) else {
        tracing::warn!("{peer}: too many sessions");
        let _ = control
            .send(&Reply::new(421, "Too many sessions; try again later"))
            .await;
        return;
    };
    if let Err(error) = Session::new(shared, control, stop).run().await {
        tracing::debug!("{peer}: control connection: {error}");
    }
}
