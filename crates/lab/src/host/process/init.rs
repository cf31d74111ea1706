//! The first process of the programs' PID namespace: it starts, reaps and ends them.

use std::ffi::CStr;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use fairwind_kernel::{SignalFd, SignalSet, monotonic_ns};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, set_parent_process_death_signal,
    setsid, wait, waitpid,
};

use super::program::Program;
use super::{GRACE_PERIOD, ProgramEvent, Programs, Schedule, exit_code, exit_status, readable};
use crate::error::{During, LabError};
use crate::mounts::own_mounts;

/// How long a server may take to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(30);

/// The main function of the first process; returns its exit code.
pub(super) fn first_process(
    programs: &Programs,
    alive: &PipeReader,
    report: &PipeWriter,
) -> Result<u8, LabError> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .during("asking to be killed with the emulator")?;
    if readable([alive.as_fd()], Some(Duration::ZERO)).is_ok_and(|[ended]| ended) {
        return Ok(1);
    }
    if programs.schedule.is_some() {
        // Leaves the terminal, whose signals are for the process that started this one.
        let _ = setsid();
    }
    let mask = SignalSet::forwarded().with(Signal::CHILD);
    mask.set_mask().during("waiting for signals")?;
    let signals = SignalFd::new(mask).during("waiting for signals")?;
    mount_own_proc().during("mounting /proc for the programs")?;
    let mut init = Init {
        signals,
        servers: Vec::new(),
        asked_to_end: false,
    };
    let code = init.run(programs, report)?;
    if let Some(code) = code {
        ProgramEvent::CommandEnded(code).write(report);
    }
    init.end(programs);
    Ok(code.unwrap_or(0))
}

/// Mounts a /proc of the programs' own PID namespace, visible to them alone.
fn mount_own_proc() -> io::Result<()> {
    own_mounts()?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("proc", "/proc", "proc", flags, None::<&CStr>)?)
}

/// The state of the first process.
struct Init {
    signals: SignalFd,
    /// Running servers, with their index in `Programs::servers`.
    servers: Vec<(usize, Pid)>,
    asked_to_end: bool,
}

impl Init {
    /// Runs servers and command until the command ends or, with a schedule, this process is asked to
    /// end. Returns the command's exit code if it ended.
    fn run(&mut self, programs: &Programs, report: &PipeWriter) -> Result<Option<u8>, LabError> {
        let at_once = Schedule::default();
        let schedule = programs.schedule.unwrap_or(at_once);
        self.sleep_until(schedule.servers_ns);
        if !self.asked_to_end {
            self.start_servers(programs)?;
        }
        self.sleep_until(schedule.command_ns);
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
            if programs.schedule.is_some() {
                self.read_signals();
            } else {
                while self.has_signal() {
                    self.signals.forward(command);
                }
            }
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
        while started.elapsed() < LISTEN_TIMEOUT && !self.asked_to_end {
            if server.listens()? {
                return Ok(());
            }
            let ended = waitpid(Some(pid), WaitOptions::NOHANG).ok().flatten();
            let code = ended.map_or(0, |(_, status)| exit_code(exit_status(status)));
            if code != 0 {
                return Err(LabError::Failed(format!(
                    "the server `{}` ended with exit code {code} before it listened",
                    server.text()
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if self.asked_to_end {
            return Ok(());
        }
        Err(LabError::Failed(format!(
            "the server `{}` does not listen on any port after {} s",
            server.text(),
            LISTEN_TIMEOUT.as_secs()
        )))
    }

    /// Reports a failed server; `pid` is a server or an orphan that ended while the command runs.
    fn on_server_end(
        &mut self,
        programs: &Programs,
        pid: Pid,
        status: ExitStatus,
        report: &PipeWriter,
    ) {
        let Some(at) = self.servers.iter().position(|&(_, server)| server == pid) else {
            return;
        };
        let (number, _) = self.servers.remove(at);
        if exit_code(status) != 0 {
            let text = programs.servers[number].text();
            let code = exit_code(status);
            ProgramEvent::ServerEnded(format!(
                "the server `{text}` ended with exit code {code} before the client"
            ))
            .write(report);
        }
    }

    /// Sleeps until a time of CLOCK_MONOTONIC, or until this process is asked to end.
    fn sleep_until(&mut self, time_ns: u64) {
        while !self.asked_to_end {
            let left_ns = time_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                return;
            }
            self.wait(Some(Duration::from_nanos(left_ns)));
            self.read_signals();
        }
    }

    /// Waits for a signal, at most for `longest`; `None`: without limit.
    fn wait(&self, longest: Option<Duration>) {
        let _ = readable([self.signals.as_fd()], longest);
    }

    /// Reads the pending signals: all but SIGCHLD ask this process to end.
    fn read_signals(&mut self) {
        while self.has_signal() {
            if let Ok(signal) = self.signals.read() {
                self.asked_to_end |= signal.number != Signal::CHILD.as_raw();
            }
        }
    }

    fn has_signal(&self) -> bool {
        matches!(
            readable([self.signals.as_fd()], Some(Duration::ZERO)),
            Ok([true])
        )
    }

    /// Asks the remaining processes to end and waits up to [`GRACE_PERIOD`]: with a schedule all of
    /// them, otherwise the servers.
    fn end(&mut self, programs: &Programs) {
        match programs.schedule {
            // kill(-1): all processes of this namespace but the first.
            Some(_) => drop(kill_process_group(Pid::INIT, Signal::TERM)),
            None => {
                for &(_, server) in &self.servers {
                    let _ = kill_process(server, Signal::TERM);
                }
            }
        }
        let asked = Instant::now();
        while asked.elapsed() < GRACE_PERIOD {
            for (pid, _) in reap() {
                self.servers.retain(|&(_, server)| server != pid);
            }
            let all_ended = match programs.schedule {
                Some(_) => matches!(wait(WaitOptions::NOHANG), Err(Errno::CHILD)),
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
fn reap() -> Vec<(Pid, ExitStatus)> {
    let mut ended = Vec::new();
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        ended.push((pid, exit_status(status)));
    }
    ended
}
