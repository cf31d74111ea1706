//! The server: sessions on control connections, files below a root that cannot be left, and transfers in
//! threads of their own.

mod abilities;
mod agreement;
mod channel;
mod config;
mod control;
mod copying;
mod digest;
mod digests;
mod directory;
mod dispatch;
mod extension;
mod files;
mod guesses;
mod heap;
mod listing;
mod login;
mod matches;
mod names;
mod partial;
mod passwords;
mod pattern;
mod ports;
mod protection;
mod reserve;
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

use fairwind_origin::Places;
use fairwind_transfer::{RateLimitedLog, SocketPlan};
use parking_lot::RwLock;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};

pub use crate::tls::{ClientCertificates, PemReader, TlsConfig};
pub use config::{Config, Limits, SyncPolicy, UserConfig};
pub use extension::{Extension, PeerFacts, SessionExtension};
pub use fairwind_origin::Origin;
pub use passwords::hash_password;
pub use xferlog::LogOpener;

use control::Control;
use digest::Checksums;
use extension::Select;
use guesses::Guesses;
use passwords::Checks;
use ports::Ports;
use protection::Arrival;
use reserve::Reserve;
use session::Session;
use uploads::Uploads;
use users::Users;
use work::is_out_of_descriptors;
use xferlog::Xferlog;

use crate::protocol::Reply;
use crate::tls::ServerTls;

/// What sessions share that began under the same configuration.
pub(crate) struct Shared {
    config: Config,
    users: Users,
    extensions: Vec<Arc<dyn Extension>>,
    xferlog: Option<Xferlog>,
    tls: Option<ServerTls>,
    ledger: Arc<Ledger>,
}

/// What clients use, and what is remembered about them, across configurations.
#[derive(Default)]
struct Ledger {
    sessions: Places,
    ports: Ports,
    checks: Checks,
    guesses: Guesses,
    checksums: Checksums,
    uploads: Uploads,
}

static CROWD: RateLimitedLog = RateLimitedLog::new();
static CONTROL: RateLimitedLog = RateLimitedLog::new();
static ACCEPT: RateLimitedLog = RateLimitedLog::new();

/// Asks a running server to stop.
#[derive(Debug, Clone)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::channel(false).0)
    }
}

impl Stop {
    /// Makes the server dismiss its clients and [`Server::run`] return.
    pub fn ask(&self) {
        self.0.send_replace(true);
    }
}

/// Replaces the configuration of a running server.
#[derive(Clone)]
pub struct Reload {
    current: Arc<RwLock<Arc<Shared>>>,
    select: Arc<Select>,
}

impl Reload {
    /// From now on new sessions are served according to `config`. Existing sessions and their transfers
    /// go on under the old configuration. What clients use and what is remembered about them is kept, and
    /// so is `listen`, which only a restart can change.
    ///
    /// # Errors
    /// As [`Server::bind`], or if an extension cannot be opened; the old configuration then stays in force.
    pub fn with(&self, config: Config) -> io::Result<()> {
        let old = self.current();
        if config.listen != old.config.listen {
            let (stays, new) = (old.config.listen, config.listen);
            tracing::warn!("listen stays {stays}; {new} takes effect after a restart");
        }
        let tls_listen = |config: &Config| config.tls.as_ref().and_then(|tls| tls.listen);
        if tls_listen(&config) != tls_listen(&old.config) {
            tracing::warn!("listen of tls stays as it was until a restart");
        }
        let config = Config {
            listen: old.config.listen,
            ..config
        };
        let extensions = (self.select)(&config)?;
        let shared = Shared::open(config, extensions, &old.ledger, Some(&old))?;
        *self.current.write() = Arc::new(shared);
        Ok(())
    }

    fn current(&self) -> Arc<Shared> {
        Arc::clone(&self.current.read())
    }
}

impl Shared {
    /// What is open in `before` and still needed stays open: now that privileges have been dropped, its
    /// path may be out of reach.
    fn open(
        config: Config,
        extensions: Vec<Arc<dyn Extension>>,
        ledger: &Arc<Ledger>,
        before: Option<&Self>,
    ) -> io::Result<Self> {
        let opener = &config.log_opener;
        let xferlog = config.xferlog.clone();
        let xferlog = xferlog.map(|path| Xferlog::open(path, opener.clone()));
        let users = before.filter(|before| before.config.root == config.root);
        let tls = config.tls.as_ref();
        let tls = tls.map(|tls| ServerTls::load(tls, &config.pem_reader));
        Ok(Self {
            extensions,
            tls: tls.transpose()?,
            users: Users::open(&config, users.map(|before| &before.users))?,
            xferlog: xferlog.transpose()?,
            ledger: Arc::clone(ledger),
            config,
        })
    }
}

/// A server that is bound but does not run yet.
pub struct Server {
    listener: TcpListener,
    /// That of implicit TLS.
    tls_listener: Option<TcpListener>,
    reload: Reload,
}

/// Time allowed for sessions to end when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// Pause after accepting a connection failed, for example because no descriptor is free.
const ACCEPT_ERROR_PAUSE: Duration = Duration::from_millis(100);

