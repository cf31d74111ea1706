//! The service without its interfaces: paths, samples, advice.

mod advice;
mod history;
mod hops;
mod learn;
mod paths;
mod record;
mod tests_of_path;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use fairwind_advice::History;
use jiff::{SignedDuration, Timestamp};

use crate::clock::Clock;
use crate::directory::{Directory, KnownPath};
use crate::error::ServiceError;
use crate::histories::Histories;
use crate::metrics::Metrics;
use crate::store::{PathId, Store, Write, Written};
use crate::teacher::Teacher;
use crate::writer::Writer;

pub use advice::AdviceAnswer;
pub(crate) use advice::addresses;
pub use hops::{HopEntry, HopRole};
pub use record::{NewSample, SamplesAnswer, TransferAnswer};
pub use tests_of_path::PathTests;

/// Advice rests on the samples of so many days before.
const LEARNS_FROM: SignedDuration = SignedDuration::from_hours(24 * 182);
/// Advice rests on so many samples of a hop at most, the newest.
const SAMPLES_AT_MOST: usize = 500_000;
/// Memory of histories unless told otherwise, bytes.
pub const DEFAULT_HISTORY_BYTES: usize = 512 << 20;

/// The service. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Service {
    shared: Arc<Shared>,
    writer: Writer,
    teacher: Teacher,
}

struct Shared {
    store: Arc<dyn Store>,
    clock: Clock,
    directory: RwLock<Arc<Directory>>,
    /// Held while the directory is replaced by one that was made from it.
    replacing: Mutex<()>,
    /// Held while a path is declared or removed, or all are read anew.
    declaring: tokio::sync::Mutex<()>,
    histories: Histories,
    /// Held while a history is learned.
    learning: tokio::sync::Mutex<()>,
    metrics: Metrics,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl Service {
    /// The service over a store. Reads the paths, but none of their history.
    pub async fn start(
        store: Arc<dyn Store>,
        clock: Clock,
        history_bytes: usize,
    ) -> Result<Service, ServiceError> {
        let shared = Arc::new(Shared {
            store,
            clock,
            directory: RwLock::default(),
            replacing: Mutex::default(),
            declaring: tokio::sync::Mutex::default(),
            histories: Histories::new(history_bytes),
            learning: tokio::sync::Mutex::default(),
            metrics: Metrics::default(),
        });
        shared.read_paths().await?;
        let (seen, took) = (Arc::clone(&shared), Arc::clone(&shared));
        let writer = Writer::start(
            Arc::clone(&shared.store),
            move |write, written| seen.see(write, written),
            move |seconds| took.metrics.count_transaction(seconds),
        );
        let learns = Arc::clone(&shared);
        let teacher = Teacher::start(move |path| {
            let learns = Arc::clone(&learns);
            async move { learns.learn(path).await }
        });
        Ok(Service {
            shared,
            writer,
            teacher,
        })
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// The counters in the Prometheus text format.
    pub fn metrics_text(&self) -> String {
        let clock = self.now().as_microsecond() as f64 * 1e-6;
        let shared = &self.shared;
        shared
            .metrics
            .text(self.directory().len(), shared.histories.bytes(), clock)
    }

    /// Whether the store answers.
    pub async fn check(&self) -> Result<(), ServiceError> {
        self.shared.store.changes().await?;
        Ok(())
    }

    /// The paths as they are now.
    pub fn directory(&self) -> Arc<Directory> {
        self.shared.directory()
    }

    /// The path of this name.
    pub fn path(&self, name: &str) -> Result<Arc<KnownPath>, ServiceError> {
        let directory = self.directory();
        let path = directory.named(name).cloned();
        path.ok_or_else(|| ServiceError::NoPath(name.to_owned()))
    }

    /// What advice for the path rests on.
    pub async fn history(&self, path: &KnownPath) -> Result<Arc<History>, ServiceError> {
        let id = path.stored.id;
        loop {
            let version = match self.shared.histories.get(id) {
                Ok(history) => return Ok(history),
                Err(version) => version,
            };
            // Hops may have come since the caller looked.
            let directory = self.directory();
            let path = directory.numbered(id).map_or(path, |known| known.as_ref());
            let history = Arc::new(self.read_history(path).await?);
            self.shared.metrics.count_history_read();
            if self
                .shared
                .histories
                .keep(id, version, Arc::clone(&history))
            {
                return Ok(history);
            }
        }
    }
}

impl Shared {
    fn directory(&self) -> Arc<Directory> {
        let directory = self
            .directory
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&directory)
    }

    /// Replaces the directory by one that is made from it.
    fn replace(&self, change: impl FnOnce(&Directory) -> Directory) {
        let _alone = self
            .replacing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let changed = Arc::new(change(&self.directory()));
        *self
            .directory
            .write()
            .unwrap_or_else(PoisonError::into_inner) = changed;
    }

    /// Reads the paths of the store; one whose declaration is not sound is left out.
    async fn read_paths(&self) -> Result<(), ServiceError> {
        let mut known = Vec::new();
        for stored in self.store.paths().await? {
            match KnownPath::new(stored) {
                Ok(path) => known.push(Arc::new(path)),
                Err(error) => tracing::error!("{error}; the path is left out"),
            }
        }
        self.replace(|directory| directory.renewed(known));
        Ok(())
    }

    /// What was written is from now on part of every answer.
    fn see(&self, write: &Write, written: &Written) {
        match (write, written) {
            (Write::Samples { path, .. }, Written::Samples { hop, kept, refused }) => {
                self.metrics.count_samples(kept.len() as u64, refused);
                self.know_hop(*path, hop);
                let rests = self
                    .directory()
                    .numbered(*path)
                    .is_some_and(|p| p.config().role_of(&hop.name).is_some());
                if rests && !kept.is_empty() {
                    self.histories.append(*path, &hop.name, kept);
                }
            }
            (Write::RoundTrip { path, rtt_ms, .. }, Written::Done) => {
                self.histories.see_rtt(*path, *rtt_ms);
            }
            (Write::Transfer { .. }, Written::Done) => self.metrics.count_transfer(),
            _ => {}
        }
    }

    fn know_hop(&self, path: PathId, hop: &crate::store::StoredHop) {
        let known = self.directory().numbered(path).cloned();
        let Some(known) = known.filter(|known| known.stored.hop(&hop.name).is_none()) else {
            return;
        };
        let mut changed = KnownPath::clone(&known);
        changed.stored.hops.push(hop.clone());
        self.replace(|directory| directory.with(changed));
        self.histories.forget(path);
    }
}
