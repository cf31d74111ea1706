//! How the first process is started: this program is executed once more, and gets over a pipe what it
//! is to run.
//!
//! After fork(2) alone, a process whose parent has threads may make nothing but system calls: locks
//! that those threads held stay locked. After execve(2) nothing is left of them. The new process is
//! recognised by its name, and never reaches the program's `main`.

use std::fs;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use fairwind_kernel::SignalSet;
use rustix::process::Pid;
use rustix::thread::set_name;

use super::init::first_process;
use super::{ProgramEvent, Programs};
use crate::error::{During, LabError};
use crate::host::inherited::{close_on_exec, take};

/// The name, `argv[0]`, of the first process.
const NAME: &str = "fairwind-first-process";

/// Starts the first process, a child of the calling thread. The returned pipe has to stay open: one
/// that is closed tells the first process at its start that its parent has ended.
pub(super) fn start_first_process(
    programs: &Programs,
    report: &PipeWriter,
) -> Result<(Pid, PipeWriter), LabError> {
    const STARTING: &str = "starting a process";
    let mut text = serde_json::to_string(programs).during(STARTING)?;
    text.push('\n');
    let (alive, mut keep_alive) = io::pipe().during(STARTING)?;
    let pipes = [alive.as_raw_fd(), report.as_raw_fd()];
    let mut inherited = descriptors(programs);
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
    let child = command.spawn().during(STARTING)?;
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
    const READING: &str = "reading what is to be run";
    let mut text = String::new();
    // Nothing follows the line.
    BufReader::new(pipe).read_line(&mut text).during(READING)?;
    let programs: Programs = serde_json::from_str(&text).during(READING)?;
    if programs.schedule.is_some() {
        // What whoever started the experiment left open is not for its programs.
        close_all_on_exec().during(READING)?;
    }
    Ok(programs)
}

/// The descriptors that the first process inherits for its programs.
fn descriptors(programs: &Programs) -> Vec<RawFd> {
    let programs = std::iter::once(&programs.command).chain(&programs.servers);
    let descriptors = programs.flat_map(|program| {
        let output = program.output.iter().flatten();
        let namespace = program.namespace.as_fd().as_raw_fd();
        output.map(|file| file.as_raw_fd()).chain([namespace])
    });
    descriptors.collect()
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
