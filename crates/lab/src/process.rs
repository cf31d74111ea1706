//! Programs in hosts, in a PID namespace of their own.
//!
//! Its first process is ours: it starts the programs, passes signals on to the command, reaps what is
//! orphaned, and ends with the command; then the kernel kills whatever is left in the namespace. It
//! is itself killed when the thread that started it ends, however that comes about.

use std::ffi::OsString;
use std::fs;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use crate::LabError;
use crate::host::Host;

/// How long a server may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(5);
/// How long a server may take to end when the command has ended.
const ENDS_WITHIN: Duration = Duration::from_millis(500);

/// A program in a host.
#[derive(Clone, Debug)]
pub struct Program {
    pub host: Host,
    /// The program and its arguments; not empty.
    pub words: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
}

/// Signals that are passed on to the command.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Holds back the signals that are for the command, from now on and in threads started from now on;
/// call it before any is started. Dropping it undoes it for the calling thread.
pub struct HeldBack {
    before: SigSet,
}

impl HeldBack {
    pub fn new() -> Result<HeldBack, LabError> {
        passed_on()
            .thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK)
            .map(|before| HeldBack { before })
            .map_err(|error| LabError::system("holding signals back", error))
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}

fn passed_on() -> SigSet {
    PASSED_ON.into_iter().collect()
}

/// Runs the command, with the servers running before and beside it. Answers how it ended, as an exit
/// code.
///
/// The calling thread is not fit to start threads afterwards: use one of its own.
pub fn run(command: &Program, servers: &[Program]) -> Result<u8, LabError> {
    let signals = SignalFd::with_flags(&passed_on(), SfdFlags::SFD_CLOEXEC)
        .map_err(|error| LabError::system("waiting for signals", error))?;
    let pipe = || io::pipe().map_err(|error| LabError::system("making a pipe", error));
    let (alive, keep_alive) = pipe()?;
    let (mut failure, report) = pipe()?;
    unshare(CloneFlags::CLONE_NEWPID)
        .map_err(|error| LabError::system("making a PID namespace", error))?;
    // SAFETY: the child does not return into code that knows of other threads; the C library makes
    // its allocator usable behind a fork.
    match unsafe { fork() }.map_err(|error| LabError::system("starting a process", error))? {
        ForkResult::Child => {
            drop((keep_alive, failure));
            let code = first_process(command, servers, &alive).unwrap_or_else(|error| {
                let _ = (&report).write_all(error.to_string().as_bytes());
                1
            });
            // SAFETY: ends the process without running what its parent registered to run at exit.
            unsafe { libc::_exit(code.into()) }
        }
        ForkResult::Parent { child } => {
            drop((alive, report));
            let status = supervise(child, &signals);
            drop(keep_alive);
            let status = status.map_err(|error| LabError::system("waiting for programs", error))?;
            let mut text = String::new();
            let _ = failure.read_to_string(&mut text);
            match text.is_empty() {
                true => Ok(exit_code(status)),
                false => Err(LabError::Program(text)),
            }
        }
    }
}

/// Passes signals on until the first process of the namespace has ended.
fn supervise(child: Pid, signals: &SignalFd) -> nix::Result<WaitStatus> {
    let ended = pidfd(child)?;
    loop {
        let mut fds = [
            PollFd::new(ended.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        if fds[1].any() == Some(true) {
            pass_on(signals, child);
        }
        if fds[0].any() == Some(true) {
            return waitpid(child, None);
        }
    }
}

/// Passes one signal on, unless the terminal has sent it to the whole group already.
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
    // SAFETY: the descriptor has just been opened and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn exit_code(status: WaitStatus) -> u8 {
    match status {
        WaitStatus::Exited(_, code) => code as u8,
        WaitStatus::Signaled(_, signal, _) => 128 + signal as u8,
        _ => 1,
    }
}

/// What the first process of the namespace does; answers its exit code.
fn first_process(
    command: &Program,
    servers: &[Program],
    alive: &PipeReader,
) -> Result<u8, LabError> {
    set_pdeathsig(Signal::SIGKILL)
        .map_err(|error| LabError::system("asking to be killed with the emulator", error))?;
    if has_ended(alive) {
        return Ok(1);
    }
    let mut mask = passed_on();
    mask.add(Signal::SIGCHLD);
    let failed = |error: Errno| LabError::system("waiting for signals", error);
    mask.thread_set_mask().map_err(failed)?;
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC).map_err(failed)?;
    own_proc()?;
    let mut running = Vec::new();
    for server in servers {
        let pid = start(server)?;
        await_listening(server, pid)?;
        running.push(pid);
    }
    let command = start(command)?;
    let code = loop {
        if let Some(code) = reap(command, &mut running) {
            break code;
        }
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::NONE).is_ok() {
            pass_on(&signals, command);
        }
    };
    end(&mut running);
    Ok(code)
}

