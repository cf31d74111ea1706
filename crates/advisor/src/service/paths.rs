//! Declaration of paths.

use std::sync::Arc;

use tokio::sync::MutexGuard;

use super::directory::KnownPath;
use super::{Service, Shared, addresses, to_its_end};
use crate::error::ServiceError;
use crate::host::HostPattern;
use crate::path::PathConfig;

/// Maximum number of paths: a log full of unknown hosts must not fill the memory.
pub(super) const PATHS_AT_MOST: usize = 20_000;

impl Service {
    /// Declares a path or changes its declaration, keeping its history; returns whether it is new.
    pub async fn put_path(&self, config: PathConfig) -> Result<bool, ServiceError> {
        config.settings()?;
        let shared = Arc::clone(&self.shared);
        to_its_end(async move { shared.put_path(config).await }).await
    }

    /// Removes a path and its history.
    pub async fn remove_path(&self, name: &str) -> Result<(), ServiceError> {
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        to_its_end(async move { shared.remove_path(&name).await }).await
    }

    /// Reads the paths again after another program changed some, and the histories of those that changed.
    pub async fn reload(&self) -> Result<(), ServiceError> {
        let _alone = self.shared.changing.lock().await;
        let before = self.directory();
        self.shared.read_paths().await?;
        let directory = self.directory();
        for path in directory.paths() {
            let id = path.stored.id;
            let known = before.numbered(id);
            if known.is_none_or(|known| known.stored.changed != path.stored.changed) {
                self.renew(id);
            }
        }
        for path in before.paths() {
            let id = path.stored.id;
            if directory.numbered(id).is_none() {
                self.shared.histories.forget(id);
            }
        }
        Ok(())
    }

    /// The number of the last change by another program from before the service first read the paths.
    pub fn changes_at_start(&self) -> i64 {
        self.shared.changes_at_start
    }

    /// Resolves the hosts that were declared by name, so that a request for an address finds its path.
    pub async fn resolve_names(&self) {
        let mut found = Vec::new();
        for path in self.directory().paths() {
            for host in &path.config().hosts {
                if let HostPattern::Name(name) = host {
                    let addresses = addresses(name).await.into_iter();
                    found.extend(addresses.map(|address| (address, path.stored.id)));
                }
            }
        }
        let shared = &self.shared;
        shared.replace(|directory| directory.with_addresses(&found));
    }
}

impl Shared {
    async fn put_path(&self, config: PathConfig) -> Result<bool, ServiceError> {
        let alone = self.changing.lock().await;
        let directory = self.directory();
        let known = directory.named(&config.name).map(|path| path.stored.id);
        if let Some((other, host)) = directory.conflict(known, &config.hosts) {
            let message = format!("{host} is on path {other} already");
            return Err(ServiceError::Conflict(message));
        }
        if known.is_none() && directory.len() >= PATHS_AT_MOST {
            let message = format!("there are {PATHS_AT_MOST} paths already");
            return Err(ServiceError::Conflict(message));
        }
        let stored = self.store.put_path(&config).await?;
        self.take_over(KnownPath::new(stored)?, alone).await;
        Ok(known.is_none())
    }

    /// Replaces a path whose declaration or hops have changed. This is reflected in the next answer if the path
    /// is in use.
    pub(super) async fn take_over(&self, path: KnownPath, alone: MutexGuard<'_, ()>) {
        let id = path.stored.id;
        self.replace(|directory| directory.with(path));
        self.histories.mark_stale(id);
        drop(alone);
        if self.histories.peek(id).is_some() {
            self.learn(id).await;
        }
    }

    async fn remove_path(&self, name: &str) -> Result<(), ServiceError> {
        let _alone = self.changing.lock().await;
        let id = self.path(name)?.stored.id;
        self.store.remove_path(id).await?;
        self.replace(|directory| directory.without(id));
        self.histories.forget(id);
        Ok(())
    }
}
