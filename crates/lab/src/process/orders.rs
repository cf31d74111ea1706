//! How the first process is started: this program is executed once more, and gets its orders over a
//! pipe.
//!
//! After fork(2) alone, a process whose parent has threads may make nothing but system calls: locks
//! that those threads held stay locked. After execve(2) nothing is left of them. The new process is
//! recognised by its name, and never reaches the program's `main`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl::set_name;
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::keeper::first_process;
use super::{ProgramEvent, Programs, Schedule, passed_on, say};
use crate::LabError;
use crate::namespace::Namespace;
use crate::program::{Output, Program};

/// The name, `argv[0]`, of the first process.
const NAME: &str = "fairwind-first-process";

/// [`Programs`], with descriptors by number.
#[derive(Debug, Serialize, Deserialize)]
struct Orders {
    command: Order,
    servers: Vec<Order>,
    /// When to start the servers and the command, since the origin of CLOCK_MONOTONIC.
    schedule: Option<[Duration; 2]>,
    /// Where to report.
    report: RawFd,
}

/// A [`Program`], with descriptors by number.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    namespace: RawFd,
    words: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    /// Standard output and standard error.
    output: Option<[RawFd; 2]>,
}

/// Starts the first process, a child of the calling thread. It ends when the returned pipe is
/// closed.
pub fn start_first_process(
    programs: &Programs,
    report: &PipeWriter,
) -> Result<(Pid, PipeWriter), LabError> {
    let failed = |error: io::Error| LabError::system("starting a process", error);
    let orders = Orders::of(programs, report);
    let (alive, mut keep_alive) = io::pipe().map_err(failed)?;
    let mut inherited = orders.descriptors();
    inherited.push(alive.as_raw_fd());
    let mut command = Command::new("/proc/self/exe");
    command.arg0(NAME).arg(alive.as_raw_fd().to_string());
    // SAFETY: only system calls are made between fork and exec.
    unsafe {
        command.pre_exec(move || {
            // Signals that come before the process reads them stay pending.
            passed_on().thread_set_mask()?;
            inherited
                .iter()
                .try_for_each(|&fd| close_on_exec(fd, false))
        });
    }
    let child = command.spawn().map_err(failed)?;
    let mut text = serde_json::to_string(&orders).map_err(|error| failed(error.into()))?;
    text.push('\n');
    // Fails only if the process has ended, which its parent notices.
    let _ = keep_alive.write_all(text.as_bytes());
    Ok((Pid::from_raw(child.id() as i32), keep_alive))
}

/// Called before `main` in every program that contains this crate.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    let mut words = std::env::args_os();
    if words.next().as_deref() != Some(OsStr::new(NAME)) {
        return;
    }
    let alive = words.next().and_then(|word| word.to_str()?.parse().ok());
    let code = alive.map_or(1, obey);
    // SAFETY: ends the process without exit handlers, as nothing of the program has begun.
    unsafe { libc::_exit(code.into()) }
}

/// Carries out the orders that come through the descriptor. Returns the exit code.
fn obey(alive: RawFd) -> u8 {
    let _ = set_name(c"fw-first");
    let programs = || -> io::Result<_> {
        let alive = PipeReader::from(take(alive)?);
        let mut text = String::new();
        // Nothing follows the line.
        BufReader::new(&alive).read_line(&mut text)?;
        let orders: Orders = serde_json::from_str(&text)?;
        let report = PipeWriter::from(take(orders.report)?);
        Ok((alive, report, orders))
    };
    let Ok((alive, report, orders)) = programs() else {
        return 1;
    };
    if orders.schedule.is_some() {
        // What whoever started the experiment left open is not for its programs.
        close_all_on_exec();
    }
    let done = orders
        .programs()
        .and_then(|programs| first_process(&programs, &alive, &report));
    done.unwrap_or_else(|error| {
        say(&report, &ProgramEvent::Failed(error.to_string()));
        1
    })
}

impl Orders {
    fn of(programs: &Programs, report: &PipeWriter) -> Orders {
        Orders {
            command: Order::of(&programs.command),
            servers: programs.servers.iter().map(Order::of).collect(),
            schedule: programs
                .schedule
                .map(|Schedule { servers, command }| [servers, command].map(Duration::from)),
            report: report.as_raw_fd(),
        }
    }

    /// The descriptors that the first process inherits.
    fn descriptors(&self) -> Vec<RawFd> {
        let programs = std::iter::once(&self.command).chain(&self.servers);
        let descriptors = programs.flat_map(|program| {
            let output = program.output.into_iter().flatten();
            output.chain([program.namespace])
        });
        descriptors.chain([self.report]).collect()
    }

    /// In the first process.
    fn programs(self) -> Result<Programs, LabError> {
        let command = self.command.program()?;
        let servers = self.servers.into_iter().map(Order::program);
        Ok(Programs {
            command,
            servers: servers.collect::<Result<_, _>>()?,
            schedule: self.schedule.map(|times| {
                let [servers, command] = times.map(TimeSpec::from);
                Schedule { servers, command }
            }),
        })
    }
}

impl Order {
    fn of(program: &Program) -> Order {
        Order {
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
    fn program(self) -> Result<Program, LabError> {
        let file = |fd| {
            let taken = take(fd).map(File::from);
            taken.map_err(|error| LabError::system("taking over a descriptor", error))
        };
        let output = match self.output {
            None => None,
            Some([standard, errors]) => Some(Output {
                standard: Arc::new(file(standard)?),
                errors: Arc::new(file(errors)?),
            }),
        };
        Ok(Program {
            namespace: Arc::new(Namespace::of(file(self.namespace)?)?),
            words: self.words,
            environment: self.environment,
            output,
        })
    }
}

/// An inherited descriptor, for this process alone. Two programs may share one: each gets its own.
fn take(fd: RawFd) -> io::Result<OwnedFd> {
    close_on_exec(fd, true)?;
    // SAFETY: the descriptor is open, or the call above had failed; nobody closes it.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
}

fn close_on_exec(fd: RawFd, close: bool) -> io::Result<()> {
    let flags = if close { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: the call takes numbers only.
    Errno::result(unsafe { libc::fcntl(fd, libc::F_SETFD, flags) })?;
    Ok(())
}

fn close_all_on_exec() {
    let (first, last) = (3, libc::c_uint::MAX);
    // SAFETY: the call takes numbers only.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            last,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
}
