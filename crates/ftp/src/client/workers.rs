//! Workers that share a queue, each in a thread of its own.

use std::thread;

use super::ClientError;

/// Has all of them work, each with its number, and waits for all.
///
/// # Errors
/// The first failure, in the order of the workers.
pub(super) fn work<W: Send>(
    workers: Vec<W>,
    act: impl Fn(W, usize) -> Result<(), ClientError> + Sync,
) -> Result<(), ClientError> {
    thread::scope(|scope| {
        let act = &act;
        let numbered = workers.into_iter().enumerate();
        let threads: Vec<_> = numbered
            .map(|(number, worker)| scope.spawn(move || act(worker, number)))
            .collect();
        let mut ended = threads.into_iter().map(|thread| thread.join());
        ended.try_for_each(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
