//! A checksum computed during the transfer: a thread reads the bytes while they are still in the page cache,
//! so that neither the transfer nor the user waits for it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use crate::protocol::digest::Algorithm;

const CHUNK: usize = 256 << 10;
/// The file's end is not known yet.
const OPEN: u64 = u64::MAX;

#[derive(Debug)]
struct Reach {
    /// Number of bytes available.
    ready: AtomicU64,
    /// Size of the whole file, bytes.
    end: AtomicU64,
}

/// A checksum being computed. Dropping it stops the thread.
#[derive(Debug)]
pub(super) struct RunningChecksum {
    reach: Arc<Reach>,
    thread: Option<JoinHandle<io::Result<String>>>,
}

impl RunningChecksum {
    /// Starts at the file's first byte; `ready` bytes are available already.
    ///
    /// # Errors
    /// If the descriptor cannot be duplicated or the thread cannot be started.
    pub(super) fn begin(file: &File, algorithm: Algorithm, ready: u64) -> io::Result<Self> {
        let file = file.try_clone()?;
        let reach = Arc::new(Reach {
            ready: AtomicU64::new(ready),
            end: AtomicU64::new(OPEN),
        });
        let shared = Arc::clone(&reach);
        let thread = thread::Builder::new()
            .name("checksum".into())
            .spawn(move || sum(&file, algorithm, &shared))?;
        Ok(Self {
            reach,
            thread: Some(thread),
        })
    }

    /// Announces that the first `ready` bytes of the file are available.
    pub(super) fn reaches(&self, ready: u64) {
        self.reach.ready.store(ready, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Waits for the checksum of the file's first `end` bytes.
    ///
    /// # Errors
    /// If the file cannot be read, is shorter than `end`, or the thread failed.
    pub(super) fn finish(mut self, end: u64) -> io::Result<String> {
        self.reach.end.store(end, Ordering::Release);
        self.reaches(end);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(sum)) => sum,
            _ => Err(io::Error::other("the checksum's thread failed")),
        }
    }
}

impl Drop for RunningChecksum {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.reach.end.store(0, Ordering::Release);
            thread.thread().unpark();
            // Its result is discarded.
            let _ = thread.join();
        }
    }
}

fn sum(file: &File, algorithm: Algorithm, reach: &Reach) -> io::Result<String> {
    let mut hasher = algorithm.start();
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    loop {
        let (end, ready) = (
            reach.end.load(Ordering::Acquire),
            reach.ready.load(Ordering::Acquire),
        );
        if at >= end {
            return Ok(hasher.finish());
        }
        if at >= ready {
            thread::park();
            continue;
        }
        let count = CHUNK.min(usize::try_from(ready.min(end) - at).unwrap_or(CHUNK));
        match file.read_at(&mut buffer[..count], at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                hasher.update(&buffer[..count]);
                at += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_grows_has_the_checksum_of_the_whole() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"a").unwrap();
        let running = RunningChecksum::begin(&file, Algorithm::Md5, 1).unwrap();
        file.write_all(b"bc").unwrap();
        running.reaches(2);
        assert_eq!(
            running.finish(3).unwrap(),
            "900150983cd24fb0d6963f7d28e17f72"
        );
    }

    #[test]
    fn one_that_nobody_wants_any_more_ends() {
        let file = tempfile::tempfile().unwrap();
        drop(RunningChecksum::begin(&file, Algorithm::Md5, 0).unwrap());
    }
}
