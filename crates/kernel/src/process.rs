//! A process by a handle, which is never another's, as its number may be once it has ended.
//!
//! Source: pidfd_open(2), pidfd_getfd(2).

use std::fs;
use std::os::fd::{OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// `PIDFD_THREAD` (Linux 6.9).
const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

/// A process with its number, which is not another's as long as it has not ended.
#[derive(Debug)]
pub struct Process {
    number: u32,
    handle: OwnedFd,
}

impl Process {
    /// The process that has this number now.
    ///
    /// # Errors
    ///
    /// If there is none, or this process has no descriptor left.
    pub fn open(number: u32) -> Result<Process, Errno> {
        let handle = pidfd_open(pid(number).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
        Ok(Process { number, handle })
    }

    /// That of a thread, with the descriptors of the thread.
    pub(crate) fn of_thread(thread: u32) -> Result<Process, Errno> {
        match pidfd_open(pid(thread).ok_or(Errno::SRCH)?, THREAD) {
            Ok(handle) => Ok(Process::by_handle(thread, handle)),
            // Before Linux 6.9 there are handles of whole processes only.
            Err(Errno::INVAL) => Process::open(group_of(thread).ok_or(Errno::SRCH)?),
            Err(error) => Err(error),
        }
    }

    /// The process of this handle, whose number this is.
    pub fn by_handle(number: u32, handle: OwnedFd) -> Process {
        Process { number, handle }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether it has ended, and its number may be another's.
    pub fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Whether that is the same process, and goes on.
    pub fn is(&self, other: &Process) -> bool {
        self.number == other.number && !self.has_ended() && !other.has_ended()
    }

    /// Its name, at most 15 bytes; empty if it has ended.
    pub fn name(&self) -> String {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.number)).unwrap_or_default();
        name.trim_end().to_owned()
    }

    /// A duplicate of its descriptor. While this is open, what it refers to is not closed by the process closing its own.
    ///
    /// # Errors
    ///
    /// [`Errno::BADF`] if it has no such descriptor; [`Errno::PERM`] if it is of another user, a parent that it does not
    /// descend from may not attach to it (Yama), or it does not want to be attached to (`PR_SET_DUMPABLE`).
    pub fn take(&self, descriptor: RawFd) -> Result<OwnedFd, Errno> {
        pidfd_getfd(&self.handle, descriptor, PidfdGetfdFlags::empty())
    }
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// The process of a thread.
fn group_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    group.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_threads_process_and_its_descriptors_are_found() {
        let thread = rustix::thread::gettid().as_raw_pid() as u32;
        assert_eq!(group_of(thread), Some(std::process::id()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for process in [
            Process::of_thread(thread).unwrap(),
            Process::open(std::process::id()).unwrap(),
        ] {
            let taken = process.take(listener.as_raw_fd()).unwrap();
            let taken = TcpListener::from(taken);
            assert_eq!(taken.local_addr().unwrap(), listener.local_addr().unwrap());
            assert_eq!(process.take(1 << 20).unwrap_err(), Errno::BADF);
            assert!(!process.name().is_empty() && !process.has_ended());
        }
    }

    #[test]
    fn a_process_is_itself_until_it_has_ended() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let own = Process::open(std::process::id()).unwrap();
        let [one, again] = [(); 2].map(|()| Process::open(child.id()).unwrap());
        assert!(one.is(&again) && !one.is(&own));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(one.has_ended() && !one.is(&again));
        assert_eq!(one.name(), "");
    }
}
