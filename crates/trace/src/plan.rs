//! A trace into a folder: what is traced, how, and where to; on this thread or in the background.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::event::Event;
use crate::file::{Columns, FileError};
use crate::kernel::{Options, TraceError, check_requirements};
use crate::record::{Index, Limits, Recorder};
use crate::session::Session;

/// The index is written this often, for whoever looks at the folder meanwhile.
const CHECKPOINT: Duration = Duration::from_secs(5);
/// A long one is written less often, so that it takes no more than this part of the time.
const CHECKPOINT_PART: u32 = 100;

/// What is traced, how, and where to.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Which connections, and whether on every ACK.
    pub options: Options,
    /// Time between samples; nothing without an interval.
    pub interval: Option<Duration>,
    /// Where the files go; new or empty.
    pub folder: PathBuf,
    /// Columns of the files.
    pub columns: Columns,
    /// Room that they may take.
    pub limits: Limits,
}

/// Why a trace does not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The kernel's side.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The folder or its index.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A trace that runs on this thread.
pub struct Running {
    session: Session,
    recorder: Recorder,
    failed: Vec<FileError>,
    next_checkpoint: Instant,
}

impl Plan {
    /// Begins.
    ///
    /// # Errors
    ///
    /// What is missing or wrong, before anything is made.
    pub fn start(&self) -> Result<Running, PlanError> {
        check_requirements()?;
        let recorder = Recorder::create(&self.folder, self.columns.clone(), self.limits)?;
        let session = Session::start(&self.options, self.interval)?;
        let running = Running {
            session,
            recorder,
            failed: Vec::new(),
            next_checkpoint: Instant::now() + CHECKPOINT,
        };
        running.checkpoint()?;
        Ok(running)
    }

    /// Begins on a thread of its own; when this returns, connections are seen.
    ///
    /// # Errors
    ///
    /// What is missing or wrong.
    pub fn in_background(self) -> Result<Background, PlanError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let thread = {
            let stop = Arc::clone(&stop);
            let thread = thread::Builder::new().name("trace".to_owned());
            let run = move || {
                let mut running = match self.start() {
                    Ok(running) => {
                        // Whoever waits for it is there.
                        let _ = ready.send(Ok(()));
                        running
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        return None;
                    }
                };
                while !stop.load(Ordering::Relaxed) {
                    if let Err(error) = running.step(|_| {}) {
                        return Some(running.abandon(error.into()));
                    }
                }
                Some(running.finish(|_| {}))
            };
            thread.spawn(run).map_err(|error| {
                TraceError::Iterator(std::io::Error::new(error.kind(), "no thread for the trace"))
            })?
        };
        match is_ready.recv() {
            Ok(Ok(())) => Ok(Background { stop, thread }),
            Ok(Err(error)) => Err(error),
            Err(_) => std::panic::resume_unwind(
                thread.join().expect_err("it ended without a word: a panic"),
            ),
        }
    }
}

/// What a trace leaves, and the files that could not be written.
pub type Outcome = Result<(Index, Vec<FileError>), PlanError>;

impl Running {
    /// Waits until there is something to do, at most 25 ms, and does it; `each` sees the events too.
    ///
    /// # Errors
    ///
    /// If the kernel does not answer.
    pub fn step(&mut self, mut each: impl FnMut(&Event<'_>)) -> Result<(), TraceError> {
        let (recorder, failed) = (&mut self.recorder, &mut self.failed);
        self.session.step(|event| {
            failed.extend(recorder.event(event).err());
            each(event);
        })?;
        let began = Instant::now();
        if began >= self.next_checkpoint {
            // A disk without room for it may have some later; the end says so.
            let _ = self.checkpoint();
            let took = began.elapsed();
            self.next_checkpoint = began + CHECKPOINT.max(took * CHECKPOINT_PART);
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<(), PlanError> {
        let (counts, manner) = (self.session.counts()?, self.session.manner());
        self.recorder.checkpoint(&counts, &manner)?;
        Ok(())
    }

    /// The files that could not be written since the latest call.
    pub fn failures(&mut self) -> Vec<FileError> {
        std::mem::take(&mut self.failed)
    }

    /// The pace and the kernel's side.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The files.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Takes a last sample of every connection, ends all files and writes the index.
    ///
    /// # Errors
    ///
    /// If the kernel does not answer or the index cannot be written. Files are ended before.
    pub fn finish(mut self, mut each: impl FnMut(&Event<'_>)) -> Outcome {
        let (recorder, failed) = (&mut self.recorder, &mut self.failed);
        let ended = self.session.finish(|event| {
            failed.extend(recorder.event(event).err());
            each(event);
        });
        let (counts, manner, error) = match ended {
            Ok((counts, manner)) => (counts, manner, None),
            Err(error) => (Default::default(), Default::default(), Some(error)),
        };
        let (index, more) = self.recorder.finish(&counts, &manner)?;
        self.failed.extend(more);
        match error {
            None => Ok((index, self.failed)),
            Some(error) => Err(error.into()),
        }
    }

    /// Keeps what there is after an error, which it gives back.
    pub fn abandon(self, error: PlanError) -> Outcome {
        self.finish(|_| {}).and(Err(error))
    }
}

/// A trace that runs on a thread of its own.
pub struct Background {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Option<Outcome>>,
}

impl Background {
    /// Ends the trace and waits for its files.
    ///
    /// # Errors
    ///
    /// See [`Running::finish`].
    pub fn finish(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(outcome) => outcome.expect("it had begun"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
