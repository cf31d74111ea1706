//! Programs in hosts, in their own PID namespace.
//!
//! The first process of the namespace is ours: it starts the programs, reaps orphans, and ends when
//! the command does; the kernel then kills whatever is left in the namespace. It is itself killed
//! when the thread that started it ends, for whatever reason.

mod init;
mod procfs;
mod program;
mod reexec;
mod report;
mod sysfs;

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use fairwind_kernel::{NamespaceType, SignalFd, SignalSet, exit_code, unshare};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, waitpid,
};
use serde::{Deserialize, Serialize};

use crate::clock::timespec;
use crate::error::{During, LabError};

pub(crate) use program::{Program, shell, with_placeholder};
pub(crate) use report::ProgramEvent;

use report::ReportReader;

/// How long programs may take to end once asked to.
const GRACE_PERIOD: Duration = Duration::from_millis(500);
/// How long their first process may take beyond that.
const FIRST_PROCESS_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// A command, and servers that run beside it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Programs {
    pub command: Program,
    pub servers: Vec<Program>,
    /// Start times. `None`: at once, and signals to this process are forwarded to the command.
    pub schedule: Option<Schedule>,
}

/// Times of CLOCK_MONOTONIC, nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Schedule {
    pub servers_ns: u64,
    /// The command starts at this time or, if later, once all servers listen.
    pub command_ns: u64,
}

/// The first process of the programs' PID namespace.
struct FirstProcess {
    pid: Pid,
    /// Readable once it has ended.
    pidfd: OwnedFd,
}

/// Runs the command beside the servers. Returns how it ended, as an exit code.
///
/// Call it on a thread that ends afterwards: with its children's PID namespace unshared, a thread
/// cannot start threads.
pub(crate) fn run(command: Program, servers: Vec<Program>) -> Result<u8, LabError> {
    let programs = Programs {
        command,
        servers,
        schedule: None,
    };
    let signals = SignalFd::new(SignalSet::forwarded()).during("waiting for signals")?;
    let forward = |process: &FirstProcess| {
        signals.forward(process.pid);
        Ok(())
    };
    let mut outcome = None;
    let on_report = |report: ProgramEvent| match report {
        ProgramEvent::CommandEnded(code) => outcome = Some(Ok(code)),
        ProgramEvent::Failed(text) => outcome = Some(Err(LabError::Failed(text))),
        ProgramEvent::FirstProcess(_) | ProgramEvent::ServerEnded(_) => {}
    };
    let status = supervise(&programs, signals.as_fd(), forward, on_report)?;
    outcome.unwrap_or_else(|| Ok(exit_code(status)))
}

/// Runs programs by their schedule until the command ends or `stop` becomes readable. None of their
/// processes is left when this returns.
///
/// Call it on a thread that ends afterwards: with its children's PID namespace unshared, a thread
/// cannot start threads.
pub(crate) fn run_scheduled(
    programs: &Programs,
    stop: BorrowedFd,
    on_report: impl FnMut(ProgramEvent),
) -> Result<(), LabError> {
    supervise(programs, stop, FirstProcess::terminate, on_report).map(drop)
}

/// Creates the namespace and its first process, and waits for that process to end. `on_event` is
/// called when `event` is readable.
fn supervise(
    programs: &Programs,
    event: BorrowedFd,
    on_event: impl FnMut(&FirstProcess) -> io::Result<()>,
    mut on_report: impl FnMut(ProgramEvent),
) -> Result<ExitStatus, LabError> {
    let (reports, report) = io::pipe().during("making a pipe")?;
    unshare(NamespaceType::Pid).during("making a PID namespace")?;
    let (pid, keep_alive) = reexec::start_first_process(programs, &report)?;
    drop(report);
    on_report(ProgramEvent::FirstProcess(pid.as_raw_pid()));
    let mut has_reported = false;
    let on_report = |report| {
        has_reported = true;
        on_report(report);
    };
    let ended = await_end(pid, reports, event, on_event, on_report);
    drop(keep_alive);
    let status = ended.during("waiting for programs")?;
    match status.code() {
        Some(code) if code != 0 && !has_reported => Err(LabError::Failed(format!(
            "the process that starts the programs ended with exit code {code} at once"
        ))),
        _ => Ok(status),
    }
}

/// Passes reports on and handles events until the first process has ended.
fn await_end(
    pid: Pid,
    reports: PipeReader,
    event: BorrowedFd,
    mut on_event: impl FnMut(&FirstProcess) -> io::Result<()>,
    mut on_report: impl FnMut(ProgramEvent),
) -> io::Result<ExitStatus> {
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    let process = FirstProcess { pid, pidfd };
    let mut reports = ReportReader::new(reports);
    loop {
        let fds = [process.pidfd.as_fd(), reports.as_fd(), event];
        let [ended, reported, happened] = readable(fds, None)?;
        if reported {
            reports.read(&mut on_report);
        }
        if ended {
            reports.read_to_end(&mut on_report);
            let status = waitpid(Some(pid), WaitOptions::empty())?;
            let (_, status) = status.expect("the call waits for the end of a child");
            return Ok(exit_status(status));
        }
        if happened {
            on_event(&process)?;
        }
    }
}

impl FirstProcess {
    /// Asks it to end the programs and itself, waits for that, and kills it if it takes too long.
    fn terminate(&self) -> io::Result<()> {
        let _ = kill_process(self.pid, Signal::TERM);
        let longest = GRACE_PERIOD + FIRST_PROCESS_GRACE_PERIOD;
        let [in_time] = readable([self.pidfd.as_fd()], Some(longest))?;
        if !in_time {
            let _ = kill_process(self.pid, Signal::KILL);
        }
        Ok(())
    }
}

/// Waits until a descriptor is readable or closed, at most for `longest` (`None`: without limit).
/// Returns which ones are.
fn readable<const N: usize>(
    fds: [BorrowedFd; N],
    longest: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let timeout = longest.map(|longest| timespec(longest.as_nanos() as u64));
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) => Ok(fds.map(|fd| !fd.revents().is_empty())),
        Err(Errno::INTR) => Ok([false; N]),
        Err(error) => Err(error.into()),
    }
}

fn exit_status(status: WaitStatus) -> ExitStatus {
    ExitStatus::from_raw(status.as_raw())
}
