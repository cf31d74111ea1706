//! Programs in hosts, in their own PID namespace.
//!
//! The first process of the namespace is ours: it starts the programs, reaps orphans, and ends when
//! the command does; the kernel then kills whatever is left in the namespace. It is itself killed
//! when the thread that started it ends, for whatever reason.

mod init;
mod program;
mod reexec;
mod sysfs;

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::LabError;

pub use program::{Output, Program, shell, socket_inode, with_placeholder};

/// How long programs may take to end once asked to.
const ENDS_WITHIN: Duration = Duration::from_millis(500);
/// How long their first process may take beyond that.
const ENDS_SURELY_WITHIN: Duration = Duration::from_secs(1);

/// A command, and servers that run beside it.
#[derive(Clone, Debug)]
pub struct Programs {
    pub command: Program,
    pub servers: Vec<Program>,
    /// Start times. `None`: at once, and signals to this process are passed on to the command.
    pub schedule: Option<Schedule>,
}

/// Times of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub servers: TimeSpec,
    /// The command starts at this time or, if later, once all servers listen.
    pub command: TimeSpec,
}

/// A report about running programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramEvent {
    /// The PID of the namespace's first process, in this process' PID namespace.
    FirstProcess(i32),
    /// The command ended with this exit code; 128 plus the signal's number if a signal ended it.
    CommandEnded(u8),
    /// A server failed while the command ran.
    ServerEnded(String),
    /// The programs could not be run.
    Failed(String),
}

/// Signals passed on to the command.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Blocks the signals that are for the command, in the calling thread and in threads that it starts
/// from now on. Call it before any thread is started. Dropping it restores the calling thread's
/// mask.
pub struct BlockedSignals {
    before: SigSet,
}

impl BlockedSignals {
    pub fn new() -> Result<BlockedSignals, LabError> {
        passed_on()
            .thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK)
            .map(|before| BlockedSignals { before })
            .map_err(|error| LabError::system("holding signals back", error))
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}

fn passed_on() -> SigSet {
    PASSED_ON.into_iter().collect()
}

/// Runs the command beside the servers. Returns how it ended, as an exit code.
///
/// Call it on a thread that ends afterwards: with its children's PID namespace unshared, a thread
/// cannot start threads.
pub fn run(command: &Program, servers: &[Program]) -> Result<u8, LabError> {
    let programs = Programs {
        command: command.clone(),
        servers: servers.to_vec(),
        schedule: None,
    };
    let signals = SignalFd::with_flags(&passed_on(), SfdFlags::SFD_CLOEXEC)
        .map_err(|error| LabError::system("waiting for signals", error))?;
    let mut outcome = None;
    let status = supervise(
        &programs,
        signals.as_fd(),
        |child| pass_on(&signals, child),
        |news| match news {
            ProgramEvent::CommandEnded(code) => outcome = Some(Ok(code)),
            ProgramEvent::Failed(text) => outcome = Some(Err(LabError::Program(text))),
            ProgramEvent::FirstProcess(_) | ProgramEvent::ServerEnded(_) => {}
        },
    )?;
    outcome.unwrap_or_else(|| Ok(exit_code(status)))
}

/// Runs programs by their schedule until the command ends or `stop` becomes readable. None of their
/// processes is left when this returns.
///
/// Call it on a thread that ends afterwards: with its children's PID namespace unshared, a thread
/// cannot start threads.
pub fn run_scheduled(
    programs: &Programs,
    stop: BorrowedFd,
    hear: impl FnMut(ProgramEvent),
) -> Result<(), LabError> {
    let ask_to_end = |child| {
        let _ = kill(child, Signal::SIGTERM);
    };
    supervise(programs, stop, ask_to_end, hear).map(drop)
}

