//! The schedule of echo requests.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::echo::{Echo, EchoError};
use crate::host;
use crate::service::Service;
use crate::service::{Directory, KnownPath};
use crate::store::PathId;

/// Interval between checks for due requests.
const TICK: Duration = Duration::from_millis(250);
/// Maximum number of outstanding echo requests.
const TOGETHER: usize = 64;
/// The recorded source of these round-trip times.
const ICMP: &str = "icmp";

/// Sends echo requests for every path at its interval, for ever. Without the privilege it logs once what is
/// missing, and returns.
pub(super) async fn echoes(service: Service) {
    let echo = match Echo::open() {
        Ok(echo) => Arc::new(echo),
        Err(error) => {
            tracing::warn!("{error}; round-trip times come from our own transfers only");
            return;
        }
    };
    let room = Arc::new(Semaphore::new(TOGETHER));
    let mut schedule = Schedule::default();
    loop {
        for (path, host) in schedule.due(&service.directory(), Instant::now()) {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            let (service, echo) = (service.clone(), Arc::clone(&echo));
            tokio::spawn(async move {
                ask(&service, &echo, &path, &host).await;
                drop(permit);
            });
        }
        tokio::time::sleep(TICK).await;
    }
}

/// When the next request of each path is due.
#[derive(Debug, Default)]
struct Schedule {
    next: HashMap<PathId, Instant>,
}

impl Schedule {
    /// The paths of the directory whose request is due, with whom to ask. They are due again after their
    /// interval; paths that have left the directory are forgotten.
    fn due(&mut self, directory: &Directory, now: Instant) -> Vec<(Arc<KnownPath>, String)> {
        self.next.retain(|id, _| directory.numbered(*id).is_some());
        let mut due = Vec::new();
        for path in directory.paths() {
            let Some((host, interval)) = path.config().echo() else {
                continue;
            };
            let next = self.next.entry(path.stored.id);
            let next = next.or_insert_with(|| now + share(path, interval));
            if *next <= now {
                *next = now + interval;
                due.push((Arc::clone(path), host));
            }
        }
        due
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::clock::Clock;
    use crate::config::Discovery;
    use crate::store::Store;

    #[tokio::test]
    async fn a_host_that_is_forgotten_is_asked_no_more() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::open(&place.path().join("db")).await.unwrap();
        let service = Service::start(Arc::new(store), Clock::System, 1 << 20);
        let service = service.await.unwrap();
        let hosts = ["10.0.0.1", "10.0.0.2"].map(|host| host.parse::<IpAddr>().unwrap());
        let all = Discovery::default();
        assert_eq!(service.discover(hosts, &all).await.unwrap(), 2);
        let mut schedule = Schedule::default();
        let begin = Instant::now();
        // How often each host is asked in the ten minutes after so many.
        let mut asked_after = |minutes: u64| {
            let from = begin + Duration::from_secs(60 * minutes);
            let mut asked = BTreeMap::new();
            for tick in 0..600 * 1_000 / TICK.as_millis() as u32 {
                for (_, host) in schedule.due(&service.directory(), from + tick * TICK) {
                    *asked.entry(host).or_insert(0) += 1;
                }
            }
            (asked, schedule.next.len())
        };
        let times = |hosts: &[&str]| -> BTreeMap<String, i32> {
            hosts.iter().map(|host| (host.to_string(), 10)).collect()
        };
        // Once a minute, unless the path says otherwise.
        assert_eq!(asked_after(0), (times(&["10.0.0.1", "10.0.0.2"]), 2));
        let one = Discovery {
            networks: vec!["10.0.0.2/32".parse().unwrap()],
            ..all
        };
        service.forget_discovered(&one).await.unwrap();
        assert_eq!(asked_after(10), (times(&["10.0.0.2"]), 1));
        let none = Discovery {
            hosts_at_most: 0,
            ..one
        };
        service.forget_discovered(&none).await.unwrap();
        assert_eq!(asked_after(20), (times(&[]), 0));
    }
}
