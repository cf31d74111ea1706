//! Batches of files: up to a given number at the same time, each over its own session.

use std::collections::VecDeque;
use std::fs;
use std::num::NonZeroUsize;

use parking_lot::Mutex;

use super::ahead::Upcoming;
use super::clash::{self, Places};
use super::small_files::{SmallFile, Supply};
use super::{ClientError, Connection, FileReport, Outcome, Place, Retrieval, Storage, workers};

/// A file to transfer.
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

    /// Whether the file is at its place already, with the same size and time.
    ///
    /// # Errors
    /// If the server has to be asked, and the connection fails or the name cannot be sent.
    pub fn is_done(&self, connection: &mut Connection) -> Result<bool, ClientError> {
        match self {
            Self::Get(retrieval) => retrieval.is_done(connection),
            Self::Put(storage) => storage.is_done(connection),
        }
    }

    /// The file's size in bytes, if it is known before the transfer.
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::Get(retrieval) => retrieval.size(),
            Self::Put(storage) => fs::metadata(&storage.source).ok().map(|facts| facts.len()),
        }
    }

    /// Where the file goes; `None` if it is written to a stream or a device.
    fn places(&self, connection: &Connection) -> Option<Places> {
        match self {
            Self::Get(retrieval) => retrieval.places(),
            Self::Put(storage) => Some(storage.places(connection.options().in_place)),
        }
    }

    /// What it is called where its failure is told.
    fn name(&self, place: &Place) -> String {
        match self {
            Self::Get(retrieval) => place.with_path(retrieval.remote.clone()).to_string(),
            Self::Put(storage) => storage.source.display().to_string(),
        }
    }
}

/// Carries out all jobs; a failed job does not stop the others, unless the server is lost: then those that are left fail, too.
/// Jobs that would end in the same place all fail, and nothing is transferred for them.
///
/// # Errors
/// Only [`ClientError::Stopped`]; every other failure is recorded in the outcome.
pub fn run(
    first: Connection,
    jobs: Vec<Job>,
    parallel: NonZeroUsize,
) -> Result<Outcome, ClientError> {
    let place = first.place().clone();
    let places: Vec<_> = jobs.iter().map(|job| job.places(&first)).collect();
    let mut outcome = Outcome::default();
    let mut free = Vec::new();
    for (job, clash) in jobs.into_iter().zip(clash::between(&places)) {
        match clash {
            None => free.push(job),
            Some(why) => outcome.fail(&job.name(&place), why),
        }
    }
    // Writes to an open stream have to stay in order.
    let in_order = places.contains(&None);
    let count = if in_order {
        1
    } else {
        parallel.get().min(free.len()).max(1)
    };
    let progress = &first.options().progress;
    progress.expect(free.iter().filter_map(Job::size).sum());
    let mut connections = vec![first];
    let shares = shares(&mut connections[0]);
    let shared = Shared {
        jobs: Mutex::new(Jobs::new(free, count, shares)),
        outcome: Mutex::new(outcome),
        lost: Mutex::default(),
    };
    for _ in 1..count {
        connections.push(connections[0].another());
    }
    workers::work(connections, |connection, number| {
        shared.work(connection, number)
    })?;
    let mut outcome = shared.outcome.into_inner();
    if let Some(why) = shared.lost.into_inner() {
        for (_, job) in shared.jobs.into_inner().left() {
            outcome.fail(&job.name(&place), &why);
        }
    }
    Ok(outcome)
}

/// Jobs that no worker has begun.
struct Jobs {
    /// Those that may come through one data connection.
    small: VecDeque<SmallFile>,
    waiting: VecDeque<(usize, Job)>,
    /// The job that each worker has announced to its server. Others take it rather than have nothing to do.
    announced: Vec<Option<(usize, Job)>>,
}

impl Jobs {
    fn new(jobs: Vec<Job>, workers: usize, shares: bool) -> Self {
        let mut all = Self {
            small: VecDeque::new(),
            waiting: VecDeque::new(),
            announced: (0..workers).map(|_| None).collect(),
        };
        for (number, job) in jobs.into_iter().enumerate() {
            let small = match &job {
                Job::Get(retrieval) if shares => SmallFile::of(number, retrieval),
                Job::Get(_) | Job::Put(_) => None,
            };
            match small {
                Some(file) => all.small.push_back(file),
                None => all.waiting.push_back((number, job)),
            }
        }
        // One has nothing to share with.
        if all.small.len() == 1 {
            all.waiting.extend(all.small.drain(..).map(Into::into));
        }
        all
    }

    /// The next job of a worker, which announces the one after it.
    fn next(&mut self, worker: usize) -> Option<((usize, Job), Option<&Job>)> {
        let own = self.announced[worker].take();
        let job = own.or_else(|| self.waiting.pop_front()).or_else(|| {
            let others = self.announced.iter_mut();
            let other = others.filter_map(Option::take).next();
            other.or_else(|| self.small.pop_front().map(Into::into))
        })?;
        self.announced[worker] = self.waiting.pop_front();
        let next = self.announced[worker].as_ref().map(|(_, job)| job);
        Some((job, next))
    }

