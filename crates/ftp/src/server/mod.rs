//! The server: sessions on control connections, files below a root that cannot be left, and transfers in
//! threads of their own.

mod abilities;
mod access;
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
mod networks;
mod partial;
mod passwords;
mod pattern;
mod ports;
mod quota;
mod rates;
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

pub use access::{AccessRule, Right};
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
use quota::Quotas;
use rates::Rates;
use reserve::Reserve;
use session::Session;
use uploads::Uploads;
use users::{Crowd, Users};
use work::is_out_of_descriptors;
use xferlog::Xferlog;

use crate::protocol::Reply;

/// What sessions share that began under the same configuration.
pub(crate) struct Shared {
    config: Config,
    users: Users,
    extensions: Vec<Arc<dyn Extension>>,
    xferlog: Option<Xferlog>,
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
    users: Crowd,
    rates: Rates,
    quotas: Quotas,
}

static DENIED: RateLimitedLog = RateLimitedLog::new();
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
        let config = Config {
            listen: old.config.listen,
            ..config
        };
        let extensions = (self.select)(&config)?;
        let shared = Shared::open(config, extensions, &old.ledger, Some(&old))?;
        shared.ledger.rates.set(&shared.config.limits);
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
        Ok(Self {
            extensions,
            users: Users::open(&config, users.map(|before| &before.users), &ledger.quotas)?,
            xferlog: xferlog.transpose()?,
            ledger: Arc::clone(ledger),
            config,
        })
    }
}

/// A server that is bound but does not run yet.
pub struct Server {
    listener: TcpListener,
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
        shared.ledger.rates.set(&shared.config.limits);
        let address = shared.config.listen;
        let listener = listen(address)
            .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
        Ok(Self {
            listener,
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
        let mut reserve = Reserve::take();
        // Nothing is sent: it closes when the last session has ended.
        let (session, mut sessions) = mpsc::channel::<()>(1);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            match accepted {
                Ok((stream, peer)) => {
                    reserve.refill();
                    let (shared, stop) = (self.reload.current(), stop.clone());
                    let (peer, session) = (peer.ip().to_canonical(), session.clone());
                    if !networks::admits(&shared.config.allow, &shared.config.deny, peer) {
                        refuse(&stream, peer);
                        continue;
                    }
                    tokio::spawn(serve(stream, peer, shared, stop, session));
                }
                Err(error) if is_out_of_descriptors(&error) => {
                    ACCEPT.warn(|| {
                        format!("no descriptor is free for another client: {error}; see ulimit -n")
                    });
                    if !reserve.turn_away(&listener).await {
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
        drop((listener, session));
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

/// Sends a client away from whose network none is served.
fn refuse(stream: &TcpStream, peer: IpAddr) {
    DENIED.warn(|| format!("{peer}: a client from a denied network"));
    // What does not fit into the buffer of a new connection does not matter.
    let _ = stream.try_write(&Reply::new(421, "Not served to your network").encode());
}

/// Checks what [`Server::bind`] would open, except for sockets and logs.
///
/// # Errors
/// If a directory cannot be opened or a user is invalid; the error names it.
pub fn check(config: &Config) -> io::Result<()> {
    Users::open(config, None, &Quotas::default()).map(drop)
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
        let _ = control
            .send(&Reply::new(421, "Too many sessions; try again later"))
            .await;
        return;
    };
    if let Err(error) = Session::new(shared, control, stop).run().await {
        tracing::debug!("{peer}: control connection: {error}");
    }
}
