//! Progress reports of transfers, requests to stop them, and waits that end when the user asks to stop.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Called from the threads of transfers: at most once per 256 KiB, and about twenty times a second while
/// nothing moves.
pub trait Progress: Send + Sync {
    /// `bytes` more are to be transferred in all.
    fn expect(&self, bytes: u64) {
        let _ = bytes;
    }

    /// File number `file` starts, or restarts, at byte `at`.
    fn begins(&self, file: usize, at: u64) {
        let _ = (file, at);
    }

    /// File number `file` has reached byte `at`.
    fn reaches(&self, file: usize, at: u64) {
        let _ = (file, at);
    }

    /// A message for the user; the work goes on.
    fn note(&self, text: &str) {
        let _ = text;
    }

    /// Whether the user asked to stop.
    fn stopped(&self) -> bool {
        false
    }

    /// Becomes readable, or is hung up, when [`stopped`](Self::stopped) turns true, and stays so: that ends
    /// waits. `None` if the user cannot ask to stop.
    fn stop_signal(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Ignores every report and never stops.
#[derive(Debug, Default, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {}

/// Waits until one of `sources` is ready, `deadline` has come (`None`: it never does), or the user asks to stop;
/// returns which sources are ready. A signal may end the wait early.
///
/// # Errors
/// If the kernel cannot wait for them.
pub(super) fn wait(
    progress: &dyn Progress,
    sources: &[(BorrowedFd<'_>, PollFlags)],
    deadline: Option<Instant>,
) -> io::Result<Vec<bool>> {
    let stop = progress.stop_signal().map(|fd| (fd, PollFlags::IN));
    let mut fds: Vec<_> = sources
        .iter()
        .copied()
        .chain(stop)
        .map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags))
        .collect();
    let time = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let timeout = time.and_then(|time| Timespec::try_from(time).ok());
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ready = fds.iter().map(|fd| !fd.revents().is_empty());
    Ok(ready.take(sources.len()).collect())
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Write};
    use std::os::fd::AsFd;
    use std::thread;
    use std::time::Duration;

    use super::*;

    struct Stopper(PipeReader);

    impl Progress for Stopper {
        fn stop_signal(&self) -> Option<BorrowedFd<'_>> {
            Some(self.0.as_fd())
        }
    }

    #[test]
    fn a_wait_without_end_ends_when_the_user_asks_to_stop() {
        let (asked, asks) = io::pipe().unwrap();
        let (silent, _other_end) = io::pipe().unwrap();
        let progress = Stopper(asked);
        let source = (silent.as_fd(), PollFlags::IN);
        let ready = thread::scope(|scope| {
            let waiting = scope.spawn(|| wait(&progress, &[source], None));
            drop(asks);
            waiting.join().unwrap().unwrap()
        });
        assert_eq!(ready, [false]);
    }

    #[test]
    fn a_wait_tells_what_is_ready() {
        let (silent, _other_end) = io::pipe().unwrap();
        let (speaking, mut speaker) = io::pipe().unwrap();
        let sources = [
            (silent.as_fd(), PollFlags::IN),
            (speaking.as_fd(), PollFlags::IN),
        ];
        let soon = Instant::now() + Duration::from_millis(1);
        let ready = wait(&Silent, &sources, Some(soon)).unwrap();
        assert_eq!(ready, [false, false]);
        speaker.write_all(b"x").unwrap();
        assert_eq!(wait(&Silent, &sources, None).unwrap(), [false, true]);
    }
}
