//! Background tasks of the service: echo requests, the transfer log, name resolution, and changes that other
//! programs make in the store.

mod echo;
mod schedule;
mod xferlog;

use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::task::JoinSet;

use crate::config::Discovery;
use crate::service::Service;

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

/// Starts all background tasks; they end when the result is dropped.
pub fn start(service: &Service, xferlog: Option<PathBuf>, discovery: Discovery) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(see_changes(service.clone()));
    tasks.spawn(learn(service.clone()));
    tasks.spawn(resolve(service.clone()));
    tasks.spawn(forget(service.clone(), discovery.clone()));
    tasks.spawn(schedule::echoes(service.clone()));
    if let Some(file) = xferlog {
        tasks.spawn(xferlog::follow(service.clone(), file, discovery));
    }
    tasks
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
        let now = match service.store().changes().await {
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

    #[tokio::test]
    async fn what_another_program_declares_while_the_service_starts_is_seen() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("db");
        let store = Store::open(&file).await.unwrap();
        let service = Service::start(Arc::new(store), Clock::System, 1 << 20);
        let service = service.await.unwrap();
        let beside = Store::open_beside(&file).await.unwrap();
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
