//! Undeclared hosts: they become paths when seen, and are forgotten later.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use fairwind_origin::Prefix;
use jiff::{SignedDuration, Timestamp};

use super::directory::KnownPath;
use super::paths::PATHS_AT_MOST;
use super::{Service, Shared, to_its_end};
use crate::config::Discovery;
use crate::error::ServiceError;
use crate::host::HostPattern;
use crate::path::PathConfig;
use crate::store::{Discovered, PathId};

/// Maximum number of hosts per transaction, and per new directory.
const TOGETHER: usize = 512;
/// The precision with which the time of a host's last transfer is kept.
const SEEN_AGAIN_AFTER: SignedDuration = SignedDuration::from_hours(1);

impl Service {
    /// Creates paths for those hosts that have none and may have one; returns how many.
    pub async fn discover(
        &self,
        hosts: impl IntoIterator<Item = IpAddr>,
        discovery: &Discovery,
    ) -> Result<usize, ServiceError> {
        let hosts = hosts.into_iter().map(|host| host.to_canonical());
        let hosts: Vec<IpAddr> = hosts.filter(|host| discovery.allows(*host)).collect();
        let mut new = 0;
        for hosts in hosts.chunks(TOGETHER) {
            new += self.discover_together(hosts, discovery).await?;
        }
        Ok(new)
    }

    async fn discover_together(
        &self,
        hosts: &[IpAddr],
        discovery: &Discovery,
    ) -> Result<usize, ServiceError> {
        let _alone = self.shared.changing.lock().await;
        let (directory, now) = (self.directory(), self.now());
        let mut change = Discovered::default();
        for host in hosts {
            match directory.route(&host.to_string()) {
                Some(path) if needs_to_be_seen(path, now) => change.seen.push(path.stored.id),
                Some(_) => {}
                None => change.new.push(path_of(*host)),
            }
        }
        // A path of this name is declared for other hosts, or for none.
        change
            .new
            .retain(|path| directory.named(&path.name).is_none());
        let declared = directory
            .paths()
            .filter(|path| path.stored.discovered.is_none());
        let room = PATHS_AT_MOST.saturating_sub(declared.count());
        let most = room.min(discovery.hosts_at_most as usize);
        change.new.truncate(most);
        let stay = most - change.new.len();
        change.gone = too_many(directory.paths(), &change.seen, stay);
        self.shared.apply(change, now).await
    }

    /// Forgets the undeclared paths that may no longer stay.
    pub async fn forget_discovered(&self, discovery: &Discovery) -> Result<(), ServiceError> {
        let _alone = self.shared.changing.lock().await;
        let (directory, now) = (self.directory(), self.now());
        let (stay, gone): (Vec<_>, Vec<_>) = directory
            .paths()
            .partition(|path| may_stay(path, now, discovery));
        let most = discovery.hosts_at_most as usize;
        let mut change = Discovered {
            gone: too_many(stay.into_iter(), &[], most),
            ..Discovered::default()
        };
        change.gone.extend(gone.iter().map(|path| path.stored.id));
        self.shared.apply(change, now).await?;
        Ok(())
    }

    /// Records that there was a transfer on the path.
    pub(super) async fn see_again(&self, path: &KnownPath) -> Result<(), ServiceError> {
        let now = self.now();
        if !needs_to_be_seen(path, now) {
            return Ok(());
        }
        let seen = Discovered {
            seen: vec![path.stored.id],
            ..Discovered::default()
        };
        let shared = Arc::clone(&self.shared);
        to_its_end(async move {
            let _alone = shared.changing.lock().await;
            shared.apply(seen, now).await
        })
        .await?;
        Ok(())
    }
}

impl Shared {
    /// Writes the change and updates the directory once; returns the number of new paths.
    async fn apply(&self, change: Discovered, now: Timestamp) -> Result<usize, ServiceError> {
        if change == Discovered::default() {
            return Ok(0);
        }
        let stored = self.store.discover(&change, now).await?;
        let mut new = Vec::with_capacity(stored.len());
        for stored in stored {
            new.push(Arc::new(KnownPath::new(stored)?));
        }
        let (seen, gone): (HashSet<_>, HashSet<_>) = (
            change.seen.into_iter().collect(),
            change.gone.into_iter().collect(),
        );
        let number = new.len();
        self.replace(|directory| {
            let stay = directory
                .paths()
                .filter(|path| !gone.contains(&path.stored.id));
            let stay = stay.map(|path| match seen.contains(&path.stored.id) {
                true => Arc::new(path.seen_at(now)),
                false => Arc::clone(path),
            });
            directory.renewed(stay.chain(new))
        });
        gone.into_iter()
            .for_each(|path| self.histories.forget(path));
        self.metrics.discovered.inc_by(number as u64);
        Ok(number)
    }
}

impl KnownPath {
    fn seen_at(&self, now: Timestamp) -> KnownPath {
        let mut path = self.clone();
        path.stored.discovered = Some(now);
        path
    }
}

/// Whether the time of the path's last transfer needs an update.
fn needs_to_be_seen(path: &KnownPath, now: Timestamp) -> bool {
    let seen = path.stored.discovered;
    seen.is_some_and(|seen| now.duration_since(seen) >= SEEN_AGAIN_AFTER)
}

/// The undeclared paths in excess of `most`, those with the oldest last transfer; `seen` have one now.
fn too_many<'a>(
    paths: impl Iterator<Item = &'a Arc<KnownPath>>,
    seen: &[PathId],
    most: usize,
) -> Vec<PathId> {
    let mut discovered: Vec<(bool, Timestamp, PathId)> = paths
        .filter_map(|path| {
            let id = path.stored.id;
            Some((seen.contains(&id), path.stored.discovered?, id))
        })
        .collect();
    let surplus = discovered.len().saturating_sub(most);
    if surplus == 0 {
        return Vec::new();
    }
    discovered.sort_unstable();
    discovered.truncate(surplus);
    discovered.into_iter().map(|(_, _, id)| id).collect()
}

/// Whether the path may stay at this time; a declared one always may.
fn may_stay(path: &KnownPath, now: Timestamp, discovery: &Discovery) -> bool {
    let Some(seen) = path.stored.discovered else {
        return true;
    };
    let days = i64::from(discovery.forget_after_days);
    let is_recent = now.duration_since(seen) <= SignedDuration::from_hours(24 * days);
    let mut hosts = path.config().hosts.iter();
    is_recent
        && hosts.all(|host| match host {
            HostPattern::Network(prefix) => discovery.allows(prefix.address()),
            HostPattern::Name(_) | HostPattern::Under(_) => true,
        })
}

fn path_of(host: IpAddr) -> PathConfig {
    let name = host.to_string().replace(':', "-");
    PathConfig::new(name, vec![HostPattern::Network(Prefix::host(host))])
}
