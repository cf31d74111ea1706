//! Keeps track of failing writes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::store::StoreError;

/// The start of the present series of failures.
#[derive(Debug, Default)]
pub struct Failing(Mutex<Option<Timestamp>>);

impl Failing {
    /// Records that a transaction failed or succeeded.
    pub fn see(&self, error: Option<&StoreError>) {
        let mut since = self.lock();
        match error {
            Some(_) => drop(since.get_or_insert_with(Timestamp::now)),
            None => *since = None,
        }
    }

    /// The time of the first failure since the last successful write, if the last one failed; on the system's
    /// clock.
    pub fn since(&self) -> Option<Timestamp> {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
