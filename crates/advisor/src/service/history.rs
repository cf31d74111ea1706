//! Reading a path's history.

use std::sync::Arc;

use fairwind_advice::{History, Hop, Sample};
use jiff::{SignedDuration, Timestamp};

use super::directory::KnownPath;
use super::histories;
use super::learn::LEARNED_INLINE_AT_MOST;
use super::{LEARNS_FROM, SAMPLES_AT_MOST, Service, Shared};
use crate::error::ServiceError;

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

impl Service {
    /// The samples of a path's hop with `from <= time < to`, the newest `most`.
    pub async fn samples(
        &self,
        path: &KnownPath,
        hop: &str,
        from: Timestamp,
        to: Timestamp,
        most: usize,
    ) -> Result<Vec<Sample>, ServiceError> {
        match path.stored.hop(hop) {
            Some(hop) => Ok(self.shared.store.samples(hop.id, from, to, most).await?),
            None => Err(ServiceError::NoHop {
                path: path.config().name.clone(),
                hop: hop.to_owned(),
            }),
        }
    }
}
