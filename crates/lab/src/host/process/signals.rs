//! Signals: sets of them, the mask of a thread, and reading them from a descriptor.
//!
//! Source: sigprocmask(2), signalfd(2). By libc, because rustix has neither.

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use fairwind_kernel::checked;
use rustix::process::{Pid, Signal, kill_process};

use crate::error::{During, LabError};

/// Signals forwarded to the command.
const FORWARDED: [Signal; 6] = [
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::HUP,
    Signal::USR1,
    Signal::USR2,
];

/// A set of signals.
#[derive(Clone, Copy)]
pub(super) struct SignalSet(libc::sigset_t);

impl SignalSet {
    pub(super) fn empty() -> SignalSet {
        let mut set = MaybeUninit::uninit();
        // SAFETY: the call initialises the set.
        SignalSet(unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        })
    }

    /// The signals that are forwarded to the command.
    pub(super) fn forwarded() -> SignalSet {
        FORWARDED
            .into_iter()
            .fold(SignalSet::empty(), SignalSet::with)
    }

    pub(super) fn with(mut self, signal: Signal) -> SignalSet {
        // SAFETY: the set is initialised.
        unsafe { libc::sigaddset(&raw mut self.0, signal.as_raw()) };
        self
    }

    /// Makes this the set of signals that the calling thread blocks. Between fork and exec, too.
    pub(super) fn set_mask(self) -> io::Result<()> {
        self.change_mask(libc::SIG_SETMASK).map(drop)
    }

    /// Changes the calling thread's mask; returns the former one.
    fn change_mask(self, how: libc::c_int) -> io::Result<SignalSet> {
        let mut before = SignalSet::empty();
        // SAFETY: both sets are initialised.
        match unsafe { libc::pthread_sigmask(how, &raw const self.0, &raw mut before.0) } {
            0 => Ok(before),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Blocks the signals that are for the command, in the calling thread and in threads that it starts
/// from now on. Call it before any thread is started. Dropping it restores the calling thread's
/// mask.
pub(crate) struct BlockedSignals {
    before: SignalSet,
}

impl BlockedSignals {
    pub(crate) fn new() -> Result<BlockedSignals, LabError> {
        let before = SignalSet::forwarded().change_mask(libc::SIG_BLOCK);
        let before = before.during("holding signals back")?;
        Ok(BlockedSignals { before })
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        let _ = self.before.set_mask();
    }
}

/// A descriptor from which blocked signals are read.
pub(super) struct SignalFd(OwnedFd);

/// A signal that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub number: i32,
    /// `si_code` of sigaction(2): positive if the kernel sent it.
    code: i32,
}

impl SignalFd {
    pub(super) fn new(signals: SignalSet) -> io::Result<SignalFd> {
        // SAFETY: the set is initialised.
        let fd = unsafe { libc::signalfd(-1, &raw const signals.0, libc::SFD_CLOEXEC) };
        let fd = checked(fd)?;
        // SAFETY: the descriptor has just been opened and has no other owner.
        Ok(SignalFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Reads a signal; waits if none is pending.
    pub(super) fn read(&self) -> io::Result<Received> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        rustix::io::read(&self.0, &mut info)?;
        let number =
            |at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        Ok(Received {
            number: number(offset_of!(libc::signalfd_siginfo, ssi_signo)),
            code: number(offset_of!(libc::signalfd_siginfo, ssi_code)),
        })
    }

    /// Forwards one signal, unless the terminal sent it, and so to the whole process group.
    pub(super) fn forward(&self, to: Pid) {
        if let Ok(Received { number, code }) = self.read()
            && code <= 0
            && let Some(signal) = Signal::from_named_raw(number)
        {
            let _ = kill_process(to, signal);
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_blocked_signal_is_read() {
        let thread = thread::spawn(|| {
            let signals = SignalSet::empty().with(Signal::USR2);
            signals.set_mask().unwrap();
            let fd = SignalFd::new(signals).unwrap();
            // SAFETY: the thread exists, and blocks the signal.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
            fd.read().unwrap()
        });
        let received = thread.join().unwrap();
        assert_eq!(received.number, libc::SIGUSR2);
        assert!(received.code <= 0, "a process sent it");
    }
}
