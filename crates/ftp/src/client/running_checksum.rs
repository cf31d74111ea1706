//! A checksum made while the file is moved: a thread reads behind the transfer what is in the page
//! cache anyway, so that neither the transfer nor the user waits for it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use crate::protocol::digest::Algorithm;

const CHUNK: usize = 256 << 10;
/// No end is known yet.
const OPEN: u64 = u64::MAX;

#[derive(Debug)]
struct Reach {
    /// Bytes of the file that are there.
    ready: AtomicU64,
    /// Bytes of the whole file.
    end: AtomicU64,
}

/// A checksum in the making. Dropped, it stops.
#[derive(Debug)]
pub struct RunningChecksum {
    reach: Arc<Reach>,
    thread: Option<JoinHandle<io::Result<String>>>,
}

impl RunningChecksum {
    /// Begins with the file's first byte; `ready` bytes are there already.
    ///
    /// # Errors
    /// The kernel's.
    pub fn begin(file: &File, algorithm: Algorithm, ready: u64) -> io::Result<Self> {
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

    /// So many bytes of the file are there.
    pub fn reaches(&self, ready: u64) {
        self.reach.ready.store(ready, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// The checksum of the file, which has `end` bytes.
    ///
    /// # Errors
    /// The kernel's; the file is shorter than that.
    pub fn finish(mut self, end: u64) -> io::Result<String> {
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
            // What it says is of no interest any more.
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
