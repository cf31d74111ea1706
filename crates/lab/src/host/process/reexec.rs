//! How the first process is started: this program is executed once more, and gets over a pipe what it
//! is to run.
//!
//! After fork(2) alone, a process whose parent has threads may make nothing but system calls: locks
//! that those threads held stay locked. After execve(2) nothing is left of them. The new process is
//! recognised by its name, and never reaches the program's `main`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use rustix::process::Pid;
use rustix::thread::set_name;
use serde::{Deserialize, Serialize};

use super::init::first_process;
use super::program::{Output, Program};
use super::signals::SignalSet;
use super::{ProgramEvent, Programs, Schedule};
use crate::LabError;
use crate::host::namespace::Namespace;

/// The name, `argv[0]`, of the first process.
const NAME: &str = "fairwind-first-process";

/// [`Programs`], with descriptors by number.
#[derive(Debug, Serialize, Deserialize)]
struct Spec {
    command: ProgramSpec,
    servers: Vec<ProgramSpec>,
    /// When to start the servers and the command: times of CLOCK_MONOTONIC, nanoseconds.
    schedule: Option<[u64; 2]>,
}

/// A [`Program`], with descriptors by number.
#[derive(Debug, Serialize, Deserialize)]
struct ProgramSpec {
    namespace: RawFd,
    words: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    /// Standard output and standard error.
    output: Option<[RawFd; 2]>,
}

/// Starts the first process, a child of the calling thread. The returned pipe has to stay open: one
/// that is closed tells the first process at its start that its parent has ended.
pub fn start_first_process(
    programs: &Programs,
    report: &PipeWriter,
) -> Result<(Pid, PipeWriter), LabError> {
    let failed = |error: io::Error| LabError::system("starting a process", error);
    let spec = Spec::of(programs);
    let mut text = serde_json::to_string(&spec).map_err(|error| failed(error.into()))?;
    text.push('\n');
    let (alive, mut keep_alive) = io::pipe().map_err(failed)?;
    let pipes = [alive.as_raw_fd(), report.as_raw_fd()];
    let mut inherited = spec.descriptors();
    inherited.extend(pipes);
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(NAME)
        .args(pipes.map(|descriptor| descriptor.to_string()));
    // SAFETY: only system calls are made between fork and exec.
    unsafe {
        command.pre_exec(move || {
            // Signals that come before the process reads them stay pending.
            SignalSet::forwarded().set_mask()?;
            inherited
                .iter()
                .try_for_each(|&fd| close_on_exec(fd, false))
        });
    }
    let child = command.spawn().map_err(failed)?;
    // Fails only if the process has ended, which its parent notices.
    let _ = keep_alive.write_all(text.as_bytes());
    Ok((Pid::from_child(&child), keep_alive))
}

// The C library calls it before `main` in every program that contains this crate, with the whole
// process set up but for what `main` itself does.
// SAFETY: the section holds pointers to functions of this kind.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    if std::process::id() != 1 {
        return;
    }
    let command_line = fs::read("/proc/self/cmdline").unwrap_or_default();
    let mut words = command_line.split(|&byte| byte == 0);
    if words.next() != Some(NAME.as_bytes()) {
        return;
    }
    let mut descriptor = || str::from_utf8(words.next()?).ok()?.parse().ok();
    let code = match (descriptor(), descriptor()) {
        (Some(alive), Some(report)) => run_first_process(alive, report).unwrap_or(1),
        _ => 1,
    };
    // SAFETY: ends the process without exit handlers, as nothing of the program has begun.
    unsafe { libc::_exit(code.into()) }
}

/// The first process, from its first word to its exit code.
fn run_first_process(alive: RawFd, report: RawFd) -> io::Result<u8> {
    let _ = set_name(c"fw-first");
    let report = PipeWriter::from(take(report)?);
    let alive = PipeReader::from(take(alive)?);
    let programs = read_programs(&alive);
    let done = programs.and_then(|programs| first_process(&programs, &alive, &report));
    Ok(done.unwrap_or_else(|error| {
        ProgramEvent::Failed(error.to_string()).write(&report);
        1
    }))
}

/// Reads what is to be run.
fn read_programs(pipe: &PipeReader) -> Result<Programs, LabError> {
    let failed = |error: io::Error| LabError::system("reading what is to be run", error);
    let mut text = String::new();
    // Nothing follows the line.
    BufReader::new(pipe).read_line(&mut text).map_err(failed)?;
    let spec: Spec = serde_json::from_str(&text).map_err(|error| failed(error.into()))?;
    let programs = spec.programs().map_err(failed)?;
    if programs.schedule.is_some() {
        // What whoever started the experiment left open is not for its programs.
        close_all_on_exec().map_err(failed)?;
    }
    Ok(programs)
}

impl Spec {
    fn of(programs: &Programs) -> Spec {
        Spec {
            command: ProgramSpec::of(&programs.command),
            servers: programs.servers.iter().map(ProgramSpec::of).collect(),
            schedule: programs
                .schedule
                .map(|schedule| [schedule.servers_ns, schedule.command_ns]),
        }
    }

    /// The descriptors that the first process inherits.
    fn descriptors(&self) -> Vec<RawFd> {
        let programs = std::iter::once(&self.command).chain(&self.servers);
        let descriptors = programs.flat_map(|program| {
            let output = program.output.into_iter().flatten();
            output.chain([program.namespace])
        });
        descriptors.collect()
    }

    /// In the first process.
    fn programs(self) -> io::Result<Programs> {
        let servers = self.servers.into_iter().map(ProgramSpec::program);
        Ok(Programs {
            command: self.command.program()?,
            servers: servers.collect::<Result<_, _>>()?,
            schedule: self.schedule.map(|[servers_ns, command_ns]| Schedule {
                servers_ns,
                command_ns,
            }),
        })
    }
}

impl ProgramSpec {
    fn of(program: &Program) -> ProgramSpec {
        ProgramSpec {
            namespace: program.namespace.as_fd().as_raw_fd(),
            words: program.words.clone(),
            environment: program.environment.clone(),
            output: program
                .output
                .as_ref()
                .map(|output| [output.standard.as_raw_fd(), output.errors.as_raw_fd()]),
        }
    }

    /// In the first process.
    fn program(self) -> io::Result<Program> {
        let output = match self.output {
            None => None,
            Some([standard, errors]) => Some(Output {
                standard: Arc::new(File::from(take(standard)?)),
                errors: Arc::new(File::from(take(errors)?)),
            }),
        };
        Ok(Program {
            namespace: Arc::new(Namespace::of(File::from(take(self.namespace)?))?),
            words: self.words,
            environment: self.environment,
            output,
        })
    }
}

/// An inherited descriptor, which programs do not inherit in turn. Two programs may share one, so each
/// gets a copy, and the original stays open.
fn take(fd: RawFd) -> io::Result<OwnedFd> {
    close_on_exec(fd, true)?;
    // SAFETY: the descriptor is open, or the call above had failed; nobody closes it.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
}

fn close_all_on_exec() -> io::Result<()> {
    let numbers = fs::read_dir("/proc/self/fd")?;
    let numbers: Vec<RawFd> = numbers
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in numbers.into_iter().filter(|&fd| fd > 2) {
        // Fails for the descriptor by which the folder was read.
        let _ = close_on_exec(fd, true);
    }
    Ok(())
}

/// By libc, because rustix takes only descriptors that are known to be open.
fn close_on_exec(fd: RawFd, close: bool) -> io::Result<()> {
    let flags = if close { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: the call takes numbers only.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, flags) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
