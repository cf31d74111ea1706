//! Clients of the operator's sockets, each with a place and a time.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Answers clients until it is dropped: `most` at a time, while further ones wait, and each for no longer than `patience`.
/// Who is too slow or goes away has no answer.
pub(super) async fn each<S, A>(
    mut accept: impl FnMut(&mut Context<'_>) -> Poll<io::Result<S>>,
    most: usize,
    patience: Duration,
    answer: impl Fn(S) -> A,
) where
    A: Future<Output = io::Result<()>> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(most));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let Ok(stream) = poll_fn(&mut accept).await else {
            // No descriptor is free.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let answered = timeout(patience, answer(stream));
        tokio::spawn(async move {
            let _ = answered.await;
            drop(place);
        });
    }
}
