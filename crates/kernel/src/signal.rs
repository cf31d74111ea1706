//! Signals: sets of them, the mask of a thread, and reading them from a descriptor.
//!
//! Source: sigprocmask(2), signalfd(2), wait(2).

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process};

use crate::checked;

/// Signals that are forwarded to a command.
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
pub struct SignalSet(libc::sigset_t);

impl SignalSet {
    /// None.
    pub fn empty() -> SignalSet {
        let mut set = MaybeUninit::uninit();
        // SAFETY: the call initialises the set.
        SignalSet(unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        })
    }

    /// Those that are forwarded to a command: SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2.
    pub fn forwarded() -> SignalSet {
        FORWARDED
            .into_iter()
            .fold(SignalSet::empty(), SignalSet::with)
    }

    /// This one, too.
    pub fn with(mut self, signal: Signal) -> SignalSet {
        // SAFETY: the set is initialised.
        unsafe { libc::sigaddset(&raw mut self.0, signal.as_raw()) };
        self
    }

    /// Makes this the set of signals that the calling thread blocks. Between fork and exec, too.
    ///
    /// # Errors
    ///
    /// The kernel has none for a valid set.
    pub fn set_mask(self) -> io::Result<()> {
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

/// Blocks the signals that are [forwarded](SignalSet::forwarded) to a command, in the calling thread and in threads that
/// it starts from now on. Call it before any thread is started. Dropping it restores the calling thread's
/// mask.
pub struct BlockedSignals {
    before: SignalSet,
}

impl BlockedSignals {
    /// Blocks them.
    ///
    /// # Errors
    ///
    /// The kernel has none for a valid set.
    pub fn new() -> io::Result<BlockedSignals> {
        let before = SignalSet::forwarded().change_mask(libc::SIG_BLOCK)?;
        Ok(BlockedSignals { before })
    }

    /// What the thread had blocked before, for a command that it starts.
    pub fn before(&self) -> SignalSet {
        self.before
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        let _ = self.before.set_mask();
    }
}

/// A descriptor from which blocked signals are read.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

/// A signal that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub number: i32,
    /// `si_code` of sigaction(2): positive if the kernel sent it.
    code: i32,
}

impl SignalFd {
    /// Opens one for these signals, which have to be blocked.
    ///
    /// # Errors
    ///
    /// If the process has no descriptor left.
    pub fn new(signals: SignalSet) -> io::Result<SignalFd> {
        // SAFETY: the set is initialised.
        let fd = unsafe { libc::signalfd(-1, &raw const signals.0, libc::SFD_CLOEXEC) };
        let fd = checked(fd)?;
        // SAFETY: the descriptor has just been opened and has no other owner.
        Ok(SignalFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Reads a signal; waits if none is pending.
    ///
    /// # Errors
    ///
    /// If the descriptor cannot be read.
    pub fn read(&self) -> io::Result<Received> {
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
    pub fn forward(&self, to: Pid) {
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

/// Lets this process wait for its children from now on. Who has started it may have ignored SIGCHLD, which it inherits: the
/// kernel then tells nobody how they end.
pub fn await_children() {
    // SAFETY: no code of this process is to be called.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// How a process has ended, as a shell gives it: its exit code, or 128 and the number of the signal.
pub fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => 1,
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

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        // As wait(2) gives them: the exit code in the second byte, the signal in the first.
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(libc::SIGKILL)), 137);
    }
}
