//! The first process of the programs' namespace, and what it does for them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, setsid};

use super::{ENDS_WITHIN, News, Programs, Schedule, exit_code, pass_on, passed_on, readable, say};
use crate::LabError;
use crate::program::Program;

/// How long a server may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(30);

/// What the first process of the namespace does; answers its exit code.
pub fn first_process(
    programs: &Programs,
    alive: &PipeReader,
    report: &PipeWriter,
) -> Result<u8, LabError> {
    set_pdeathsig(Signal::SIGKILL)
        .map_err(|error| LabError::system("asking to be killed with the emulator", error))?;
    if readable([alive.as_fd()], Some(Duration::ZERO)).is_ok_and(|[ended]| ended) {
        return Ok(1);
    }
    if programs.schedule.is_some() {
        detach(programs, &[alive.as_raw_fd(), report.as_raw_fd()]);
    }
    let mut mask = passed_on();
    mask.add(Signal::SIGCHLD);
    let failed = |error: Errno| LabError::system("waiting for signals", error);
    mask.thread_set_mask().map_err(failed)?;
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC).map_err(failed)?;
    own_proc()?;
    let mut keeper = Keeper {
        signals,
        servers: Vec::new(),
        asked_to_end: false,
    };
    let code = match programs.schedule {
        None => keeper.attend_command(programs).map(Some)?,
        Some(schedule) => keeper.follow(programs, schedule, report)?,
    };
    if let Some(code) = code {
        say(report, &News::CommandEnded(code));
    }
    keeper.end(programs);
    Ok(code.unwrap_or(0))
}

/// Takes the programs out of the terminal's reach, and lets go of everything that they do not need:
/// a socket that this process closes must be closed.
fn detach(programs: &Programs, needed: &[RawFd]) {
    let _ = setsid();
    let all = std::iter::once(&programs.command).chain(&programs.servers);
    let mut keep: Vec<RawFd> = all.flat_map(Program::descriptors).collect();
    keep.extend([0, 1, 2]);
    keep.extend(needed);
    keep.sort_unstable();
    let mut first = 0;
    for fd in keep.into_iter().chain([RawFd::MAX]) {
        if fd > first {
            // SAFETY: what is closed belongs to structures of the parent that this process never uses.
            unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0) };
        }
        first = fd.saturating_add(1);
    }
}

/// Shows the programs their own processes in /proc, and nobody else.
fn own_proc() -> Result<(), LabError> {
    let failed = |error: Errno| LabError::system("mounting /proc for the programs", error);
    unshare(CloneFlags::CLONE_NEWNS).map_err(failed)?;
    let nothing: Option<&str> = None;
    let slave = |point: &str| {
        let flags = MsFlags::MS_REC | MsFlags::MS_SLAVE;
        mount(nothing, point, nothing, flags, nothing)
    };
    match slave("/") {
        // Behind chroot(2) the root is seldom a mount point; what is mounted below it still is.
        Err(Errno::EINVAL) => {
            let mounted = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            mount_points(&mounted).try_for_each(|point| slave(&point))
        }
        other => other,
    }
    .map_err(failed)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, nothing).map_err(failed)
}

/// The places in the text of `/proc/PID/mountinfo`, each once, as proc(5) says that they are written.
fn mount_points(mountinfo: &str) -> impl Iterator<Item = String> {
    let places = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    let places: BTreeSet<&str> = places.collect();
    places.into_iter().map(|place| {
        let written = [
            ("\\040", " "),
            ("\\011", "\t"),
            ("\\012", "\n"),
            ("\\134", "\\"),
        ];
        let plain = |text: String, (written, meant): &(&str, &str)| text.replace(written, meant);
        written.iter().fold(place.to_owned(), plain)
    })
}

/// What the first process does for the programs.
struct Keeper {
    signals: SignalFd,
    /// Those that run, by the number in `Programs::servers`.
    servers: Vec<(usize, Pid)>,
    asked_to_end: bool,
}

impl Keeper {
    /// Runs servers and command at once; signals go to the command. Answers its exit code.
    fn attend_command(&mut self, programs: &Programs) -> Result<u8, LabError> {
        self.start_servers(programs)?;
        let command = programs.command.start()?;
        loop {
            for (pid, status) in reap() {
                if pid == command {
                    return Ok(exit_code(status));
                }
                self.servers.retain(|&(_, server)| server != pid);
            }
            self.wait(None);
            while readable([self.signals.as_fd()], Some(Duration::ZERO)) == Ok([true]) {
                pass_on(&self.signals, command);
            }
        }
    }

