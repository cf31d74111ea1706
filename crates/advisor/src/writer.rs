//! Group commit: writes that arrive while a transaction is in progress go into the next one together.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Mutex, mpsc, oneshot};

use crate::error::ServiceError;
use crate::store::{Store, Write, Written};

/// Maximum number of waiting groups.
const WAITING: usize = 1024;
/// Writes per transaction, unless a single group has more.
const TOGETHER: usize = 512;

/// A group of writes and the channel for its outcome.
struct Job {
    writes: Vec<Write>,
    answer: oneshot::Sender<Result<Vec<Written>, String>>,
}

/// The handle to the one task that writes.
#[derive(Clone, Debug)]
pub struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// Starts the task. `seen` is called for each write done, before its caller is answered; `alone` is held
    /// from the transaction until then. `took` gets the seconds that each took.
    pub fn start(
        store: Arc<dyn Store>,
        alone: Arc<Mutex<()>>,
        mut seen: impl FnMut(&Write, &Written) + Send + 'static,
        mut took: impl FnMut(f64) + Send + 'static,
    ) -> Writer {
        let (jobs, mut waiting) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            while let Some(first) = waiting.recv().await {
                let group = group(first, &mut waiting);
                let _alone = alone.lock().await;
                let begin = Instant::now();
                transact(store.as_ref(), group, &mut seen).await;
                took(begin.elapsed().as_secs_f64());
            }
        });
        Writer { jobs }
    }

    /// Writes a group; on return it is on stable storage and known to the next advice.
    pub async fn write(&self, writes: Vec<Write>) -> Result<Vec<Written>, ServiceError> {
        let ending = || ServiceError::Unavailable("the service is ending".to_owned());
        let (answer, answered) = oneshot::channel();
        let job = Job { writes, answer };
        self.jobs.send(job).await.map_err(|_| ending())?;
        let written = answered.await.map_err(|_| ending())?;
        written.map_err(ServiceError::Unavailable)
    }
}

fn group(first: Job, waiting: &mut mpsc::Receiver<Job>) -> Vec<Job> {
    let mut writes = first.writes.len();
    let mut group = vec![first];
    while writes < TOGETHER {
        let Ok(job) = waiting.try_recv() else {
            break;
        };
        writes += job.writes.len();
        group.push(job);
    }
    group
}

async fn transact(store: &dyn Store, group: Vec<Job>, seen: &mut impl FnMut(&Write, &Written)) {
    let (groups, waiting): (Vec<_>, Vec<_>) = group
        .into_iter()
        .map(|job| (job.writes, job.answer))
        .unzip();
    let outcomes = match store.write(&groups).await {
        Ok(outcomes) => outcomes,
        Err(error) => waiting.iter().map(|_| Err(error.clone())).collect(),
    };
    let mut told = None;
    for ((writes, answer), outcome) in groups.iter().zip(waiting).zip(outcomes) {
        let outcome = outcome.map_err(|error| format!("nothing was written: {error}"));
        match &outcome {
            Ok(written) => {
                let pairs = writes.iter().zip(written);
                pairs.for_each(|(write, written)| seen(write, written));
            }
            // Logged once for groups that share the same error.
            Err(problem) if told.as_ref() != Some(problem) => {
                tracing::error!("{problem}");
                told = Some(problem.clone());
            }
            Err(_) => {}
        }
        // The writes are done even if the caller has stopped waiting.
        let _ = answer.send(outcome);
    }
}
