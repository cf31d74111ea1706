//! The server: sessions on control connections, files below a root that cannot be left, and transfers in
//! threads of their own.

mod abilities;
mod access;
mod agreement;
mod attend;
mod channel;
mod config;
pub mod console;
mod control;
mod copying;
mod deflate;
mod digest;
mod digests;
mod directory;
mod dispatch;
mod extension;
mod files;
mod greeting;
mod guesses;
mod handshakes;
mod heap;
mod hosts;
mod journal;
mod lines;
mod listing;
mod login;
mod matches;
mod messages;
mod metrics;
mod names;
mod networks;
mod origins;
mod own_thread;
mod partial;
mod passwords;
mod ports;
mod protection;
mod quota;
mod rates;
mod renaming;
mod reserve;
mod roster;
mod session;
mod system_users;
mod third_party;
mod transfer;
mod turns;
mod upload;
mod uploads;
mod users;
mod work;
mod xferlog;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use fairwind_origin::Places;
use fairwind_transfer::{RateLimitedLog, SocketPlan};
use parking_lot::RwLock;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};

pub use crate::file_reader::FileReader;
pub use crate::tls::{ClientCertificates, TlsConfig};
pub use access::{AccessRule, Right};
pub use config::{Config, Limits, SyncPolicy, UserConfig};
pub use extension::{Extension, PeerFacts, SessionExtension};
pub use fairwind_origin::Origin;
pub use hosts::HostConfig;
pub use lines::LogTarget;
pub use passwords::hash_password;
pub use roster::SessionRow;
pub use system_users::{Authenticator, LoggedIn, Login, Opened, SystemUser, SystemUserConfig};
pub use xferlog::LogOpener;

use control::Control;
use digest::Checksums;
use extension::Select;
use greeting::Greeting;
use guesses::Guesses;
use handshakes::Handshakes;
use hosts::Hosts;
use journal::Journal;
use metrics::{Counters, Refusal};
use passwords::Checks;
use ports::Ports;
use protection::Arrival;
use quota::Quotas;
use rates::Rates;
use reserve::Reserve;
use roster::Roster;
use session::Session;
use uploads::Uploads;
use users::{Crowd, Users};
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
    journal: Option<Journal>,
    greeting: Greeting,
    ledger: Arc<Ledger>,
    hosts: Hosts,
}

/// What clients use, and what is remembered about them, across configurations.
#[derive(Default)]
struct Ledger {
    sessions: Places,
    ports: Ports,
    checks: Checks,
    guesses: Guesses,
    handshakes: Handshakes,
    checksums: Checksums,
    uploads: Uploads,
    users: Crowd,
    rates: Rates,
    quotas: Quotas,
    roster: Roster,
    counters: Counters,
    system_checks: system_users::Checks,
}

static DENIED: RateLimitedLog = RateLimitedLog::new();
static CROWD: RateLimitedLog = RateLimitedLog::new();
static CONTROL: RateLimitedLog = RateLimitedLog::new();
static ACCEPT: RateLimitedLog = RateLimitedLog::new();

/// How far a server is from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Clients are served.
    Serving,
    /// No new clients are; transfers that run go on.
    Draining,
    /// Everything ends.
    Ending,
}

/// Asks a running server to stop.
#[derive(Debug, Clone)]
pub struct Stop(watch::Sender<Phase>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::channel(Phase::Serving).0)
    }
}

impl Stop {
    /// Makes the server dismiss its clients and [`Server::run`] return.
    pub fn ask(&self) {
        self.reach(Phase::Ending);
    }

    /// Makes the server dismiss idle clients, accept no others, and return when the transfers that run have
    /// ended, at the latest after [`Limits::stop_s`]. False if it has been asked before.
    pub fn drain(&self) -> bool {
        self.reach(Phase::Draining)
    }

