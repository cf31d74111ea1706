//! Access to a state directory for commands, with or without a running service.

use std::path::Path;
use std::sync::Arc;

use fairwind_advice::{Sample, Samples};
use jiff::Timestamp;
use tokio::runtime::Runtime;

use crate::clock::Clock;
use crate::error::ServiceError;
use crate::host::HostPattern;
use crate::path::PathConfig;
use crate::run::RunError;
use crate::service::{HopEntry, KnownPath, SamplesAnswer, Service, samples_of};
use crate::state;
use crate::store::Store;

/// A command hardly needs a cache of histories.
const HISTORY_BYTES: usize = 1 << 20;

/// Paths and history in a state directory. A service that runs in it sees changes within seconds.
#[derive(Debug)]
pub struct Local {
    runtime: Runtime,
    service: Service,
    store: Arc<Store>,
}

impl Local {
    /// Opens the state directory, by default the usual one. Samples later than the clock are refused.
    pub fn open(state: Option<&Path>, clock: Clock) -> Result<Local, RunError> {
        let directory = state::directory(state)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let opened = async {
            let store = Store::open_beside(&state::database(&directory)).await;
            let store = Arc::new(store.map_err(ServiceError::from)?);
            let service = Service::start(store.clone(), clock, HISTORY_BYTES).await?;
            Ok::<_, RunError>((service, store))
        };
        let (service, store) = runtime.block_on(opened)?;
        Ok(Local {
            runtime,
            service,
            store,
        })
    }

    /// All paths, in the order of their names.
    pub fn paths(&self) -> Vec<PathConfig> {
        let directory = self.service.directory();
        directory
            .paths()
            .map(|path| path.config().clone())
            .collect()
    }

    /// The path of this name.
    pub fn path(&self, name: &str) -> Result<Arc<KnownPath>, RunError> {
        Ok(self.service.path(name)?)
    }

    /// The path of this name, declared if it does not exist; these hosts are added to those that it has.
    pub fn path_to(&self, name: &str, hosts: &[HostPattern]) -> Result<Arc<KnownPath>, RunError> {
        let known = self.service.directory().named(name).cloned();
        let mut config = match &known {
            Some(path) => path.config().clone(),
            None => PathConfig::new(name, Vec::new()),
        };
        for host in hosts {
            if !config.hosts.contains(host) {
                config.hosts.push(host.clone());
            }
        }
        if known.is_none_or(|path| *path.config() != config) {
            self.put_path(config)?;
        }
        self.path(name)
    }

    /// Declares a path or changes its declaration; returns whether it is new.
    pub fn put_path(&self, config: PathConfig) -> Result<bool, RunError> {
        Ok(self.runtime.block_on(self.service.put_path(config))?)
    }

    /// Removes a path and its history.
    pub fn remove_path(&self, name: &str) -> Result<(), RunError> {
        Ok(self.runtime.block_on(self.service.remove_path(name))?)
    }

    /// The hops of a path.
    pub fn hops(&self, path: &KnownPath) -> Result<Vec<HopEntry>, RunError> {
        Ok(self.runtime.block_on(self.service.hops(path))?)
    }

    /// Removes a hop that is not declared, and its history.
    pub fn remove_hop(&self, path: &str, hop: &str) -> Result<(), RunError> {
        self.runtime.block_on(self.service.remove_hop(path, hop))?;
        Ok(())
    }

    /// Adds a recording to a hop's history; by default to the path's first hop.
    pub fn fill(
        &self,
        path: &KnownPath,
        hop: Option<&str>,
        samples: Vec<Sample>,
    ) -> Result<SamplesAnswer, RunError> {
        let hop = hop.unwrap_or(path.config().default_hop());
        let filling = self.service.fill(path, hop, samples);
        Ok(self.runtime.block_on(filling)?)
    }

    /// All hops of the path with their samples.
    pub fn samples(&self, path: &KnownPath) -> Result<Vec<(String, Samples)>, RunError> {
        let (from, to) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let hops = self.service.samples(path, from, to, usize::MAX);
        let hops = self.runtime.block_on(hops)?.into_iter();
        Ok(hops
            .map(|(hop, samples)| (hop, samples_of(&samples)))
            .collect())
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.runtime.block_on(self.store.close());
    }
}
