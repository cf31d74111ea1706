//! Independent pieces of work, several at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Error;

/// How many run at a time where nothing else is said: one a core.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// What `work` makes of each item, in their order, `jobs` at a time. Items are begun in order.
///
/// # Errors
/// The first error in the order of the items; after it no further item is begun.
pub(crate) fn each<I: Sync, T: Send>(
    items: &[I],
    jobs: usize,
    work: impl Fn(&I) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<Result<T, Error>>>> =
        items.iter().map(|_| Mutex::new(None)).collect();
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let result = work(item);
            if result.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            *done[at].lock().expect("nobody panics with the lock") = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.clamp(1, items.len().max(1)) {
            scope.spawn(run);
        }
        run();
    });
    let results = done.into_iter();
    results
        .filter_map(|slot| slot.into_inner().expect("nobody panics with the lock"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        for jobs in [0, 1, 3, 200] {
            let squares = each(&items, jobs, |item| Ok(item * item)).unwrap();
            assert_eq!(
                squares,
                (0..100).map(|item| item * item).collect::<Vec<_>>()
            );
        }
        let none = each(&[], 2, |item: &u64| Ok(*item)).unwrap();
        assert!(none.is_empty());
    }

    #[test]
    fn the_first_error_ends_the_work() {
        let begun = AtomicUsize::new(0);
        let work = |item: &u64| {
            begun.fetch_add(1, Ordering::Relaxed);
            match item {
                3 => Err(Error::work("three")),
                item => Ok(*item),
            }
        };
        let items: Vec<u64> = (0..100).collect();
        assert_eq!(each(&items, 1, work).unwrap_err().to_string(), "three");
        assert_eq!(begun.load(Ordering::Relaxed), 4);
    }
}
