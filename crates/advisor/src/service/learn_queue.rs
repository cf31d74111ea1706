//! Learns histories in the background: requests name the paths that need it and do not wait.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::store::PathId;

/// Maximum number of waiting paths; further ones have to be requested again.
const WAITING: usize = 1024;

/// The handle to the one task that learns.
#[derive(Clone, Debug)]
pub(super) struct LearnQueue {
    paths: mpsc::Sender<PathId>,
    waiting: Arc<Mutex<HashSet<PathId>>>,
}

impl LearnQueue {
    /// Starts the task, which runs `learn` for one path after the other.
    pub(super) fn start<F>(mut learn: impl FnMut(PathId) -> F + Send + 'static) -> LearnQueue
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (paths, mut next) = mpsc::channel(WAITING);
        let waiting = Arc::new(Mutex::new(HashSet::new()));
        let queue = LearnQueue { paths, waiting };
        let waiting = Arc::clone(&queue.waiting);
        tokio::spawn(async move {
            while let Some(path) = next.recv().await {
                // A later request may refer to samples that this run no longer sees.
                waiting.lock().remove(&path);
                learn(path).await;
            }
        });
        queue
    }

    /// Requests that the path be learned soon; further requests until then have no effect.
    pub(super) fn ask(&self, path: PathId) {
        let mut waiting = self.waiting.lock();
        if waiting.insert(path) && self.paths.try_send(path).is_err() {
            waiting.remove(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_path_that_waits_already_is_learned_once() {
        let (learned, mut seen) = mpsc::unbounded_channel();
        let queue = LearnQueue::start(move |path: PathId| {
            let learned = learned.clone();
            async move { learned.send(path).unwrap() }
        });
        // The task does not run before this one waits.
        for path in [1, 2, 1, 1] {
            queue.ask(PathId(path));
        }
        assert_eq!(seen.recv().await, Some(PathId(1)));
        assert_eq!(seen.recv().await, Some(PathId(2)));
        queue.ask(PathId(3));
        assert_eq!(seen.recv().await, Some(PathId(3)));
    }
}
