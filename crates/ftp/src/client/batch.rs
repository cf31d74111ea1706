//! Many files: so many at the same time, each over a session of its own.

use std::collections::VecDeque;
use std::fs;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::clash::{self, Places};
use super::{ClientError, Connection, FileReport, Outcome, Retrieval, Storage};

/// A file to be moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// From the server.
    Get(Retrieval),
    /// To the server.
    Put(Storage),
}

impl Job {
    fn run(&self, connection: &mut Connection, number: usize) -> Result<FileReport, ClientError> {
        match self {
            Self::Get(retrieval) => retrieval.run(connection, number),
            Self::Put(storage) => storage.run(connection, number),
        }
    }

    /// Its size, if that is known before.
    fn size(&self) -> Option<u64> {
        match self {
            Self::Get(retrieval) => retrieval.size(),
            Self::Put(storage) => fs::metadata(&storage.source).ok().map(|facts| facts.len()),
        }
    }

    /// Where it goes; none if it is only written to.
    fn places(&self, connection: &Connection) -> Option<Places> {
        match self {
            Self::Get(retrieval) => retrieval.places(),
            Self::Put(storage) => Some(storage.places(connection.options().in_place)),
        }
    }

    fn name(&self, connection: &Connection) -> String {
        match self {
            Self::Get(retrieval) => connection
                .place()
                .with_path(retrieval.remote.clone())
                .to_string(),
            Self::Put(storage) => storage.source.display().to_string(),
        }
    }
}

/// Carries out all jobs; one that fails does not keep the others from being done. Two that would end in
/// the same place both fail, and nothing is moved for them.
///
/// # Errors
/// [`ClientError::Stopped`] alone; all other failures are in the outcome.
pub fn run(
    first: Connection,
    jobs: Vec<Job>,
    parallel: NonZeroUsize,
) -> Result<Outcome, ClientError> {
    let places: Vec<_> = jobs.iter().map(|job| job.places(&first)).collect();
    let mut outcome = Outcome::default();
    let mut free = Vec::new();
    for (job, clash) in jobs.into_iter().zip(clash::between(&places)) {
        match clash {
            None => free.push(job),
            Some(why) => outcome.fail(&job.name(&first), why),
        }
    }
    // What is written to an open file comes in order.
    let in_order = places.contains(&None);
    let workers = match in_order {
        true => 1,
        false => parallel.get().min(free.len()).max(1),
    };
    let progress = &first.options().progress;
    progress.expect(free.iter().filter_map(Job::size).sum());
    let shared = Shared {
        jobs: Mutex::new(free.into_iter().enumerate().collect()),
        outcome: Mutex::new(outcome),
    };
    let mut connections = vec![first];
    for _ in 1..workers {
        connections.push(connections[0].another());
    }
    let stopped = thread::scope(|scope| {
        let threads: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(number, connection)| {
                let shared = &shared;
                scope.spawn(move || shared.work(connection, number == 0))
            })
            .collect();
        let mut ended = threads.into_iter().map(|thread| thread.join());
        ended.try_for_each(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    stopped?;
    Ok(shared
        .outcome
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner))
}

struct Shared {
    jobs: Mutex<VecDeque<(usize, Job)>>,
    outcome: Mutex<Outcome>,
}

impl Shared {
    fn next(&self) -> Option<(usize, Job)> {
        self.jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }

    /// Does jobs until none is left. The first worker's failures are the user's; another one that gets
    /// no session leaves the work to the rest.
    fn work(&self, mut connection: Connection, is_first: bool) -> Result<(), ClientError> {
        if !is_first && let Err(error) = connection.session() {
            let progress = &connection.options().progress;
            progress.note(&format!("fewer files at the same time: {error}"));
            return Ok(());
        }
        while let Some((number, job)) = self.next() {
            let result = job.run(&mut connection, number);
            let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
            match result {
                Ok(report) => outcome.add(report),
                Err(ClientError::Stopped) => return Err(ClientError::Stopped),
                Err(error) => outcome.fail(&job.name(&connection), &error.to_string()),
            }
        }
        connection.close();
        Ok(())
    }
}
