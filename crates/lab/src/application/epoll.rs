//! Waiting for sockets, with timeouts precise to the microsecond.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

use fairwind_path::units::Duration;

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    Read,
    Write,
    /// Only errors, which are always reported.
    Errors,
}

/// A set of descriptors, each with a token of ours.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

/// An event of a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub token: u64,
    /// The connection has failed, or the peer has closed it.
    pub failed: bool,
}

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: the call takes a number only.
        let fd = Errno::result(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Epoll {
            // SAFETY: the descriptor has just been opened and has no other owner.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            events: Vec::with_capacity(256),
        })
    }

    pub fn add(&self, fd: &impl AsRawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    pub fn change(&self, fd: &impl AsRawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    pub fn remove(&self, fd: &impl AsRawFd) {
        // Fails only for a descriptor that is not in the set, which is harmless.
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::Errors);
    }

    fn control(
        &self,
        action: i32,
        fd: &impl AsRawFd,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let events = match interest {
            Interest::Read => libc::EPOLLIN,
            Interest::Write => libc::EPOLLOUT,
            Interest::Errors => 0,
        };
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: token,
        };
        // SAFETY: the event is a local structure that outlives the call.
        let done =
            unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), action, fd.as_raw_fd(), &raw mut event) };
        Ok(Errno::result(done).map(drop)?)
    }

    /// Waits for at most `longest`, and replaces the content of `told` by the events.
    pub fn wait(&mut self, longest: Duration, told: &mut Vec<Event>) -> io::Result<()> {
        told.clear();
        let timeout = libc::timespec {
            tv_sec: (longest.as_nanos() / 1_000_000_000) as libc::time_t,
            tv_nsec: (longest.as_nanos() % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the kernel writes at most as many events as there is capacity for, and reads the
        // timeout.
        let count = Errno::result(unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.capacity() as libc::c_int,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0,
            )
        });
        let count = match count {
            Err(Errno::EINTR) => 0,
            count => count?,
        };
        // SAFETY: the kernel has written this number of events.
        unsafe { self.events.set_len(count as usize) };
        told.extend(self.events.drain(..).map(|event| {
            let failure = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
            Event {
                token: event.u64,
                failed: event.events & failure != 0,
            }
        }));
        Ok(())
    }
}
