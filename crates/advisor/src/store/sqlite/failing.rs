//! Whether writes fail, and since when.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::store::StoreError;

/// The beginning of the present row of failures.
#[derive(Debug, Default)]
pub struct Failing(Mutex<Option<Timestamp>>);

impl Failing {
    /// A transaction has failed, or succeeded.
    pub fn see(&self, error: Option<&StoreError>) {
        let mut since = self.lock();
        match error {
            Some(_) => drop(since.get_or_insert_with(Timestamp::now)),
            None => *since = None,
        }
    }

    /// Since when no write has succeeded, if the last one failed; on the system's clock.
    pub fn since(&self) -> Option<Timestamp> {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
