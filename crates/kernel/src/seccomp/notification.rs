//! A system call that waits, and the process that does it.

use std::fs::{self, File};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::filter::Call;

/// `PIDFD_THREAD` (Linux 6.9).
const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

/// A system call that waits.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    pub(super) id: u64,
    thread: u32,
    call: Option<Call>,
    arguments: [u64; 6],
}

impl Notification {
    /// Of what the kernel has written.
    pub(super) fn new(raw: &libc::seccomp_notif) -> Notification {
        let mut notification = Notification {
            id: raw.id,
            thread: raw.pid,
            call: Call::of(raw.data.arch, raw.data.nr as u32),
            arguments: raw.data.args,
        };
        if notification.call == Some(Call::Multiplexed) {
            notification.demultiplex();
        }
        notification
    }

    /// The call and the arguments of a `socketcall`, which are in the memory of its process: words of 32 bits.
    fn demultiplex(&mut self) {
        let mut bytes = [0; 12];
        let memory = File::open(format!("/proc/{}/mem", self.thread));
        let read = memory.and_then(|memory| memory.read_exact_at(&mut bytes, self.arguments[1]));
        self.call = read
            .ok()
            .and_then(|()| Call::of_multiplexed(self.arguments[0] as u32));
        let (words, _) = bytes.as_chunks::<4>();
        for (argument, word) in self.arguments.iter_mut().zip(words) {
            *argument = u32::from_ne_bytes(*word).into();
        }
    }

    /// Which call it is; `None` if that cannot be read from the process.
    pub fn call(&self) -> Option<Call> {
        self.call
    }

    /// The descriptor that the call is about.
    pub fn descriptor(&self) -> RawFd {
        self.arguments[0] as RawFd
    }

    /// The process.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn process(&self) -> Result<Process, Errno> {
        Process::of_thread(self.thread)
    }
}

/// A process whose descriptors can be taken.
#[derive(Debug)]
pub struct Process {
    id: u32,
    handle: OwnedFd,
}

impl Process {
    /// That of a thread, with the descriptors of the thread.
    fn of_thread(thread: u32) -> Result<Process, Errno> {
        let pid = pid(thread).ok_or(Errno::SRCH)?;
        match pidfd_open(pid, THREAD) {
            Ok(handle) => Ok(Process { id: thread, handle }),
            // Before Linux 6.9 there are handles of whole processes only.
            Err(Errno::INVAL) => Process::open(group_of(thread).ok_or(Errno::SRCH)?),
            Err(error) => Err(error),
        }
    }

    /// The process of this number.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn open(id: u32) -> Result<Process, Errno> {
        let handle = pidfd_open(pid(id).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
        Ok(Process { id, handle })
    }

    /// Its name, at most 15 bytes; empty if it has ended.
    pub fn name(&self) -> String {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.id)).unwrap_or_default();
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

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
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
            assert!(!process.name().is_empty());
        }
    }
}
