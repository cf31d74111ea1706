//! The whole service: opens the store, starts the background tasks, listens.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::clock::Clock;
use crate::config::{Config, Listen};
use crate::error::ServiceError;
use crate::http::Limits;
use crate::listener::{ListenError, Listener, Listeners};
use crate::service::{DEFAULT_HISTORY_BYTES, Service};
use crate::state::{self, StateError};
use crate::store::Store;
use crate::{http, monitor};

/// The options of a service.
#[derive(Clone, Debug)]
pub struct Options {
    /// State directory; the usual one by default.
    pub state: Option<PathBuf>,
    /// What the operator configured; without an address it listens nowhere.
    pub config: Config,
    /// The clock.
    pub clock: Clock,
    /// Limits for clients.
    pub limits: Limits,
}

/// Why the service did not start, or ended.
#[derive(Debug, Error)]
pub enum RunError {
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The store failed, or a path is invalid.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The operating system refused a resource.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

/// Runs the service until SIGINT or SIGTERM. `ready` gets the addresses at which it listens, as told to
/// clients.
pub fn run(options: Options, ready: impl FnOnce(&[String])) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(options, ready, terminated()))
}

/// Runs the service until `stop` completes.
pub async fn serve(
    options: Options,
    ready: impl FnOnce(&[String]),
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), RunError> {
    let config = options.config;
    let directory = state::directory(options.state.as_deref())?;
    let _held = state::hold(&directory)?;
    let listeners = Listeners::open(&config)?;
    let store = Store::open(&state::database(&directory)).await;
    let store = Arc::new(store.map_err(ServiceError::from)?);
    let history_bytes = config
        .history_mib
        .map_or(DEFAULT_HISTORY_BYTES, |mib| mib << 20);
    let service = Service::start(store.clone(), options.clock, history_bytes).await?;
    for path in config.paths {
        service.put_path(path).await?;
    }
    for path in service.directory().paths() {
        let config = path.config();
        if config.hosts.is_empty() {
            tracing::warn!("path {}: no host leads to it", config.name);
        }
    }
    let urls = listeners.sockets.iter().map(Listener::url);
    let urls: Vec<String> = urls.collect::<Result<_, _>>()?;
    let unencrypted = config.listen.iter().filter(|_| config.tls.is_none());
    for address in unencrypted.filter_map(Listen::beyond_this_machine) {
        tracing::warn!("{address}: without a certificate tokens cross the network unencrypted");
    }
    let monitors = monitor::start(&service, config.xferlog, config.discovery);
    ready(&urls);
    let stop = async move {
        stop.await;
        drop(monitors);
    };
    http::serve(listeners, http::router(&service), options.limits, stop).await;
    store.close().await;
    Ok(())
}

async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
