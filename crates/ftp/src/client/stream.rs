//! Sources and sinks that cannot be rewound: standard input and output, pipes, devices. Their checksum is
//! computed as the bytes pass.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::fs::OFlags;

use super::Progress;
use super::progress::wait;
use super::target::Flow;
use crate::protocol::digest::{Algorithm, Hasher};

/// Number of bytes that a pipe reported as ready accepts without blocking (pipe(7)).
const PIPE_BUF: usize = 4096;

/// The local side of such a transfer.
pub(super) struct Stream {
    file: File,
    /// The file may not be ready: it has to be polled first.
    waits: bool,
    /// Most bytes per write that do not block when it is ready.
    most: usize,
    progress: Arc<dyn Progress>,
    sum: Option<(Algorithm, Hasher)>,
    passed: u64,
}

impl Stream {
    /// Opens a stream for reading.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn from(flow: &Flow, progress: Arc<dyn Progress>) -> io::Result<Self> {
        Self::over(flow.open_for_reading()?, progress)
    }

    /// Opens a stream for writing; `None` if the user stops before a pipe has a reader.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn to(flow: &Flow, progress: Arc<dyn Progress>) -> io::Result<Option<Self>> {
        let file = flow.open_for_writing(&*progress)?;
        file.map(|file| Self::over(file, progress)).transpose()
    }

    fn over(file: File, progress: Arc<dyn Progress>) -> io::Result<Self> {
        let waits = !file.metadata()?.is_file();
        let stands_still = waits && !rustix::fs::fcntl_getfl(&file)?.contains(OFlags::NONBLOCK);
        Ok(Self {
            waits,
            most: if stands_still { PIPE_BUF } else { usize::MAX },
            file,
            progress,
            sum: None,
            passed: 0,
        })
    }

    /// Starts a checksum if no byte has passed yet.
    pub(super) fn sum_up(&mut self, algorithm: Option<Algorithm>) {
        if self.passed == 0 {
            self.sum = algorithm.map(|algorithm| (algorithm, algorithm.start()));
        }
    }

    /// Number of bytes that have passed.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// The checksum of what has passed.
    ///
    /// # Errors
    /// If it was not computed with this algorithm.
    pub(super) fn sum(&self, algorithm: Algorithm) -> io::Result<String> {
        match &self.sum {
            Some((made, sum)) if *made == algorithm => Ok(sum.clone().finish()),
            _ => Err(io::Error::other("its checksum was begun otherwise")),
        }
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.passed += bytes.len() as u64;
        if let Some((_, sum)) = &mut self.sum {
            sum.update(bytes);
        }
    }

    /// Reads or writes with `act` once the file is ready for `event`.
    fn when_ready<T>(
        &self,
        event: PollFlags,
        mut act: impl FnMut(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            if self.waits {
                self.wait(event)?;
            }
            match act(&self.file) {
                Err(error) if is_wait(&error) => {}
                done => return done,
            }
        }
    }

    /// Waits until the file is ready for `event`.
    fn wait(&self, event: PollFlags) -> io::Result<()> {
        loop {
            if self.progress.stopped() {
                return Err(io::Error::other("interrupted"));
            }
            let ready = wait(&*self.progress, &[(self.file.as_fd(), event)], None)?;
            if ready[0] {
                return Ok(());
            }
        }
    }
}

fn is_wait(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(self.most)];
        let count = self.when_ready(PollFlags::OUT, |mut file| file.write(bytes))?;
        self.pass(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.when_ready(PollFlags::IN, |mut file| file.read(buffer))?;
        self.pass(&buffer[..count]);
        Ok(count)
    }
}