    /// Runs servers and command by their schedule until the command ends or this process is asked to
    /// end. Answers the command's exit code if it ended.
    fn follow(
        &mut self,
        programs: &Programs,
        schedule: Schedule,
        report: &PipeWriter,
    ) -> Result<Option<u8>, LabError> {
        self.sleep_until(schedule.servers);
        if !self.asked_to_end {
            self.start_servers(programs)?;
        }
        self.sleep_until(schedule.command);
        if self.asked_to_end {
            return Ok(None);
        }
        let command = programs.command.start()?;
        loop {
            for (pid, status) in reap() {
                if pid == command {
                    return Ok(Some(exit_code(status)));
                }
                self.on_server_end(programs, pid, status, report);
            }
            if self.asked_to_end {
                return Ok(None);
            }
            self.wait(None);
            self.read_signals();
        }
    }

    /// Starts one server after the other, each when the one before listens.
    fn start_servers(&mut self, programs: &Programs) -> Result<(), LabError> {
        for (number, server) in programs.servers.iter().enumerate() {
            let pid = server.start()?;
            self.servers.push((number, pid));
            self.await_listening(server, pid)?;
        }
        Ok(())
    }

    /// Waits until the server listens.
    fn await_listening(&mut self, server: &Program, pid: Pid) -> Result<(), LabError> {
        let started = Instant::now();
        while started.elapsed() < LISTENS_WITHIN && !self.asked_to_end {
            if server.listens()? {
                return Ok(());
            }
            let ended = waitpid(pid, Some(WaitPidFlag::WNOHANG));
            if let Ok(status @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..))) = ended
                && exit_code(status) != 0
            {
                return Err(LabError::Program(format!(
                    "the server `{}` ended with exit code {} before it listened",
                    server.text(),
                    exit_code(status)
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if self.asked_to_end {
            return Ok(());
        }
        Err(LabError::Program(format!(
            "the server `{}` does not listen on any port after {} s",
            server.text(),
            LISTENS_WITHIN.as_secs()
        )))
    }

    /// A server or an orphan has ended while the command runs.
    fn on_server_end(
        &mut self,
        programs: &Programs,
        pid: Pid,
        status: WaitStatus,
        report: &PipeWriter,
    ) {
        let Some(at) = self.servers.iter().position(|&(_, server)| server == pid) else {
            return;
        };
        let (number, _) = self.servers.remove(at);
        if exit_code(status) != 0 {
            let text = programs.servers[number].text();
            let code = exit_code(status);
            say(
                report,
                &News::ServerEnded(format!(
                    "the server `{text}` ended with exit code {code} before the client"
                )),
            );
        }
    }

    /// Sleeps until a time of CLOCK_MONOTONIC, or until it is asked to end.
    fn sleep_until(&mut self, time: TimeSpec) {
        while !self.asked_to_end {
            let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or(time);
            if now >= time {
                return;
            }
            let left = Duration::from(time - now);
            // Poll counts milliseconds: the last of them is slept.
            match left.as_millis() {
                0 => std::thread::sleep(left),
                _ => self.wait(Some(left)),
            }
            self.read_signals();
        }
    }

    /// Waits for a signal.
    fn wait(&self, longest: Option<Duration>) {
        let _ = readable([self.signals.as_fd()], longest);
    }

    /// Takes the signals that have come: all but that of a child's end ask to end.
    fn read_signals(&mut self) {
        while readable([self.signals.as_fd()], Some(Duration::ZERO)) == Ok([true]) {
            if let Ok(Some(info)) = self.signals.read_signal() {
                self.asked_to_end |= info.ssi_signo != Signal::SIGCHLD as u32;
            }
        }
    }

    /// Asks what still runs to end and gives it some time: of a schedule everything, otherwise the
    /// servers.
    fn end(&mut self, programs: &Programs) {
        match programs.schedule {
            // All of this namespace but the first process.
            Some(_) => drop(kill(Pid::from_raw(-1), Signal::SIGTERM)),
            None => {
                for &(_, server) in &self.servers {
                    let _ = kill(server, Signal::SIGTERM);
                }
            }
        }
        let asked = Instant::now();
        while asked.elapsed() < ENDS_WITHIN {
            for (pid, _) in reap() {
                self.servers.retain(|&(_, server)| server != pid);
            }
            let all_ended = match programs.schedule {
                Some(_) => waitpid(None, Some(WaitPidFlag::WNOHANG)) == Err(Errno::ECHILD),
                None => self.servers.is_empty(),
            };
            if all_ended {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Reaps what has ended.
fn reap() -> Vec<(Pid, WaitStatus)> {
    let mut ended = Vec::new();
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        let Some(pid) = status.pid() else { break };
        ended.push((pid, status));
    }
    ended
}
