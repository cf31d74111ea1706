//! Background tasks of the service: echo requests, the transfer log, name resolution, and changes that other
//! programs make in the store.

mod echo;
mod schedule;
mod xferlog;

use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::sync::watch;

use crate::discovery::Discovery;
use crate::run::ended;
use crate::service::Service;

pub use xferlog::Follower;

/// Interval between checks for changes in the store by other programs.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// Interval between updates of what was learned from histories.
const LEARNS_EVERY: Duration = Duration::from_secs(60);
/// Interval between name resolutions.
const RESOLVES_EVERY: Duration = Duration::from_secs(60);
/// Interval between removals of old samples in memory, round-trip times and transfers.
const FORGETS_EVERY: Duration = Duration::from_secs(3_600);
/// How long round-trip times and transfers are kept.
const KEEPS: SignedDuration = SignedDuration::from_hours(24 * 90);

/// Starts all background tasks; they end when `end` closes.
pub fn start(
    service: &Service,
    xferlog: Option<PathBuf>,
    discovery: Discovery,
    end: watch::Receiver<()>,
) {
    let until = |task: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        let end = end.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = task => {}
                () = ended(end) => {}
            }
        });
    };
    until(Box::pin(see_changes(service.clone())));
    until(Box::pin(learn(service.clone())));
    until(Box::pin(resolve(service.clone())));
    until(Box::pin(forget(service.clone(), discovery.clone())));
    until(Box::pin(schedule::echoes(service.clone())));
    if let Some(file) = xferlog {
        until(Box::pin(xferlog::follow(service.clone(), file, discovery)));
    }
}

async fn learn(service: Service) {
    service.warm().await;
    loop {
        tokio::time::sleep(LEARNS_EVERY).await;
        service.keep_learned().await;
    }
}

async fn see_changes(service: Service) {
    let mut seen = service.changes_at_start();
    loop {
        tokio::time::sleep(LOOKS_EVERY).await;
        let now = match service.changes().await {
            Ok(now) => now,
            Err(error) => {
                tracing::warn!("{error}");
                continue;
            }
        };
        if seen != now {
            match service.reload().await {
                Ok(()) => seen = now,
                Err(error) => tracing::warn!("the paths could not be read anew: {error}"),
            }
        }
    }
}

async fn resolve(service: Service) {
    loop {
        service.resolve_names().await;
        tokio::time::sleep(RESOLVES_EVERY).await;
    }
}

async fn forget(service: Service, discovery: Discovery) {
    loop {
        if let Err(error) = service.forget_discovered(&discovery).await {
            tracing::warn!("{error}");
        }
        tokio::time::sleep(FORGETS_EVERY).await;
        service.forget_old_samples();
        let Ok(oldest) = service.now().checked_sub(KEEPS) else {
            continue;
        };
        if let Err(error) = service.forget_before(oldest).await {
            tracing::warn!("{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::Clock;
    use crate::path::PathConfig;
    use crate::store::Store;
    use crate::store::sqlite::SqliteStore;

    #[tokio::test]
    async fn what_another_program_declares_while_the_service_starts_is_seen() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("db");
        let store = SqliteStore::open(&file).await.unwrap();
        let service = Service::start(Arc::new(store), Clock::System, 1 << 20);
        let service = service.await.unwrap();
        let beside = SqliteStore::open_beside(&file).await.unwrap();
        let path = PathConfig::new("p", Vec::new());
        beside.put_path(&path).await.unwrap();
        let seeing = tokio::spawn(see_changes(service.clone()));
        let waiting = async {
            while service.path("p").is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let seen = tokio::time::timeout(10 * LOOKS_EVERY, waiting).await;
        seeing.abort();
        assert!(seen.is_ok());
    }
}