impl Server {
    /// Opens the root, the users' directories, the logs and the listening socket. `select` opens the
    /// extensions for this configuration, and for each that replaces it.
    ///
    /// # Errors
    /// If one of them cannot be opened, or the configuration is invalid.
    pub fn bind(
        config: Config,
        select: impl Fn(&Config) -> io::Result<Vec<Arc<dyn Extension>>> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let extensions = select(&config)?;
        let shared = Shared::open(config, extensions, &Arc::default(), None)?;
        let open = |address: SocketAddr| {
            listen(address)
                .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))
        };
        let listener = open(shared.config.listen)?;
        let tls_listen = shared.config.tls.as_ref().and_then(|tls| tls.listen);
        Ok(Self {
            listener,
            tls_listener: tls_listen.map(open).transpose()?,
            reload: Reload {
                current: Arc::new(RwLock::new(Arc::new(shared))),
                select: Arc::new(select),
            },
        })
    }

    /// A handle to replace the configuration while the server runs.
    pub fn reload(&self) -> Reload {
        self.reload.clone()
    }

    /// The address that clients connect to.
    ///
    /// # Errors
    /// If the socket's address cannot be read.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The address of implicit TLS, if there is one.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn tls_address(&self) -> io::Result<Option<SocketAddr>> {
        let listener = self.tls_listener.as_ref();
        listener.map(TcpListener::local_addr).transpose()
    }

    /// Serves until asked to stop. From the start of this call the process keeps little of the memory
    /// that it frees.
    ///
    /// # Errors
    /// If the listening socket fails or threads cannot be started.
    pub fn run(self, stop: &Stop) -> io::Result<()> {
        heap::keep_little();
        // A transfer has a thread to itself; 1,000 idle sessions have none. The number of sessions is
        // what is limited, and a later configuration may raise that limit.
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(usize::from(u16::MAX))
            .thread_stack_size(512 << 10)
            .thread_name("ftp")
            .enable_all()
            .build()?;
        let stopping = stop.0.subscribe();
        let result = runtime.block_on(self.accept(stopping));
        runtime.shutdown_timeout(STOP_TIMEOUT);
        result
    }

    async fn accept(self, mut stop: watch::Receiver<bool>) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let tls_listener = self.tls_listener.map(tokio::net::TcpListener::from_std);
        let tls_listener = tls_listener.transpose()?;
        let mut reserve = Reserve::take();
        // Nothing is sent: it closes when the last session has ended.
        let (session, mut sessions) = mpsc::channel::<()>(1);
        loop {
            let (accepted, arrival) = tokio::select! {
                accepted = listener.accept() => (accepted, Arrival::Plain),
                accepted = accept_from(tls_listener.as_ref()) => (accepted, Arrival::Implicit),
                _ = stop.wait_for(|stop| *stop) => break,
            };
            match accepted {
                Ok((stream, peer)) => {
                    reserve.refill();
                    let (shared, stop) = (self.reload.current(), stop.clone());
                    let (peer, session) = (peer.ip().to_canonical(), session.clone());
                    tokio::spawn(serve(stream, peer, shared, stop, session, arrival));
                }
                Err(error) if is_out_of_descriptors(&error) => {
                    ACCEPT.warn(|| {
                        format!("no descriptor is free for another client: {error}; see ulimit -n")
                    });
                    let from = match arrival {
                        Arrival::Implicit => tls_listener.as_ref().unwrap_or(&listener),
                        Arrival::Plain => &listener,
                    };
                    if !reserve.turn_away(from).await {
                        tokio::time::sleep(ACCEPT_ERROR_PAUSE).await;
                    }
                }
                // The client has gone before it was accepted.
                Err(error) => {
                    ACCEPT.warn(|| format!("accept: {error}"));
                    tokio::time::sleep(ACCEPT_ERROR_PAUSE).await;
                }
            }
        }
        drop((listener, tls_listener, session));
        let shared = self.reload.current();
        let ended = async {
            let _ = sessions.recv().await;
            if let Some(xferlog) = &shared.xferlog {
                xferlog.written().await;
            }
        };
        // Sessions that have not ended by then end with the runtime.
        let _ = tokio::time::timeout(STOP_TIMEOUT, ended).await;
        Ok(())
    }
}

/// The next client of a listener that may not be there.
async fn accept_from(
    listener: Option<&tokio::net::TcpListener>,
) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = SocketPlan::default().socket(address)?;
    socket.set_reuse_address(true)?;
    // `[::]` serves clients of both families.
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Serves a client; `session` is dropped when the session has ended, or there is no place for one.
async fn serve(
    stream: TcpStream,
    peer: IpAddr,
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
    session: mpsc::Sender<()>,
    arrival: Arrival,
) {
    let limits = &shared.config.limits;
    let mut control = match Control::new(stream, limits.line, limits.silence(None)) {
        Ok(control) => control,
        // The client may have gone already.
        Err(error) => {
            CONTROL.warn(|| format!("{peer}: control connection: {error}"));
            return;
        }
    };
    let (own, all) = (limits.sessions_per_address, limits.sessions);
    let Some(_place) = shared.ledger.sessions.take(Origin::from(peer), own, all) else {
        drop(session);
        CROWD.warn(|| format!("{peer}: too many sessions"));
        // Under TLS a reply would cost a handshake.
        if arrival == Arrival::Plain {
            let _ = control
                .send(&Reply::new(421, "Too many sessions; try again later"))
                .await;
        }
        return;
    };
    if let Err(error) = Session::new(shared, control, stop, arrival).run().await {
        tracing::debug!("{peer}: control connection: {error}");
    }
}
