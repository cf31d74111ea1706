//! Without any right: what is wanted is set on the program's own sockets by their options.
//!
//! [The kernel asks](fairwind_kernel::seccomp) this process before a process of the command connects, listens or chooses a
//! congestion control. Its socket is taken for a moment, given what needs no right, and let go of before the call goes on.
//! So it is with each look at a connection that is held down: while a duplicate of a descriptor is there, a connection
//! does not end when its program closes it, and one that lasted would keep the peer waiting.

mod advice;
mod attend;
mod connections;
mod plan;
mod socket;
mod watch;

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use fairwind_advice_client::ClientError;
use fairwind_kernel::seccomp::{InstallError, Keeper, Listener};
use fairwind_kernel::{Process, descendants, raise_descriptor_limit, release, sysctl, version};
use rustix::process::{getpid, set_child_subreaper};

use crate::attended::{Ended, Wanted};
use crate::error::RunError;

use attend::attend;
use plan::Plan;
use watch::{Shared, watch};

/// The first kernel of which descriptors can be taken from other processes (`pidfd_getfd`).
const FIRST_KERNEL: (u32, u32) = (5, 6);

/// Why nothing can be done without rights.
#[derive(Debug, thiserror::Error)]
pub enum DirectError {
    /// All that is wanted needs rights.
    #[error("nothing of it can be done: {}", left_out.join("; "))]
    Nothing {
        /// What, and why.
        left_out: Vec<String>,
    },
    /// Processes must not look into others.
    #[error(
        "the sockets of the command are out of reach: kernel.yama.ptrace_scope is {scope}; 0 and 1 let a \
         process reach its own children"
    )]
    OutOfReach {
        /// `kernel.yama.ptrace_scope`.
        scope: u64,
    },
    /// The advisor's address is none.
    #[error(transparent)]
    Advisor(#[from] ClientError),
    /// Something around this process forbids it.
    #[error(
        "the sockets of the command are out of reach: pidfd_getfd: {0}; containers may forbid it"
    )]
    Forbidden(#[source] io::Error),
    /// The kernel lacks something.
    #[error("Linux 5.6 or newer is required: this is {release}")]
    KernelTooOld {
        /// The running kernel, as by `uname -r`.
        release: String,
    },
    /// The filter is refused.
    #[error("{0}")]
    Filter(#[from] InstallError),
    /// A system call failed.
    #[error("taking care of the command: {0}")]
    System(#[from] io::Error),
}

/// Takes care of a command and of what it starts.
#[derive(Debug)]
pub(crate) struct Direct {
    shared: Arc<Shared>,
    keeper: Keeper,
}

/// What is left out, which is known before the command runs.
///
/// # Errors
///
/// If nothing can be done, or there is no such congestion control.
pub fn left_out(wanted: &Wanted) -> Result<Vec<String>, RunError> {
    Ok(Plan::of(wanted)?.left_out)
}

impl Direct {
    /// Starts the command, and takes care of it from its first system call on.
    pub(crate) fn start(
        wanted: &Wanted,
        start: impl FnOnce() -> Result<Child, RunError> + Send,
    ) -> Result<(Direct, Child), RunError> {
        check()?;
        let shared = Arc::new(Shared::new(Plan::of(wanted)?).map_err(DirectError::from)?);
        // Whose parent ends stays below this process: so it is known as the command's, and Yama lets it be reached.
        set_child_subreaper(Some(getpid())).map_err(|error| system(error.into()))?;
        thread::scope(|scope| {
            let (listening, listener) = mpsc::channel();
            let (attended, is_attended) = mpsc::channel();
            // The filter is of this thread and of what it starts, and this process is not asked about itself.
            let starter = scope.spawn(move || {
                let listener = Listener::install().map_err(DirectError::from)?;
                let _ = listening.send(listener);
                match is_attended.recv() {
                    Ok(()) => start(),
                    Err(_) => Err(lost()),
                }
            });
            let keeper = listener
                .recv()
                .ok()
                .map(|listener| attended_by(&shared, listener));
            let keeper = keeper.transpose()?;
            let _ = attended.send(());
            let child = starter.join().unwrap_or_else(|_| Err(lost()))?;
            let keeper = keeper.ok_or_else(lost)?;
            // Each connection takes one here while it is looked at. The command has begun with the limit that there was.
            raise_descriptor_limit();
            Ok((Direct { shared, keeper }, child))
        })
    }

    /// Ends, and says what the connections did.
    pub(crate) fn finish(self) -> Ended {
        let own = std::process::id() as i32;
        let left = descendants(own).into_iter();
        let left = left.filter(|process| *process != self.keeper.process());
        let left: Vec<u32> = left.map(|process| process as u32).collect();
        let summary = self.shared.finish();
        match left.is_empty() {
            true => self.keeper.bury(),
            false => self.shared.release(),
        }
        Ended { summary, left }
    }
}

/// Lets threads take care of what is received.
fn attended_by(shared: &Arc<Shared>, listener: Listener) -> Result<Keeper, DirectError> {
    let keeper = listener.outlive()?;
    let named = |name: &str| thread::Builder::new().name(name.to_owned());
    let of_watch = Arc::clone(shared);
    named("watch").spawn(move || watch(&of_watch))?;
    if shared.advice().is_some() {
        let of_advice = Arc::clone(shared);
        named("advice").spawn(move || of_advice.ask())?;
    }
    let of_attend = Arc::clone(shared);
    named("attend").spawn(move || attend(&of_attend, listener))?;
    Ok(keeper)
}

fn system(error: io::Error) -> RunError {
    DirectError::System(error).into()
}

fn lost() -> RunError {
    system(io::Error::other("a thread has ended"))
}

/// Whether sockets of a command can be reached.
///
/// # Errors
///
/// If the kernel is too old, or forbids it to processes without rights.
pub fn check() -> Result<(), DirectError> {
    let release = release();
    if version(&release).is_some_and(|version| version < FIRST_KERNEL) {
        return Err(DirectError::KernelTooOld { release });
    }
    // Without Yama, there is no such setting.
    let scope = sysctl("kernel.yama.ptrace_scope").and_then(|scope| scope.parse().ok());
    reach(scope.unwrap_or(0))?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let own = Process::open(std::process::id()).map_err(io::Error::from)?;
    match own.take(socket.as_raw_fd()) {
        Ok(_) => Ok(()),
        Err(error) => Err(DirectError::Forbidden(error.into())),
    }
}

fn reach(scope: u64) -> Result<(), DirectError> {
    match scope {
        0 | 1 => Ok(()),
        scope => Err(DirectError::OutOfReach { scope }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_reach_no_children_is_told_so() {
        check().unwrap();
        assert!(reach(0).is_ok() && reach(1).is_ok());
        let said = reach(2).unwrap_err().to_string();
        assert!(said.contains("kernel.yama.ptrace_scope is 2"), "{said}");
    }
}