/// Creates the namespace and its first process, and waits for that process to end. `on_event` is
/// called when `event` is readable; for scheduled programs once, after which they have to end.
fn supervise(
    programs: &Programs,
    event: BorrowedFd,
    on_event: impl FnMut(Pid),
    mut hear: impl FnMut(ProgramEvent),
) -> Result<WaitStatus, LabError> {
    let (reports, report) = io::pipe().map_err(|error| LabError::system("making a pipe", error))?;
    unshare(CloneFlags::CLONE_NEWPID)
        .map_err(|error| LabError::system("making a PID namespace", error))?;
    let (child, keep_alive) = reexec::start_first_process(programs, &report)?;
    drop(report);
    hear(ProgramEvent::FirstProcess(child.as_raw()));
    let mut has_reported = false;
    let mut hear = |news| {
        has_reported = true;
        hear(news);
    };
    let ended = match programs.schedule {
        None => attend(child, reports, event, on_event, &mut hear),
        Some(_) => attend_and_end(child, reports, event, on_event, &mut hear),
    };
    drop(keep_alive);
    let status = ended.map_err(|error| LabError::system("waiting for programs", error))?;
    match status {
        WaitStatus::Exited(_, code) if code != 0 && !has_reported => Err(LabError::Program(
            format!("the process that starts the programs ended with exit code {code} at once"),
        )),
        _ => Ok(status),
    }
}

/// Forwards reports and handles events until the first process has ended.
fn attend(
    child: Pid,
    reports: PipeReader,
    event: BorrowedFd,
    mut on_event: impl FnMut(Pid),
    mut hear: impl FnMut(ProgramEvent),
) -> nix::Result<WaitStatus> {
    let ended = pidfd(child)?;
    let mut ear = ReportReader::new(reports);
    loop {
        let [has_ended, reported, happened] =
            readable([ended.as_fd(), ear.pipe.as_fd(), event], None)?;
        if happened {
            on_event(child);
        }
        if reported {
            ear.listen(&mut hear);
        }
        if has_ended {
            ear.listen_to_the_end(&mut hear);
            return waitpid(child, None);
        }
    }
}

/// Like [`attend`], but after the first event the first process must end soon, or is killed.
fn attend_and_end(
    child: Pid,
    reports: PipeReader,
    event: BorrowedFd,
    mut on_event: impl FnMut(Pid),
    mut hear: impl FnMut(ProgramEvent),
) -> nix::Result<WaitStatus> {
    let ended = pidfd(child)?;
    let mut ear = ReportReader::new(reports);
    loop {
        let [has_ended, reported, happened] =
            readable([ended.as_fd(), ear.pipe.as_fd(), event], None)?;
        if reported {
            ear.listen(&mut hear);
        }
        if happened && !has_ended {
            on_event(child);
            let [in_time] = readable([ended.as_fd()], Some(ENDS_WITHIN + ENDS_SURELY_WITHIN))?;
            if !in_time {
                let _ = kill(child, Signal::SIGKILL);
            }
        }
        if has_ended || happened {
            let status = waitpid(child, None);
            ear.listen_to_the_end(&mut hear);
            return status;
        }
    }
}

/// Waits until a descriptor is readable or closed, at most for `longest` (`None`: without limit).
/// Returns which ones are.
fn readable<const N: usize>(
    fds: [BorrowedFd; N],
    longest: Option<Duration>,
) -> nix::Result<[bool; N]> {
    let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let timeout = longest.map_or(PollTimeout::NONE, |longest| {
        PollTimeout::try_from(longest).unwrap_or(PollTimeout::MAX)
    });
    match poll(&mut fds, timeout) {
        Ok(_) => Ok(fds.map(|fd| fd.any() == Some(true))),
        Err(Errno::EINTR) => Ok([false; N]),
        Err(error) => Err(error),
    }
}

/// Reads the reports of the first process, line by line.
struct ReportReader {
    pipe: PipeReader,
    heard: Vec<u8>,
    ended: bool,
}

impl ReportReader {
    fn new(pipe: PipeReader) -> ReportReader {
        ReportReader {
            pipe,
            heard: Vec::new(),
            ended: false,
        }
    }