/// True if the process with the other end of the pipe is gone.
fn has_ended(alive: &PipeReader) -> bool {
    let mut fds = [PollFd::new(alive.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// Shows the programs their own processes in /proc, and nobody else.
fn own_proc() -> Result<(), LabError> {
    let failed = |error: Errno| LabError::system("mounting /proc for the programs", error);
    unshare(CloneFlags::CLONE_NEWNS).map_err(failed)?;
    let nothing: Option<&str> = None;
    let slave = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    mount(nothing, "/", nothing, slave, nothing).map_err(failed)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, nothing).map_err(failed)
}

/// Starts a program in its host.
fn start(program: &Program) -> Result<Pid, LabError> {
    let name = program.words[0].to_string_lossy().into_owned();
    let namespace = program.host.namespace().as_fd().try_clone_to_owned();
    let namespace =
        namespace.map_err(|error| LabError::system(format!("starting {name}"), error))?;
    let mut command = Command::new(&program.words[0]);
    command
        .args(&program.words[1..])
        .envs(program.environment.iter().map(|(k, v)| (k, v)));
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || Ok(setns(&namespace, CloneFlags::CLONE_NEWNET)?));
    }
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LabError::Program(format!("{name}: no such program")),
        _ => LabError::Program(format!("{name} does not start: {error}")),
    })?;
    Ok(Pid::from_raw(child.id() as i32))
}

/// Reaps what has ended. The exit code of the command, if it is among them.
fn reap(command: Pid, running: &mut Vec<Pid>) -> Option<u8> {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        let pid = status.pid()?;
        if pid == command {
            return Some(exit_code(status));
        }
        running.retain(|&server| server != pid);
    }
    None
}

/// Waits until a socket in the server's host listens.
fn await_listening(server: &Program, pid: Pid) -> Result<(), LabError> {
    let text = || server.words.last().map(|word| word.to_string_lossy());
    let started = Instant::now();
    while started.elapsed() < LISTENS_WITHIN {
        if server.host.within(|| Ok(anything_listens()))? {
            return Ok(());
        }
        let ended = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        if let Ok(status @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..))) = ended
            && exit_code(status) != 0
        {
            return Err(LabError::Program(format!(
                "the server `{}` ended with exit code {} before it listened",
                text().unwrap_or_default(),
                exit_code(status)
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(LabError::Program(format!(
        "the server `{}` does not listen on any port after {} s",
        text().unwrap_or_default(),
        LISTENS_WITHIN.as_secs()
    )))
}

/// True if the thread's network namespace has a listening TCP or a bound UDP socket.
fn anything_listens() -> bool {
    let table = |name: &str| {
        fs::read_to_string(Path::new("/proc/thread-self/net").join(name)).unwrap_or_default()
    };
    let listens = |table: &str| table.lines().any(|line| state(line) == Some("0A"));
    let bound = |table: &str| table.lines().any(|line| state(line) == Some("07"));
    listens(&table("tcp"))
        || listens(&table("tcp6"))
        || bound(&table("udp"))
        || bound(&table("udp6"))
}

/// The column `st` of a line in /proc/net/tcp or udp.
fn state(line: &str) -> Option<&str> {
    line.split_whitespace().nth(3)
}

/// Asks the servers to end and gives them some time.
fn end(running: &mut Vec<Pid>) {
    for &server in running.iter() {
        let _ = kill(server, Signal::SIGTERM);
    }
    let asked = Instant::now();
    while !running.is_empty() && asked.elapsed() < ENDS_WITHIN {
        std::thread::sleep(Duration::from_millis(2));
        reap(Pid::from_raw(0), running);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_socket_has_state_0a() {
        let line = "   0: 0100007F:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000";
        assert_eq!(state(line), Some("0A"));
        assert_eq!(state(""), None);
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let pid = Pid::from_raw(1);
        assert_eq!(exit_code(WaitStatus::Exited(pid, 3)), 3);
        let killed = WaitStatus::Signaled(pid, Signal::SIGKILL, false);
        assert_eq!(exit_code(killed), 137);
    }
}
