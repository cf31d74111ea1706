//! Group commit: writes that arrive while a transaction is in progress go into the next one together.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use super::Shared;
use super::learn_queue::LearnQueue;
use crate::error::ServiceError;
use crate::store::{Group, GroupWritten, StoreError, Written};

/// Maximum number of waiting groups.
const WAITING: usize = 1024;
/// Writes per transaction, unless a single group has more.
const TOGETHER: usize = 512;

/// A group of writes and the channel for its outcome.
type Job = (Group, oneshot::Sender<GroupWritten>);

/// The handle to the one task that writes.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// Starts the task. What is written is known to the service before its caller is answered.
    pub(super) fn start(shared: Arc<Shared>, to_learn: LearnQueue) -> Writer {
        let (jobs, mut waiting) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            while let Some(first) = waiting.recv().await {
                let jobs = together(first, &mut waiting);
                let _alone = shared.changing.lock().await;
                let begin = Instant::now();
                transact(&shared, jobs, &to_learn).await;
                let seconds = begin.elapsed().as_secs_f64();
                shared.metrics.transaction_seconds.observe(seconds);
            }
        });
        Writer { jobs }
    }

    /// Writes a group; on return it is on stable storage and known to the next advice.
    pub(super) async fn write(&self, group: Group) -> Result<Written, ServiceError> {
        let (answer, answered) = oneshot::channel();
        let sent = self.jobs.send((group, answer)).await;
        sent.map_err(|_| ServiceError::ending())?;
        let written = answered.await.map_err(|_| ServiceError::ending())?;
        written.map_err(|error| ServiceError::Unavailable(nothing_written(&error)))
    }
}

fn nothing_written(error: &StoreError) -> String {
    format!("nothing was written: {error}")
}

/// The first job and those that wait already, up to [`TOGETHER`] writes.
fn together(first: Job, waiting: &mut mpsc::Receiver<Job>) -> Vec<Job> {
    let mut writes = first.0.writes.len();
    let mut jobs = vec![first];
    while writes < TOGETHER {
        let Ok(job) = waiting.try_recv() else {
            break;
        };
        writes += job.0.writes.len();
        jobs.push(job);
    }
    jobs
}

async fn transact(shared: &Shared, jobs: Vec<Job>, to_learn: &LearnQueue) {
    let (groups, waiting): (Vec<Group>, Vec<_>) = jobs.into_iter().unzip();
    let outcomes = match shared.store.write(&groups).await {
        Ok(outcomes) => outcomes,
        Err(error) => vec![Err(error); groups.len()],
    };
    let mut logged = None;
    for ((group, answer), outcome) in groups.iter().zip(waiting).zip(outcomes) {
        match &outcome {
            Ok(written) => shared.see(group, written, to_learn),
            // Logged once for groups that share the same error.
            Err(error) if logged.as_ref() != Some(error) => {
                tracing::error!("{}", nothing_written(error));
                logged = Some(error.clone());
            }
            Err(_) => {}
        }
        // The writes are done even if the caller has stopped waiting.
        let _ = answer.send(outcome);
    }
}