    fn reach(&self, phase: Phase) -> bool {
        self.0.send_if_modified(|now| {
            let is_later = phase > *now;
            *now = phase.max(*now);
            is_later
        })
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
        let (before, now) = (&old.config, &config);
        for (key, changes) in [
            ("metrics", before.metrics != now.metrics),
            (
                "control",
                before.control != now.control || before.control_group != now.control_group,
            ),
        ] {
            if changes {
                tracing::warn!("{key} stays as it is; the change takes effect after a restart");
            }
        }
        let config = Config {
            listen: old.config.listen,
            metrics: old.config.metrics,
            control: old.config.control.clone(),
            control_group: old.config.control_group,
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
        let journal = config.command_log.clone();
        let journal = journal.map(|target| Journal::open(target, opener.clone()));
        let users = before.filter(|before| before.config.root == config.root);
        let tls = config.tls.as_ref();
        let tls = tls.map(|tls| {
            let certificates = hosts::certificates(&config, tls)?;
            ServerTls::load(tls, certificates, &config.file_reader)
        });
        let mut shared = Self {
            extensions,
            tls: tls.transpose()?,
            users: Users::open(
                &config,
                None,
                users.map(|before| &before.users),
                &ledger.quotas,
            )?,
            xferlog: xferlog.transpose()?,
            journal: journal.transpose()?,
            greeting: Greeting::read(&config)?,
            ledger: Arc::clone(ledger),
            hosts: Hosts::default(),
            config,
        };
        shared.hosts = Hosts::open(&shared, before)?;
        Ok(shared)
    }
}

/// A server that is bound but does not run yet.
pub struct Server {
    listener: TcpListener,
    /// That of implicit TLS.
    tls_listener: Option<TcpListener>,
    metrics: Option<TcpListener>,
    console: Option<UnixListener>,
    sign_of_life: Option<(Duration, Box<dyn FnMut() + Send>)>,
    reload: Reload,
}

/// Time allowed for sessions to end when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// How often free memory is returned to the kernel.
const TRIM_INTERVAL: Duration = Duration::from_secs(10);

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
        let open = |address: SocketAddr| listen(address).map_err(|error| at(address, &error));
        let listener = match &shared.config.listener {
            Some(given) => given.try_clone()?,
            None => open(shared.config.listen)?,
        };
        let tls_listen = shared.config.tls.as_ref().and_then(|tls| tls.listen);
        let metrics = shared.config.metrics.map(|address| {
            let listener = TcpListener::bind(address).map_err(|error| at(address, &error))?;
            listener.set_nonblocking(true)?;
            Ok::<_, io::Error>(listener)
        });
        let console = shared.config.control.as_ref();
        let console = console.map(|path| console::listen(path, shared.config.control_group));
        Ok(Self {
            listener,
            tls_listener: tls_listen.map(open).transpose()?,
            metrics: metrics.transpose()?,
            console: console.transpose()?,
            sign_of_life: None,
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

    /// Where metrics are served, if they are.
    ///
    /// # Errors
    /// If the socket's address cannot be read.
    pub fn metrics_address(&self) -> io::Result<Option<SocketAddr>> {
        self.metrics
            .as_ref()
            .map(TcpListener::local_addr)
            .transpose()
    }

    /// The number of sessions; may be asked for while the server runs.
    pub fn session_count(&self) -> impl Fn() -> usize + Send + 'static {
        let ledger = Arc::clone(&self.reload.current().ledger);
        move || ledger.roster.totals().0
    }

    /// Has `act` called with this period by the threads that serve clients, as long as they do.
    pub fn every(&mut self, period: Duration, act: impl FnMut() + Send + 'static) {
        self.sign_of_life = Some((period, Box::new(act)));
    }

    /// Serves until asked to stop. From the start of this call the process keeps little of the memory
    /// that it frees.
    ///
    /// # Errors
    /// If the listening socket fails or threads cannot be started.
    pub fn run(self, stop: &Stop) -> io::Result<()> {
        heap::keep_little();
        // Threads of the pool look at files and come back at once; a transfer has a thread of its own, and 1,000 idle
        // sessions have none. The number of sessions is what is limited, and a later configuration may raise that limit.
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(usize::from(u16::MAX))
            .thread_stack_size(own_thread::STACK)
            .thread_name("ftp")
            .enable_all()
            .build()?;
        let result = runtime.block_on(self.accept(stop));
        runtime.shutdown_timeout(STOP_TIMEOUT);
        result
    }

    async fn accept(self, asked: &Stop) -> io::Result<()> {
        let mut stop = asked.0.subscribe();
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let tls_listener = self.tls_listener.map(tokio::net::TcpListener::from_std);
        let tls_listener = tls_listener.transpose()?;
        let ledger = &self.reload.current().ledger;
        if let Some((period, mut act)) = self.sign_of_life {
            tokio::spawn(async move {
                let mut period = tokio::time::interval(period);
                loop {
                    period.tick().await;
                    act();
                }
            });
        }
        tokio::spawn(async {
            let mut period = tokio::time::interval(TRIM_INTERVAL);
            loop {
                period.tick().await;
                // It visits all that is free, and holds each arena meanwhile.
                let _ = tokio::task::spawn_blocking(heap::trim).await;
            }
        });
        if let Some(listener) = self.metrics {
            tokio::spawn(metrics::serve(listener, Arc::clone(ledger)));
        }
        if let Some(listener) = self.console {
            tokio::spawn(console::serve(listener, Arc::clone(ledger)));
        }
        let mut reserve = Reserve::take();
        // Nothing is sent: it closes when the last session has ended.
        let (session, mut sessions) = mpsc::channel::<()>(1);
        loop {
            let (accepted, arrival) = tokio::select! {
                accepted = listener.accept() => (accepted, Arrival::Plain),
                accepted = accept_from(tls_listener.as_ref()) => (accepted, Arrival::Implicit),
                _ = stop.wait_for(|phase| *phase != Phase::Serving) => break,
            };
            match accepted {
                Ok((stream, peer)) => {
                    reserve.refill();
                    let (shared, stop) = (self.reload.current(), stop.clone());
                    let (peer, session) = (peer.ip().to_canonical(), session.clone());
                    if !networks::admits(&shared.config.allow, &shared.config.deny, peer) {
                        ledger.counters.refusal(Refusal::Network);
                        refuse(&stream, peer, arrival);
                        continue;
                    }
                    tokio::spawn(serve(stream, peer, shared, stop, session, arrival));
                }
                Err(error) if is_out_of_descriptors(&error) => {
                    ledger.counters.refusal(Refusal::Descriptors);
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
        let patience = Duration::from_secs(shared.config.limits.stop_s);
        let drained = tokio::select! {
            _ = sessions.recv() => true,
            _ = stop.wait_for(|phase| *phase == Phase::Ending) => false,
            () = tokio::time::sleep(patience) => false,
        };
        asked.ask();
        let ended = async {
            if !drained {
                let _ = sessions.recv().await;
            }
            if let Some(journal) = &shared.journal {
                journal.written().await;
            }
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

/// Sends a client away from whose network none is served.
fn refuse(stream: &TcpStream, peer: IpAddr, arrival: Arrival) {
    DENIED.warn(|| format!("{peer}: a client from a denied network"));
    // Under TLS a reply would cost a handshake.
    if arrival == Arrival::Plain {
        // What does not fit into the buffer of a new connection does not matter.
        let _ = stream.try_write(&Reply::new(421, "Not served to your network").encode());
    }
}

/// Checks what [`Server::bind`] would open, except for sockets and logs.
///
/// # Errors
/// If a directory or a text cannot be opened or a user is invalid; the error names it.
pub fn check(config: &Config) -> io::Result<()> {
    Greeting::read(config)?;
    Users::open(config, None, None, &Quotas::default())?;
    hosts::check(config)
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn at(address: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
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
    stop: watch::Receiver<Phase>,
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
        shared.ledger.counters.refusal(Refusal::Sessions);
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
