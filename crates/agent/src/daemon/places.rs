//! How many connections to the agent's socket there are at a time: of each user so many that none keeps another out, and
//! nobody root.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of a user that are served at a time; others of the user wait.
const SERVED: usize = 16;
/// Connections that are served at a time of all users together who may not change what the agent does.
const SERVED_OF_MANY: usize = 32;
/// Connections of a user with those that wait; others of the user are refused.
const ADMITTED: usize = 64;
/// Connections of all those users together with those that wait.
pub(super) const ADMITTED_OF_MANY: usize = 128;

/// The connections that there are.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// For the users who may not change what the agent does.
    many: Arc<Semaphore>,
    admitted: Arc<Mutex<BTreeMap<u32, User>>>,
}

/// A user who has connected.
#[derive(Debug)]
struct User {
    connections: usize,
    may_change: bool,
    served: Arc<Semaphore>,
}

impl Places {
    pub(super) fn new() -> Places {
        Places {
            many: Arc::new(Semaphore::new(SERVED_OF_MANY)),
            admitted: Arc::default(),
        }
    }

    fn admitted(&self) -> MutexGuard<'_, BTreeMap<u32, User>> {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets another connection of the user wait for its turn; none if there are too many.
    pub(super) fn admit(&self, user: u32, may_change: bool) -> Option<Admitted> {
        let mut admitted = self.admitted();
        let of_many = admitted.values().filter(|user| !user.may_change);
        let of_many: usize = of_many.map(|user| user.connections).sum();
        if !may_change && of_many >= ADMITTED_OF_MANY {
            return None;
        }
        let entry = admitted.entry(user).or_insert_with(|| User {
            connections: 0,
            may_change,
            served: Arc::new(Semaphore::new(SERVED)),
        });
        if entry.connections >= ADMITTED {
            return None;
        }
        entry.connections += 1;
        Some(Admitted {
            places: self.clone(),
            user,
            turns: [
                Some(Arc::clone(&entry.served)),
                (!may_change).then(|| Arc::clone(&self.many)),
            ],
        })
    }
}

/// A connection, until this is dropped.
#[derive(Debug)]
pub(super) struct Admitted {
    places: Places,
    user: u32,
    turns: [Option<Arc<Semaphore>>; 2],
}

impl Admitted {
    /// Waits until it may be served, as long as this is kept. A user takes no place of others before one of the user's own.
    pub(super) async fn turn(&self) -> Vec<OwnedSemaphorePermit> {
        let mut turn = Vec::new();
        for places in self.turns.iter().flatten() {
            let place = Arc::clone(places).acquire_owned().await;
            turn.push(place.expect("nobody closes it"));
        }
        turn
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut admitted = self.places.admitted();
        if let Some(user) = admitted.get_mut(&self.user) {
            user.connections -= 1;
            if user.connections == 0 {
                admitted.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    const ROOT: u32 = 0;

    fn admit(places: &Places, user: u32, connections: usize) -> Vec<Admitted> {
        let admit = || places.admit(user, user == ROOT);
        std::iter::repeat_with(|| admit().unwrap())
            .take(connections)
            .collect()
    }

    /// The turns of those that do not have to wait.
    fn served(admitted: &[Admitted]) -> Vec<Vec<OwnedSemaphorePermit>> {
        let now = |one: &Admitted| {
            let mut context = Context::from_waker(Waker::noop());
            match pin!(one.turn()).poll(&mut context) {
                std::task::Poll::Ready(turn) => Some(turn),
                std::task::Poll::Pending => None,
            }
        };
        admitted.iter().filter_map(now).collect()
    }

    #[test]
    fn nobody_is_kept_out_by_another_user_and_root_by_none() {
        let places = Places::new();
        let one = admit(&places, 1000, 60);
        let of_one = served(&one);
        assert_eq!(of_one.len(), 16);
        let other = admit(&places, 1001, 60);
        let of_other = served(&other);
        assert_eq!(of_other.len(), 16);
        let third = admit(&places, 1002, 1);
        assert_eq!(served(&third).len(), 0);
        let root = admit(&places, ROOT, 1);
        assert_eq!(served(&root).len(), 1);
        drop((of_one, one));
        assert_eq!(served(&third).len(), 1);
    }

    #[test]
    fn so_many_wait_and_others_are_refused() {
        let places = Places::new();
        let mut one = admit(&places, 1000, 64);
        assert!(places.admit(1000, false).is_none());
        let _other = admit(&places, 1001, 64);
        assert!(places.admit(1002, false).is_none());
        let _root = admit(&places, ROOT, 64);
        one.pop();
        assert!(places.admit(1002, false).is_some());
        drop(one);
        assert_eq!(places.admitted().len(), 2);
    }
}
