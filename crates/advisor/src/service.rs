//! The service without its interfaces: paths, samples, advice.

mod advice;
mod directory;
mod discovery;
mod histories;
mod history;
mod hops;
mod learn;
mod learn_queue;
mod metrics;
mod paths;
mod record;
mod writer;

use std::sync::Arc;

use fairwind_advice::{History, Hop, Role, Sample};
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, RwLock};

use crate::clock::Clock;
use crate::error::ServiceError;
use crate::store::{Group, Kept, PathId, Store, StoredHop, Write, Written};

use histories::Histories;
use learn_queue::LearnQueue;
use writer::Writer;

pub(crate) use advice::addresses;
pub use directory::{Directory, KnownPath};
pub(crate) use histories::samples as samples_of;
pub use history::PathMeasurements;
pub use hops::{HopEntry, HopRole};
pub use metrics::{Interface, Metrics};
pub use record::{NewSample, SamplesAnswer, TransferAnswer};

/// The history used for advice goes back this far.
const LEARNS_FROM: SignedDuration = SignedDuration::from_hours(24 * 182);
/// Maximum number of samples per hop used for advice, the newest ones.
const SAMPLES_AT_MOST: usize = 500_000;
/// Default memory for histories, bytes.
pub const DEFAULT_HISTORY_BYTES: usize = 512 << 20;

/// The service. Clones are cheap and share everything.
#[derive(Clone, Debug)]
pub struct Service {
    shared: Arc<Shared>,
    writer: Writer,
    to_learn: LearnQueue,
}

struct Shared {
    store: Arc<Store>,
    clock: Clock,
    directory: RwLock<Arc<Directory>>,
    /// The number of the last change by another program that the first directory certainly includes.
    changes_at_start: i64,
    /// Held while the directory is replaced by one derived from it.
    replacing: Mutex<()>,
    /// Held from a change of the store, or a read of all its paths, until the directory reflects it, so that
    /// both see the same changes in the same order.
    changing: Arc<tokio::sync::Mutex<()>>,
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
    /// Starts the service over a store. Reads the paths, but none of their history.
    pub async fn start(
        store: Arc<Store>,
        clock: Clock,
        history_bytes: usize,
    ) -> Result<Service, ServiceError> {
        // Before the paths are read: what changes in between is read again.
        let changes_at_start = store.changes().await?;
        let shared = Arc::new(Shared {
            store,
            clock,
            directory: RwLock::default(),
            changes_at_start,
            replacing: Mutex::default(),
            changing: Arc::default(),
            histories: Histories::new(history_bytes),
            learning: tokio::sync::Mutex::default(),
            metrics: Metrics::default(),
        });
        shared.read_paths().await?;
        let learns = Arc::clone(&shared);
        let to_learn = LearnQueue::start(move |path| {
            let learns = Arc::clone(&learns);
            async move { learns.know(path).await }
        });
        let writer = Writer::start(Arc::clone(&shared), to_learn.clone());
        Ok(Service {
            shared,
            writer,
            to_learn,
        })
    }

    /// The current time of the service's clock.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// The service's clock.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// The service's counters.
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

    /// The store, for what concerns it alone.
    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The present paths.
    pub fn directory(&self) -> Arc<Directory> {
        self.shared.directory()
    }

    /// The path of this name.
    pub fn path(&self, name: &str) -> Result<Arc<KnownPath>, ServiceError> {
        self.shared.path(name)
    }

    /// The history on which advice for the path is based.
    pub async fn history(&self, path: &KnownPath) -> Result<Arc<History>, ServiceError> {
        self.shared.history(path).await
    }

    /// The path's history has changed in the store: the cached one is used until the new one is read and
    /// learned.
    fn renew(&self, path: PathId) {
        self.shared.histories.mark_stale(path);
        self.to_learn.ask(path);
    }
}

/// Completes the work even if the caller goes away: a client that disconnects must not leave the directory
/// without what the store has.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
) -> Result<T, ServiceError> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(ServiceError::ending()),
    })
}

impl Shared {
    fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.read())
    }

    fn path(&self, name: &str) -> Result<Arc<KnownPath>, ServiceError> {
        let path = self.directory().named(name).cloned();
        path.ok_or_else(|| ServiceError::NoPath(name.to_owned()))
    }

    /// Replaces the directory by one derived from it.
    fn replace(&self, change: impl FnOnce(&Directory) -> Directory) {
        let _alone = self.replacing.lock();
        let changed = Arc::new(change(&self.directory()));
        *self.directory.write() = changed;
    }

    /// Reads the paths from the store; one with an invalid declaration is left out.
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

    /// Makes what was written part of every later answer.
    fn see(&self, group: &Group, written: &Written, to_learn: &LearnQueue) {
        let Written::Done(kept) = written else {
            return;
        };
        for kept in kept {
            self.see_samples(group.path, kept, to_learn);
        }
        for write in &group.writes {
            match write {
                Write::Samples { .. } => {}
                Write::RoundTrip(one) => self.histories.see_rtt(group.path, one.rtt_ms),
                Write::Transfer { .. } => drop(self.metrics.transfers.inc()),
            }
        }
    }

    fn see_samples(&self, path: PathId, kept: &Kept, to_learn: &LearnQueue) {
        let Kept {
            hop,
            samples,
            refused,
        } = kept;
        self.metrics.count_samples(samples.len() as u64, refused);
        let is_new = self.know_hop(path, hop);
        let directory = self.directory();
        let Some(known) = directory.numbered(path) else {
            return;
        };
        let Some(role) = known.config().role_of(&hop.name) else {
            return;
        };
        if is_new {
            self.begin_hop(known, hop, role, samples, to_learn);
        } else if !samples.is_empty() {
            self.histories.append(path, &hop.name, samples);
        }
    }

    /// Adds the hop to the directory; returns whether it was unknown.
    fn know_hop(&self, path: PathId, hop: &StoredHop) -> bool {
        let known = self.directory().numbered(path).cloned();
        let Some(known) = known.filter(|known| !known.stored.hops.contains(hop)) else {
            return false;
        };
        let mut changed = KnownPath::clone(&known);
        // A hop of the same name but another number was removed by another program.
        changed.stored.hops.retain(|other| other.name != hop.name);
        changed.stored.hops.push(hop.clone());
        self.replace(|directory| directory.with(changed));
        true
    }

    /// Adds the first samples of a hop. Another program may have written earlier ones, so the history is also
    /// read again in the background.
    fn begin_hop(
        &self,
        path: &KnownPath,
        hop: &StoredHop,
        role: Role,
        kept: &[Sample],
        to_learn: &LearnQueue,
    ) {
        let mut begun = Hop::new(hop.name.clone(), histories::samples(kept)).with_role(role);
        if kept.len() <= learn::LEARNED_INLINE_AT_MOST {
            begun.learn(self.clock.now(), &path.settings);
        }
        self.histories.add_hop(path.stored.id, begun);
        self.histories.mark_stale(path.stored.id);
        to_learn.ask(path.stored.id);
    }
}
