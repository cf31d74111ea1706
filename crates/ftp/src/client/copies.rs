//! Copies of files from server to server: up to a given number at the same time, each over its own sessions with both.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use parking_lot::Mutex;

use super::clash::{self, Places};
use super::local::partial_name;
use super::retrieve::shown;
use super::{ClientError, Connection, FileReport, Outcome, place, third_party_file, workers};

/// A file to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copying {
    /// Its path at the source.
    pub from: Vec<u8>,
    /// Its path at the destination.
    pub to: Vec<u8>,
    /// Its size in bytes, if the destination has it already: then nothing is copied.
    pub present: Option<u64>,
}

/// Carries out all copies; one that fails does not stop the others, unless a server is lost: then those that are left fail,
/// too. Copies that would end in the same place all fail, and nothing is copied for them.
///
/// # Errors
/// [`ClientError::Stopped`], and [`ClientError::Usage`] if these servers cannot do it at all; every other failure is
/// recorded in the outcome.
pub fn run(
    source: Connection,
    destination: Connection,
    copies: Vec<Copying>,
    parallel: NonZeroUsize,
) -> Result<Outcome, ClientError> {
    let in_place = destination.options().in_place;
    let place = source.place().clone();
    let places: Vec<_> = copies
        .iter()
        .map(|copy| {
            Some(Places {
                whole: copy.to.clone(),
                partial: place::beside(&copy.to, in_place, partial_name),
            })
        })
        .collect();
    let mut shared = Shared::default();
    let queue = shared.copies.get_mut();
    for (copy, clash) in copies.into_iter().zip(clash::between(&places)) {
        let from = shown(&place, &copy.from);
        match (clash, copy.present) {
            (Some(why), _) => shared.outcome.get_mut().fail(&from, why),
            (None, Some(size)) => {
                let report = FileReport::there(from, shown(destination.place(), &copy.to), size);
                shared.outcome.get_mut().add(report);
            }
            (None, None) => queue.push_back((queue.len(), copy)),
        }
    }
    let count = parallel.get().min(queue.len()).max(1);
    let mut pairs = vec![(source, destination)];
    for _ in 1..count {
        pairs.push((pairs[0].0.another(), pairs[0].1.another()));
    }
    workers::work(pairs, |(source, destination), worker| {
        shared.work(source, destination, worker)
    })?;
    let mut outcome = shared.outcome.into_inner();
    if let Some(why) = shared.lost.into_inner() {
        for (_, copy) in shared.copies.into_inner() {
            outcome.fail(&shown(&place, &copy.from), &why);
        }
    }
    Ok(outcome)
}

#[derive(Default)]
struct Shared {
    copies: Mutex<VecDeque<(usize, Copying)>>,
    outcome: Mutex<Outcome>,
    /// Why a worker has lost a server.
    lost: Mutex<Option<String>>,
}

impl Shared {
    /// Makes copies until none is left. Failures of the first worker to log in are reported for its copies; any other that gets
    /// no sessions, and each that has lost a server, leaves its copies to the rest.
    fn work(
        &self,
        mut source: Connection,
        mut destination: Connection,
        worker: usize,
    ) -> Result<(), ClientError> {
        if worker > 0 {
            let opened = source.session().map(drop);
            if let Err(error) = opened.and_then(|()| destination.session().map(drop)) {
                let progress = &source.options().progress;
                progress.note(&format!("fewer files at the same time: {error}"));
                return Ok(());
            }
        }
        loop {
            if let Some(why) = source.lost().or(destination.lost()) {
                *self.lost.lock() = Some(why.to_owned());
                return Ok(());
            }
            let Some((number, copy)) = self.next() else {
                break;
            };
            let (from, to) = (&copy.from, &copy.to);
            let copied = third_party_file(&mut source, &mut destination, from, to, number);
            match copied {
                Ok(report) => self.outcome.lock().add(report),
                Err(error @ (ClientError::Usage(_) | ClientError::Stopped)) => {
                    // The others would fare no better.
                    self.copies.lock().clear();
                    return Err(error);
                }
                Err(error) => {
                    let from = shown(source.place(), from);
                    self.outcome.lock().fail(&from, &error.to_string());
                }
            }
        }
        source.close();
        destination.close();
        Ok(())
    }

    fn next(&self) -> Option<(usize, Copying)> {
        self.copies.lock().pop_front()
    }
}
