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

/// The index is written this often, for readers of the folder during the trace.
const CHECKPOINT: Duration = Duration::from_secs(5);
/// A large index is written less often, so that it takes at most 1/100 of the time.
const CHECKPOINT_PART: u32 = 100;

/// What is traced, how, and where to.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Which connections, and whether on every ACK.
    pub options: Options,
    /// Time between samples; `None` without an interval.
    pub interval: Option<Duration>,
    /// Folder for the files; must be new or empty.
    pub folder: PathBuf,
    /// Columns of the files.
    pub columns: Columns,
    /// Room that the files may take.
    pub limits: Limits,
}

/// Why a trace cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The kernel or the tracer.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The folder or its index.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A trace running on this thread.
pub struct Running {
    session: Session,
    recorder: Recorder,
    failed: Vec<FileError>,
    next_checkpoint: Instant,
}

impl Plan {
    /// Starts the trace on this thread.
    ///
    /// # Errors
    ///
    /// Fails if the kernel or the process does not meet the requirements, which is checked before
    /// the folder is made; if the folder cannot be created or is not empty; or if the kernel
    /// refuses the tracer.
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

    /// Starts the trace on a thread of its own. Connections are seen from the moment this returns.
    ///
    /// # Errors
    ///
    /// Fails like [`Plan::start`], or if the thread cannot be started.
    pub fn in_background(self) -> Result<Background, PlanError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let thread = {
            let stop = Arc::clone(&stop);
            let thread = thread::Builder::new().name("trace".to_owned());
            let run = move || {
                let mut running = self.start()?;
                // The receiver cannot be gone: it waits for this message.
                let _ = ready.send(());
                while !stop.load(Ordering::Relaxed) {
                    if let Err(error) = running.step(|_| {}) {
                        return running.abandon(error.into());
                    }
                }
                running.finish(|_| {})
            };
            thread.spawn(run).map_err(TraceError::Thread)?
        };
        let background = Background { stop, thread };
        match is_ready.recv() {
            Ok(()) => Ok(background),
            Err(_) => Err(background.finish().expect_err("it never began")),
        }
    }
}

/// The index of a finished trace, and the files that could not be written.
pub type Outcome = Result<(Index, Vec<FileError>), PlanError>;

impl Running {
    /// Waits at most 25 ms until there is something to do, and does it; `each` sees the events too.
    ///
    /// # Errors
    ///
    /// Fails if samples cannot be requested or the ring buffer cannot be read.
    pub fn step(&mut self, mut each: impl FnMut(&Event<'_>)) -> Result<(), TraceError> {
        let (recorder, failed) = (&mut self.recorder, &mut self.failed);
        self.session.step(|event| {
            failed.extend(recorder.event(event).err());
            each(event);
        })?;
        let began = Instant::now();
        if began >= self.next_checkpoint {
            // A full disk may have room again later; the end of the trace reports the error.
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

    /// The errors of files since the latest call.
    pub fn failures(&mut self) -> Vec<FileError> {
        std::mem::take(&mut self.failed)
    }

    /// The session, with its pace and counts.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The recorder, with its files.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Takes a last sample of every connection, ends all files and writes the index.
    ///
    /// # Errors
    ///
    /// Fails if the last samples or the counts cannot be read, after the files were ended; or if
    /// the index cannot be written.
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

    /// Ends the trace after an error, keeps what was recorded, and returns the error.
    pub fn abandon(self, error: PlanError) -> Outcome {
        self.finish(|_| {}).and(Err(error))
    }
}

/// A trace running on a thread of its own.
pub struct Background {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Outcome>,
}

impl Background {
    /// Ends the trace and waits for its files.
    ///
    /// # Errors
    ///
    /// See [`Running::finish`].
    pub fn finish(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
