//! Places for connections, sessions or checksum requests, limited in total and per origin.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Origin, Tally};

type Taken = Mutex<Tally>;

/// The places taken by each origin. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Places(Arc<Taken>);

/// A place, which is freed when this is dropped.
#[derive(Debug)]
pub struct Place {
    taken: Arc<Taken>,
    origin: Origin,
}

fn lock(taken: &Taken) -> MutexGuard<'_, Tally> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    /// Takes a place; `None` if this origin already has `own` places, or all origins have `all`.
    pub fn take(&self, origin: Origin, own: usize, all: usize) -> Option<Place> {
        let mut taken = lock(&self.0);
        let has = taken.of(origin);
        if has >= own as u64 || taken.total() >= all as u64 {
            return None;
        }
        taken.set(origin, has + 1);
        Some(Place {
            taken: Arc::clone(&self.0),
            origin,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        let has = taken.of(self.origin);
        taken.set(self.origin, has - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn an_origin_has_so_many_places_and_all_have_so_many() {
        let origin = |text: &str| Origin::from(text.parse::<IpAddr>().unwrap());
        let places = Places::default();
        let first = places.take(origin("2001:db8::1"), 2, 3).unwrap();
        let _second = places.take(origin("2001:db8::2"), 2, 3).unwrap();
        assert!(places.take(origin("2001:db8::3"), 2, 3).is_none());
        let _third = places.take(origin("192.0.2.1"), 2, 3).unwrap();
        assert!(places.take(origin("192.0.2.2"), 2, 3).is_none());
        drop(first);
        assert!(places.take(origin("192.0.2.2"), 2, 3).is_some());
    }
}
