//! The newest test results of a path, for `EnableGetNetInfo`.

use fairwind_advice::Sample;
use fairwind_advice::wire::TransferReport;
use jiff::Timestamp;

use super::directory::KnownPath;
use super::{LEARNS_FROM, Service};
use crate::error::ServiceError;
use crate::store::RoundTrip;

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
    /// The newest result of every test of the path.
    pub async fn tests_of(&self, path: &KnownPath) -> Result<PathMeasurements, ServiceError> {
        let store = &self.shared.store;
        let mut hops = Vec::new();
        for hop in &path.stored.hops {
            let newest = store
                .samples(hop.id, Timestamp::UNIX_EPOCH, Timestamp::MAX, 1)
                .await?;
            hops.push((hop.name.clone(), newest.last().copied()));
        }
        let round_trips = store.round_trips(path.stored.id, 1).await?;
        let transfers = store.transfers(path.stored.id, 1).await?;
        Ok(PathMeasurements {
            hops,
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
