//! Reading a path's history.

use fairwind_advice::{History, Hop, Sample, Settings};
use jiff::Timestamp;

use super::{LEARNS_FROM, SAMPLES_AT_MOST, Service};
use crate::directory::KnownPath;
use crate::error::ServiceError;
use crate::histories;

/// Round-trip times that the smoothed one is made of.
const ROUND_TRIPS: u32 = 16;

impl Service {
    /// The path's history from the store.
    pub(super) async fn read_history(&self, path: &KnownPath) -> Result<History, ServiceError> {
        let store = &self.shared.store;
        let from = self
            .now()
            .checked_sub(LEARNS_FROM)
            .unwrap_or(Timestamp::MIN);
        let mut hops = Vec::new();
        for hop in &path.stored.hops {
            if path.config().rests_on(&hop.name) {
                let samples = store
                    .samples(hop.id, from, Timestamp::MAX, SAMPLES_AT_MOST)
                    .await?;
                let name = hop.name.clone();
                hops.push(learned(name, samples, self.now(), path.settings.clone()).await?);
            }
        }
        let round_trips = store.round_trips(path.stored.id, ROUND_TRIPS).await?;
        let oldest_first = round_trips.iter().rev();
        let rtt = oldest_first.fold(None, |rtt, one| histories::smoothed(rtt, one.rtt_ms));
        Ok(History { hops, rtt })
    }

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
            None => Err(ServiceError::Invalid(format!(
                "path {} has no hop {hop:?}",
                path.config().name
            ))),
        }
    }
}

/// A hop that has learned from its samples, which takes milliseconds and keeps nobody else waiting.
async fn learned(
    name: String,
    samples: Vec<Sample>,
    now: Timestamp,
    settings: Settings,
) -> Result<Hop, ServiceError> {
    let learning = tokio::task::spawn_blocking(move || {
        let mut hop = Hop::new(name, histories::samples(&samples));
        hop.learn(now, &settings);
        hop
    });
    learning
        .await
        .map_err(|error| ServiceError::Unavailable(error.to_string()))
}
