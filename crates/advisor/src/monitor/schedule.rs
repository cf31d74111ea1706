//! The schedule of echo requests.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::echo::{Echo, EchoError};
use crate::directory::KnownPath;
use crate::host;
use crate::service::Service;
use crate::store::PathId;

/// Interval between checks for due requests.
const TICK: Duration = Duration::from_millis(250);
/// Maximum number of outstanding echo requests.
const TOGETHER: usize = 64;
/// The recorded source of these round-trip times.
const ICMP: &str = "icmp";

/// Sends echo requests for every path at its interval, for ever. Without the privilege it logs once what is
/// missing, and returns.
pub async fn echoes(service: Service) {
    let echo = match Echo::open() {
        Ok(echo) => Arc::new(echo),
        Err(error) => {
            tracing::warn!("{error}; round-trip times come from our own transfers only");
            return;
        }
    };
    let room = Arc::new(Semaphore::new(TOGETHER));
    let mut due: HashMap<PathId, Instant> = HashMap::new();
    loop {
        let directory = service.directory();
        due.retain(|id, _| directory.numbered(*id).is_some());
        for path in directory.paths() {
            let Some((host, interval)) = path.config().echo() else {
                continue;
            };
            let now = Instant::now();
            let at = due
                .entry(path.stored.id)
                .or_insert_with(|| now + share(path, interval));
            if *at > now {
                continue;
            }
            *at = now + interval;
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            let (service, echo, path) = (service.clone(), Arc::clone(&echo), Arc::clone(path));
            tokio::spawn(async move {
                ask(&service, &echo, &path, &host).await;
                drop(permit);
            });
        }
        tokio::time::sleep(TICK).await;
    }
}

/// The delay of a path's first request: a different fraction of its interval, or of 30 s if that is shorter,
/// so that a thousand requests are not sent at once.
fn share(path: &KnownPath, interval: Duration) -> Duration {
    let part = path.stored.id.0.rem_euclid(64) as f64 / 64.0;
    interval.min(Duration::from_secs(30)).mul_f64(part)
}

async fn ask(service: &Service, echo: &Echo, path: &KnownPath, host: &str) {
    let Some(address) = resolve(host).await else {
        service.metrics().count_echo("unresolved");
        return;
    };
    match echo.round_trip(address).await {
        Ok(rtt) => {
            service.metrics().count_echo("answered");
            let rtt_ms = rtt.as_secs_f64() * 1e3;
            if let Err(error) = service.record_round_trip(path, rtt_ms, ICMP).await {
                tracing::warn!("path {}: {error}", path.config().name);
            }
        }
        Err(EchoError::Silent) => service.metrics().count_echo("unanswered"),
        Err(error) => {
            service.metrics().count_echo("unsent");
            tracing::debug!("path {}: {address}: {error}", path.config().name);
        }
    }
}

async fn resolve(host: &str) -> Option<IpAddr> {
    match host::address(host) {
        Some(address) => Some(address),
        None => crate::service::addresses(host).await.first().copied(),
    }
}
