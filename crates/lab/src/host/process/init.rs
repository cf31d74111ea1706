//! The first process of the programs' PID namespace: it starts, reaps and ends them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{PipeReader, PipeWriter};
use std::os::fd::AsFd;
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

use super::program::Program;
use super::{
    ENDS_WITHIN, ProgramEvent, Programs, Schedule, exit_code, pass_on, passed_on, readable, say,
};
use crate::LabError;

/// How long a server may take to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(30);

/// The main function of the first process; returns its exit code.
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
        // Leaves the terminal, whose signals are for the process that started this one.
        let _ = setsid();
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
        say(report, &ProgramEvent::CommandEnded(code));
    }
    keeper.end(programs);
    Ok(code.unwrap_or(0))
}

/// Mounts a /proc of the programs' own PID namespace, visible to them alone.
fn own_proc() -> Result<(), LabError> {
    let failed = |error: Errno| LabError::system("mounting /proc for the programs", error);
    unshare(CloneFlags::CLONE_NEWNS).map_err(failed)?;
    let nothing: Option<&str> = None;
    let slave = |point: &str| {
        let flags = MsFlags::MS_REC | MsFlags::MS_SLAVE;
        mount(nothing, point, nothing, flags, nothing)
    };
    match slave("/") {
        // Under chroot(2) the root is seldom a mount point, but the mounts below it are.
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

/// The mount points in the text of `/proc/PID/mountinfo`, each once, without the escapes that
/// proc(5) describes.
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

/// The state of the first process.
struct Keeper {
    signals: SignalFd,
    /// Running servers, with their index in `Programs::servers`.
    servers: Vec<(usize, Pid)>,
    asked_to_end: bool,
}

impl Keeper {
    /// Starts the servers and the command at once, and passes signals on to the command. Returns
    /// its exit code.
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

    /// Runs servers and command by their schedule until the command ends or this process is asked
    /// to end. Returns the command's exit code if it ended.
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

    /// Starts the servers in turn, each once the previous one listens.
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

    /// Reports a failed server; `pid` is a server or an orphan that ended while the command runs.
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
                &ProgramEvent::ServerEnded(format!(
                    "the server `{text}` ended with exit code {code} before the client"
                )),
            );
        }
    }

    /// Sleeps until `time` of CLOCK_MONOTONIC, or until this process is asked to end.
    fn sleep_until(&mut self, time: TimeSpec) {
        while !self.asked_to_end {
            let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or(time);
            if now >= time {
                return;
            }
            let left = Duration::from(time - now);
            // Poll has a resolution of milliseconds, so the last fraction is slept.
            match left.as_millis() {
                0 => std::thread::sleep(left),
                _ => self.wait(Some(left)),
            }
            self.read_signals();
        }
    }

    /// Waits for a signal, at most for `longest`; `None`: without limit.
    fn wait(&self, longest: Option<Duration>) {
        let _ = readable([self.signals.as_fd()], longest);
    }

    /// Reads the pending signals: all but SIGCHLD ask this process to end.
    fn read_signals(&mut self) {
        while readable([self.signals.as_fd()], Some(Duration::ZERO)) == Ok([true]) {
            if let Ok(Some(info)) = self.signals.read_signal() {
                self.asked_to_end |= info.ssi_signo != Signal::SIGCHLD as u32;
            }
        }
    }

    /// Asks the remaining processes to end and waits up to [`ENDS_WITHIN`]: with a schedule all of
    /// them, otherwise the servers.
    fn end(&mut self, programs: &Programs) {
        match programs.schedule {
            // All processes of this namespace but the first.
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

/// Reaps the children that have ended.
fn reap() -> Vec<(Pid, WaitStatus)> {
    let mut ended = Vec::new();
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        let Some(pid) = status.pid() else { break };
        ended.push((pid, status));
    }
    ended
}
