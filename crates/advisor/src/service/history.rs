//! Reading a path's history, and forgetting what is old of it.

use std::sync::Arc;

use fairwind_advice::wire::TransferReport;
use fairwind_advice::{History, Hop, Sample};
use jiff::{SignedDuration, Timestamp};

use super::directory::KnownPath;
use super::histories;
use super::learn::LEARNED_INLINE_AT_MOST;
use super::{LEARNS_FROM, SAMPLES_AT_MOST, Service, Shared};
use crate::error::ServiceError;
use crate::store::RoundTrip;

/// Number of round-trip times from which the smoothed one is computed.
const ROUND_TRIPS: u32 = 16;

impl Shared {
    /// The history on which advice for the path is based, from memory or from the store.
    pub(super) async fn history(&self, path: &KnownPath) -> Result<Arc<History>, ServiceError> {
        let id = path.stored.id;
        loop {
            let version = match self.histories.get(id) {
                Ok(history) => return Ok(history),
                Err(version) => version,
            };
            // The path may have got hops, or have been removed, since the caller looked.
            let known = self.numbered(path)?;
            let history = Arc::new(self.read_history(&known).await?);
            let is_kept = self.histories.keep(id, version, Arc::clone(&history));
            // If the path was removed during the read, its history was forgotten before this one was cached.
            if let Err(error) = self.numbered(path) {
                self.histories.forget(id);
                return Err(error);
            }
            if is_kept {
                return Ok(history);
            }
        }
    }

    /// The path in its present state.
    fn numbered(&self, path: &KnownPath) -> Result<Arc<KnownPath>, ServiceError> {
        let known = self.directory().numbered(path.stored.id).cloned();
        known.ok_or_else(|| ServiceError::NoPath(path.config().name.clone()))
    }

    /// Reads the path's history from the store.
    pub(super) async fn read_history(&self, path: &KnownPath) -> Result<History, ServiceError> {
        self.metrics.histories_read.inc();
        let store = &self.store;
        let now = self.clock.now();
        let from = now.checked_sub(LEARNS_FROM).unwrap_or(Timestamp::MIN);
        // Samples that a fast clock has left in the store would otherwise keep new ones out.
        let behind = now.checked_add(SignedDuration::from_micros(1));
        let to = behind.unwrap_or(Timestamp::MAX);
        let mut hops = Vec::new();
        for hop in &path.stored.hops {
            if let Some(role) = path.config().role_of(&hop.name) {
                let samples = store.samples(hop.id, from, to, SAMPLES_AT_MOST).await?;
                let mut hop = Hop::new(hop.name.clone(), histories::samples(&samples));
                hop = hop.with_role(role);
                if samples.len() <= LEARNED_INLINE_AT_MOST {
                    hop.learn(now, &path.settings);
                }
                hops.push(hop);
            }
        }
        let round_trips = store.round_trips(path.stored.id, ROUND_TRIPS).await?;
        let oldest_first = round_trips.iter().rev();
        let rtt = oldest_first.fold(None, |rtt, one| histories::smoothed(rtt, one.rtt_ms));
        Ok(History { hops, rtt })
    }
}

/// The newest results of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct PathMeasurements {
    /// Every hop with its newest test.
    pub hops: Vec<(String, Option<Sample>)>,
    /// The newest round-trip time.
    pub round_trip: Option<RoundTrip>,
    /// The newest reported transfer, with its end time.
    pub transfer: Option<(Timestamp, TransferReport)>,
}

impl Service {
    /// The samples of each of the path's hops with `from <= time < to`, the newest `most`.
    pub async fn samples(
        &self,
        path: &KnownPath,
        from: Timestamp,
        to: Timestamp,
        most: usize,
    ) -> Result<Vec<(String, Vec<Sample>)>, ServiceError> {
        let mut hops = Vec::new();
        for hop in &path.stored.hops {
            let samples = self.shared.store.samples(hop.id, from, to, most).await?;
            hops.push((hop.name.clone(), samples));
        }
        Ok(hops)
    }

    /// The newest result of every test of the path.
    pub async fn tests_of(&self, path: &KnownPath) -> Result<PathMeasurements, ServiceError> {
        let store = &self.shared.store;
        let hops = self.samples(path, Timestamp::UNIX_EPOCH, Timestamp::MAX, 1);
        let hops = hops.await?.into_iter();
        let round_trips = store.round_trips(path.stored.id, 1).await?;
        let transfers = store.transfers(path.stored.id, 1).await?;
        Ok(PathMeasurements {
            hops: hops
                .map(|(hop, newest)| (hop, newest.last().copied()))
                .collect(),
            round_trip: round_trips.into_iter().next(),
            transfer: transfers.into_iter().next(),
        })
    }

    /// Drops samples in memory that are too old to be used for advice.
    pub fn forget_old_samples(&self) {
        if let Ok(oldest) = self.now().checked_sub(LEARNS_FROM) {
            self.shared.histories.forget_before(oldest);
        }
    }

    /// Deletes round-trip times and transfers before `oldest`, of all paths.
    pub async fn forget_before(&self, oldest: Timestamp) -> Result<(), ServiceError> {
        for path in self.directory().paths() {
            self.shared
                .store
                .forget_before(path.stored.id, oldest)
                .await?;
        }
        Ok(())
    }
}
