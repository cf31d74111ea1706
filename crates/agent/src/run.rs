//! A command, and a congestion control for its connections.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use fairwind_kernel::{BlockedSignals, SignalFd, SignalSet, exit_code};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

use crate::attended::{Attended, Ended, Wanted};
use crate::control_group::{ControlGroup, Door};
use crate::error::RunError;

/// How a command ended, and what its connections did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its exit code, as a shell gives it.
    pub exit_code: u8,
    /// Its connections.
    pub ended: Ended,
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
    let group = ControlGroup::make()?;
    let door = group.door().map_err(RunError::Wait)?;
    let mut attended = Attended::start(group, wanted)?;
    let exit_code = execute(command, Some(door), || attended.step())?;
    Ok(Outcome {
        exit_code,
        ended: attended.finish()?,
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
    execute(command, None, || {
        std::thread::sleep(Duration::from_millis(20));
        Ok(())
    })
}

/// Starts the command, in the control group behind the door, and calls again and again while it runs.
fn execute(
    command: &[OsString],
    door: Option<Door>,
    mut meanwhile: impl FnMut() -> Result<(), RunError>,
) -> Result<u8, RunError> {
    let held_back = BlockedSignals::new().map_err(RunError::Wait)?;
    let signals = SignalFd::new(SignalSet::forwarded()).map_err(RunError::Wait)?;
    let mut child = start(command, door, held_back.before())?;
    loop {
        if let Some(status) = child.try_wait().map_err(RunError::Wait)? {
            return Ok(exit_code(status));
        }
        forward(&signals, &child).map_err(RunError::Wait)?;
        meanwhile()?;
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
fn forward(signals: &SignalFd, child: &Child) -> io::Result<()> {
    let child = Pid::from_child(child);
    loop {
        let mut fds = [PollFd::new(signals, PollFlags::IN)];
        if poll(&mut fds, Some(&Timespec::default()))? == 0 {
            return Ok(());
        }
        signals.forward(child);
    }
}