    /// Those that nobody has begun.
    fn left(self) -> impl Iterator<Item = (usize, Job)> {
        let announced = self.announced.into_iter().flatten();
        let small = self.small.into_iter().map(Into::into);
        announced.chain(self.waiting).chain(small)
    }
}

impl From<SmallFile> for (usize, Job) {
    fn from(file: SmallFile) -> Self {
        (file.number, Job::Get(file.retrieval))
    }
}

/// Whether small files share a data connection in the current session.
fn shares(connection: &mut Connection) -> bool {
    let session = connection.opened();
    session.is_some_and(|session| session.shares_data_connections())
}

struct Shared {
    jobs: Mutex<Jobs>,
    outcome: Mutex<Outcome>,
    /// Why a worker has lost the server.
    lost: Mutex<Option<String>>,
}

impl Shared {
    /// The next job; the connection learns which file is likely to follow.
    fn next(&self, worker: usize, connection: &mut Connection) -> Option<(usize, Job)> {
        let mut jobs = self.jobs.lock();
        let (job, next) = jobs.next(worker)?;
        connection.expect(match next {
            Some(Job::Get(retrieval)) => Some(Upcoming::Download(retrieval.remote.clone())),
            Some(Job::Put(storage)) => {
                let places = storage.places(connection.options().in_place);
                Some(Upcoming::Upload(places.partial))
            }
            None => None,
        });
        Some(job)
    }

    /// Runs jobs until none is left. A failure of the first worker to log in is reported for its jobs; any other worker that
    /// gets no session, and each that has lost the server, leaves its jobs to the rest.
    fn work(&self, mut connection: Connection, worker: usize) -> Result<(), ClientError> {
        if worker > 0
            && let Err(error) = connection.session()
        {
            let progress = &connection.options().progress;
            progress.note(&format!("fewer files at the same time: {error}"));
            return Ok(());
        }
        self.fetch_small(&mut connection)?;
        loop {
            if let Some(why) = connection.lost() {
                *self.lost.lock() = Some(why.to_owned());
                return Ok(());
            }
            let Some((number, job)) = self.next(worker, &mut connection) else {
                break;
            };
            self.run(&mut connection, number, &job)?;
        }
        connection.close();
        Ok(())
    }

    fn run(
        &self,
        connection: &mut Connection,
        number: usize,
        job: &Job,
    ) -> Result<(), ClientError> {
        let result = job.run(connection, number);
        let mut outcome = self.outcome.lock();
        match result {
            Ok(report) => outcome.add(report),
            Err(ClientError::Stopped) => return Err(ClientError::Stopped),
            Err(error) => outcome.fail(&job.name(connection.place()), &error.to_string()),
        }
        Ok(())
    }

    /// Fetches small files as long as there are any.
    fn fetch_small(&self, connection: &mut Connection) -> Result<(), ClientError> {
        while shares(connection) && !self.jobs.lock().small.is_empty() {
            let rest = connection.fetch_small(&mut &*self)?;
            let mut jobs = self.jobs.lock();
            for file in rest.unmoved.into_iter().rev() {
                jobs.small.push_front(file);
            }
            drop(jobs);
            for file in rest.odd {
                let (number, job) = file.into();
                self.run(connection, number, &job)?;
            }
            if rest.is_futile {
                break;
            }
        }
        Ok(())
    }
}

impl Supply for &Shared {
    fn next(&mut self) -> Option<SmallFile> {
        self.jobs.lock().small.pop_front()
    }

    fn done(&mut self, report: FileReport) {
        self.outcome.lock().add(report);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn jobs(names: &[&str], workers: usize) -> Jobs {
        let job = |name: &&str| {
            Job::Get(Retrieval {
                remote: name.as_bytes().to_vec(),
                target: name.into(),
                listed: None,
            })
        };
        Jobs::new(names.iter().map(job).collect(), workers, false)
    }

    /// The job and the one announced.
    fn next(jobs: &mut Jobs, worker: usize) -> Option<(usize, Option<PathBuf>)> {
        let ((number, _), next) = jobs.next(worker)?;
        Some((
            number,
            next.map(|next| match next {
                Job::Get(retrieval) => retrieval.target.clone(),
                Job::Put(storage) => storage.source.clone(),
            }),
        ))
    }

    #[test]
    fn a_job_that_was_announced_waits_for_nobody() {
        let mut jobs = jobs(&["a", "b", "c", "d"], 2);
        assert_eq!(next(&mut jobs, 0), Some((0, Some("b".into()))));
        assert_eq!(next(&mut jobs, 1), Some((2, Some("d".into()))));
        assert_eq!(next(&mut jobs, 1), Some((3, None)));
        // The first worker is still at its first.
        assert_eq!(next(&mut jobs, 1), Some((1, None)));
        assert_eq!(next(&mut jobs, 0), None);
    }
}
