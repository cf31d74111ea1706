//! A command, and a congestion control for its connections.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use fairwind_kernel::{BlockedSignals, SignalFd, SignalSet, exit_code};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};

use crate::attended::{Attended, Ended, Wanted};
use crate::control_group::{ControlGroup, Door};
use crate::direct::Direct;
use crate::error::RunError;

/// Between looks for what has happened to the command.
const PAUSE: Duration = Duration::from_millis(20);

/// How a command ended, and what its connections did.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit code, as a shell gives it.
    pub exit_code: u8,
    /// Its connections, or why they could not be watched until its end.
    pub ended: Result<Ended, RunError>,
}

/// Runs the command, and gives its connections what is wanted, until it ends. It has the caller's standard input and
/// outputs; meanwhile it gets the SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 that are sent to this process.
///
/// # Errors
///
/// If a privilege or a feature of the kernel is missing, or the command cannot be started. A command that fails is no error.
///
/// # Panics
///
/// If there is no command.
pub fn run(command: &[OsString], wanted: &Wanted) -> Result<Outcome, RunError> {
    let held_back = HeldBack::new()?;
    let group = ControlGroup::make()?;
    let door = group.door().map_err(RunError::Wait)?;
    let mut attended = Attended::start(group, wanted)?;
    let child = start(command, Some(door), held_back.mask())?;
    let exit_code = held_back.wait_for(&child, || attended.step())?;
    Ok(Outcome {
        exit_code,
        ended: attended.finish(),
    })
}

/// The same, while somebody else takes care of its connections: returns the exit code.
///
/// # Errors
///
/// As of [`run`].
///
/// # Panics
///
/// As of [`run`].
pub fn run_attended_by_other(command: &[OsString]) -> Result<u8, RunError> {
    let held_back = HeldBack::new()?;
    let child = start(command, None, held_back.mask())?;
    held_back.wait_for(&child, pause)
}

/// The same without any right, and so without what needs one.
///
/// # Errors
///
/// If nothing of what is wanted can be done without, or the command cannot be started.
///
/// # Panics
///
/// As of [`run`].
pub fn run_direct(command: &[OsString], wanted: &Wanted) -> Result<Outcome, RunError> {
    let held_back = HeldBack::new()?;
    let mask = held_back.mask();
    let (direct, child) = Direct::start(wanted, || start(command, None, mask))?;
    let exit_code = held_back.wait_for(&child, pause)?;
    Ok(Outcome {
        exit_code,
        ended: Ok(direct.finish()),
    })
}

fn pause() {
    std::thread::sleep(PAUSE);
}

/// Signals for the command, held back until they are passed on to it.
struct HeldBack {
    blocked: BlockedSignals,
    signals: SignalFd,
}

impl HeldBack {
    /// Before any thread is started.
    fn new() -> Result<HeldBack, RunError> {
        Ok(HeldBack {
            blocked: BlockedSignals::new().map_err(RunError::Wait)?,
            signals: SignalFd::new(SignalSet::forwarded()).map_err(RunError::Wait)?,
        })
    }

    /// What the command has blocked.
    fn mask(&self) -> SignalSet {
        self.blocked.before()
    }

    /// Passes them on until the command ends, and calls again and again meanwhile. Returns its exit code.
    fn wait_for(&self, child: &Child, mut meanwhile: impl FnMut()) -> Result<u8, RunError> {
        let child = Pid::from_child(child);
        loop {
            // Others are the command's whose parents have ended before them.
            while let Some((ended, status)) = ended_child().map_err(RunError::Wait)? {
                if ended == child {
                    return Ok(exit_code(ExitStatus::from_raw(status.as_raw())));
                }
            }
            forward(&self.signals, child).map_err(RunError::Wait)?;
            meanwhile();
        }
    }
}

/// Any child that has ended.
fn ended_child() -> io::Result<Option<(Pid, WaitStatus)>> {
    match wait(WaitOptions::NOHANG) {
        Err(Errno::INTR) => Ok(None),
        result => Ok(result?),
    }
}

fn start(command: &[OsString], door: Option<Door>, mask: SignalSet) -> Result<Child, RunError> {
    let (command, arguments) = command.split_first().expect("a command");
    let mut child = Command::new(command);
    child.args(arguments);
    let enter = move || {
        mask.set_mask()?;
        door.as_ref().map_or(Ok(()), Door::enter)
    };
    // SAFETY: between fork and exec it makes system calls only.
    unsafe { child.pre_exec(enter) };
    child.spawn().map_err(|source| RunError::Command {
        command: command.clone(),
        source,
    })
}

/// Passes on the signals that have come.
fn forward(signals: &SignalFd, child: Pid) -> io::Result<()> {
    loop {
        let mut fds = [PollFd::new(signals, PollFlags::IN)];
        if poll(&mut fds, Some(&Timespec::default()))? == 0 {
            return Ok(());
        }
        signals.forward(child);
    }
}
