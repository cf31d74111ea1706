//! The whole service: opens the store, starts the background tasks, listens.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::discovery::Discovery;
use crate::doors::{Door, DoorError, Doors};
use crate::error::ServiceError;
use crate::http::Limits;
use crate::path::PathConfig;
use crate::service::Service;
use crate::state::{self, StateError};
use crate::store::sqlite::SqliteStore;
use crate::{http, monitor};

/// The options of a service.
#[derive(Clone, Debug)]
pub struct Options {
    /// State directory; the usual one by default.
    pub state: Option<PathBuf>,
    /// Where to listen and whom to admit.
    pub doors: Doors,
    /// The clock.
    pub clock: Clock,
    /// Paths to declare.
    pub paths: Vec<PathConfig>,
    /// A transfer log to follow.
    pub xferlog: Option<PathBuf>,
    /// Which hosts of that log become paths, how many, and for how long.
    pub discovery: Discovery,
    /// Memory for histories, bytes.
    pub history_bytes: usize,
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
    /// A door cannot be opened.
    #[error(transparent)]
    Door(#[from] DoorError),
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
    let directory = state::directory(options.state.as_deref())?;
    let _held = state::hold(&directory)?;
    let opened = options.doors.open()?;
    let store = open(&directory).await?;
    let service = Service::start(store.clone(), options.clock, options.history_bytes).await?;
    for path in &options.paths {
        service.put_path(path.clone()).await?;
    }
    for path in service.directory().paths() {
        let config = path.config();
        if config.hosts.is_empty() {
            tracing::warn!("path {}: no host leads to it", config.name);
        }
    }
    let urls: Vec<String> = opened
        .doors
        .iter()
        .map(Door::url)
        .collect::<Result<_, _>>()?;
    for address in options.doors.unencrypted() {
        tracing::warn!("{address}: without a certificate tokens cross the network unencrypted");
    }
    let (ending, end) = watch::channel(());
    monitor::start(&service, options.xferlog, options.discovery, end.clone());
    ready(&urls);
    tokio::spawn(async move {
        stop.await;
        drop(ending);
    });
    http::serve(opened, http::router(&service), options.limits, end).await;
    store.close().await;
    Ok(())
}

/// The store in a state directory, for the service.
pub async fn open(directory: &Path) -> Result<Arc<SqliteStore>, ServiceError> {
    let file = state::database(directory);
    Ok(Arc::new(SqliteStore::open(&file).await?))
}

/// The store in a state directory, for other programs.
pub async fn open_beside(directory: &Path) -> Result<Arc<SqliteStore>, ServiceError> {
    let file = state::database(directory);
    Ok(Arc::new(SqliteStore::open_beside(&file).await?))
}

/// Waits until the service ends.
pub(crate) async fn ended(mut end: watch::Receiver<()>) {
    // Nothing is ever sent; the channel only closes.
    while end.changed().await.is_ok() {}
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
