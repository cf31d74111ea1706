//! The process that lets calls pass when who has received them has ended.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::thread;
use std::time::Duration;

use libc::{POLLHUP, POLLIN, c_int, c_uint, pollfd, seccomp_notif};
use rustix::process::{Pid, PidfdFlags, WaitOptions, getpid, pidfd_open, waitpid};

use super::raw;
use crate::checked;

/// The descriptors of the process.
const LISTENER: c_int = 0;
const RECEIVER: c_int = 1;

/// How often its end is waited for, a millisecond each.
const ATTEMPTS: u32 = 20;

/// The process, which ends by itself.
#[derive(Clone, Copy, Debug)]
pub struct Keeper {
    process: i32,
}

impl Keeper {
    /// Starts it for this process, which receives calls into the memory.
    pub(super) fn start(
        listener: BorrowedFd<'_>,
        memory: NonNull<seccomp_notif>,
    ) -> io::Result<Keeper> {
        let receiver = pidfd_open(getpid(), PidfdFlags::empty())?;
        let (listener, receiver) = (listener.as_raw_fd(), receiver.as_raw_fd());
        // SAFETY: the child makes system calls only, and ends by one.
        match unsafe { libc::fork() } {
            0 => {
                keep(listener, receiver, memory);
                // SAFETY: it ends the process.
                unsafe { libc::_exit(0) }
            }
            process => Ok(Keeper {
                process: checked(process)?,
            }),
        }
    }

    /// Waits a moment for its end, once nobody is left whose calls it would let pass.
    pub fn bury(self) {
        let pid = Pid::from_raw(self.process);
        for _ in 0..ATTEMPTS {
            match waitpid(pid, WaitOptions::NOHANG) {
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                _ => return,
            }
        }
    }

    /// Its number.
    pub fn process(self) -> i32 {
        self.process
    }
}

/// What the process does.
fn keep(listener: c_int, receiver: c_int, memory: NonNull<seccomp_notif>) {
    detach(listener, receiver);
    if !outlived() {
        return;
    }
    // One that had been received, and maybe not answered.
    // SAFETY: who else had this memory has ended.
    let id = unsafe { (*memory.as_ptr()).id };
    let _ = raw::answer(LISTENER, id, raw::PROCEED);
    while let Ok(true) = raw::wait(LISTENER) {
        // SAFETY: no reference to the memory exists.
        match unsafe { raw::receive(LISTENER, memory) } {
            Ok(true) => {
                // SAFETY: the kernel has written it.
                let id = unsafe { (*memory.as_ptr()).id };
                let _ = raw::answer(LISTENER, id, raw::PROCEED);
            }
            Ok(false) => {}
            Err(_) => return,
        }
    }
}

/// Leaves the terminal, and everything else that others wait for until it is closed.
fn detach(listener: c_int, receiver: c_int) {
    // SAFETY: system calls without memory of ours but the two texts.
    unsafe {
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        libc::prctl(libc::PR_SET_NAME, c"fairwind-keeper".as_ptr());
        let listener = libc::fcntl(listener, libc::F_DUPFD, RECEIVER + 1);
        let receiver = libc::fcntl(receiver, libc::F_DUPFD, RECEIVER + 1);
        libc::dup2(listener, LISTENER);
        libc::dup2(receiver, RECEIVER);
        let first = RECEIVER + 1;
        // Linux 5.9.
        if libc::syscall(libc::SYS_close_range, first, c_uint::MAX, 0) != 0 {
            for descriptor in first..1024 {
                libc::close(descriptor);
            }
        }
    }
}

/// Waits until the receiver has ended. Returns false if until then nobody is left who would do a call.
fn outlived() -> bool {
    let of = |fd, events| pollfd {
        fd,
        events,
        revents: 0,
    };
    loop {
        let mut fds = [of(LISTENER, 0), of(RECEIVER, POLLIN)];
        if raw::poll(&mut fds).is_err() {
            return false;
        }
        if fds[0].revents & POLLHUP != 0 {
            return false;
        }
        if fds[1].revents != 0 {
            return true;
        }
    }
}