    /// Reads once, waiting if there is nothing to read.
    fn listen(&mut self, hear: &mut impl FnMut(ProgramEvent)) {
        let mut buffer = [0; 4096];
        let len = self.pipe.read(&mut buffer).unwrap_or(0);
        self.ended = len == 0;
        self.heard.extend(&buffer[..len]);
        while let Some(end) = self.heard.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.heard.drain(..=end).collect();
            if let Some(news) = ProgramEvent::parse(&String::from_utf8_lossy(&line)) {
                hear(news);
            }
        }
    }

    fn listen_to_the_end(&mut self, hear: &mut impl FnMut(ProgramEvent)) {
        while !self.ended {
            self.listen(hear);
        }
    }
}

impl ProgramEvent {
    /// The report as one line.
    fn line(&self) -> String {
        let (kind, text) = match self {
            ProgramEvent::FirstProcess(pid) => ('P', pid.to_string()),
            ProgramEvent::CommandEnded(code) => ('C', code.to_string()),
            ProgramEvent::ServerEnded(text) => ('S', text.clone()),
            ProgramEvent::Failed(text) => ('F', text.clone()),
        };
        format!("{kind}{}\n", text.replace('\n', " "))
    }

    fn parse(line: &str) -> Option<ProgramEvent> {
        let line = line.trim_end_matches('\n');
        let text = line.get(1..)?;
        match line.get(..1)? {
            "P" => text.parse().ok().map(ProgramEvent::FirstProcess),
            "C" => text.parse().ok().map(ProgramEvent::CommandEnded),
            "S" => Some(ProgramEvent::ServerEnded(text.to_owned())),
            "F" => Some(ProgramEvent::Failed(text.to_owned())),
            _ => None,
        }
    }
}

fn say(mut report: &PipeWriter, news: &ProgramEvent) {
    // Fails only if nobody reads the reports any more.
    let _ = report.write_all(news.line().as_bytes());
}

/// Passes one signal on to `to`, unless the terminal sent it, and so to the whole process group.
fn pass_on(signals: &SignalFd, to: Pid) {
    if let Ok(Some(info)) = signals.read_signal()
        && info.ssi_code <= 0
        && let Ok(signal) = Signal::try_from(info.ssi_signo as i32)
    {
        let _ = kill(to, signal);
    }
}

fn pidfd(pid: Pid) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) })?;
    // SAFETY: the descriptor has just been opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn exit_code(status: WaitStatus) -> u8 {
    match status {
        WaitStatus::Exited(_, code) => code as u8,
        WaitStatus::Signaled(_, signal, _) => 128 + signal as u8,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let pid = Pid::from_raw(1);
        assert_eq!(exit_code(WaitStatus::Exited(pid, 3)), 3);
        let killed = WaitStatus::Signaled(pid, Signal::SIGKILL, false);
        assert_eq!(exit_code(killed), 137);
    }

    #[test]
    fn news_are_lines() {
        let news = ProgramEvent::ServerEnded("two\nlines".to_owned());
        assert_eq!(news.line(), "Stwo lines\n");
        assert_eq!(
            ProgramEvent::parse("C7\n"),
            Some(ProgramEvent::CommandEnded(7))
        );
        assert_eq!(ProgramEvent::parse("\n"), None);
    }

    #[test]
    fn what_has_ended_is_heard_to_the_end() {
        let (pipe, writer) = io::pipe().unwrap();
        say(&writer, &ProgramEvent::Failed("no".to_owned()));
        say(&writer, &ProgramEvent::CommandEnded(3));
        drop(writer);
        let mut heard = Vec::new();
        ReportReader::new(pipe).listen_to_the_end(&mut |news| heard.push(news));
        let expected = [
            ProgramEvent::Failed("no".to_owned()),
            ProgramEvent::CommandEnded(3),
        ];
        assert_eq!(heard, expected);
    }
}
