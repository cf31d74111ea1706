//! A command, and a congestion control for its connections.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use fairwind_cc::kernel::{Choice, LoadError, provide};
use fairwind_kernel::{BlockedSignals, SignalFd, SignalSet, exit_code};
use fairwind_trace::event::Event;
use fairwind_trace::filter::Filter;
use fairwind_trace::kernel::{Options, TraceError};
use fairwind_trace::session::Session;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

use crate::attach::{AttachError, Attached, Given};
use crate::control_group::{self, ControlGroup, GroupError};
use crate::hold::Hold;
use crate::summary::{Summary, Watch};

/// Time between samples of the connections: to tell of them, and to hold them.
const INTERVAL: Duration = Duration::from_millis(100);
const HOLDING: Duration = Duration::from_millis(10);

/// A command, and what its connections are given.
#[derive(Clone, Debug)]
pub struct Run {
    /// The command and its arguments, at least the command.
    pub command: Vec<OsString>,
    /// The congestion control; `None`: the connections keep theirs.
    pub control: Option<Choice>,
    /// Whether connections have it whose program chooses another.
    pub is_forced: bool,
    /// Largest rate of each connection, bytes a second.
    pub max_rate: Option<u32>,
    /// Whether packets have the mark of the Lower-Effort service (RFC 8622).
    pub is_lower_effort: bool,
    /// Whether what the connections receive takes only what others leave.
    pub is_held: bool,
}

/// How a command ended, and what its connections did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its exit code, as a shell gives it.
    pub exit_code: u8,
    /// Its connections.
    pub summary: Summary,
    /// Processes that it has left behind. Their connections keep what they have been given; new ones are given nothing.
    pub left: Vec<u32>,
}

/// Why a command has not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The control is not to be had.
    #[error("congestion control: {0}")]
    Control(#[from] LoadError),
    /// There is no control group for it.
    #[error("{0}")]
    Group(#[from] GroupError),
    /// The kernel refuses the programs.
    #[error("{0}")]
    Attach(#[from] AttachError),
    /// The connections cannot be watched.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// The command cannot be started.
    #[error("{}: {source}", command.display())]
    Command {
        /// The command.
        command: OsString,
        /// The kernel's error.
        source: io::Error,
    },
    /// A system call failed.
    #[error("waiting for the command: {0}")]
    Wait(#[source] io::Error),
}

impl Run {
    /// Runs the command until it ends. It has the caller's standard input and outputs; meanwhile it gets the SIGINT,
    /// SIGQUIT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 that are sent to this process.
    ///
    /// # Errors
    ///
    /// If a privilege or a feature of the kernel is missing, or the command cannot be started. A command that fails is
    /// no error.
    ///
    /// # Panics
    ///
    /// If there is no command.
    pub fn run(&self) -> Result<Outcome, RunError> {
        let control = self.control.as_ref().map(provide).transpose()?;
        let name = control.as_ref().map(|control| control.name());
        let group = ControlGroup::make()?;
        let mut attached = Attached::to(
            &group,
            &Given {
                control: name.map(str::to_owned),
                is_forced: self.is_forced,
                max_rate: self.max_rate,
                is_lower_effort: self.is_lower_effort,
                first_segments: self.is_held.then(Hold::first_segments),
            },
        )?;
        if self.is_held {
            attached.hold();
            // Without such a file system, or the right to it, a killed run leaves its windows as they are.
            let _ = control_group::pin(group.name()).map(|pin| attached.outlive(&pin));
        }
        let options = Options {
            filter: Filter {
                cgroups: vec![group.inode()?],
                ..Filter::default()
            },
            control_state: true,
            ring_bytes: 1 << 20,
            ..Options::default()
        };
        let interval = if self.is_held { HOLDING } else { INTERVAL };
        let mut session = Session::start(&options, Some(interval))?;
        let held_back = BlockedSignals::new().map_err(RunError::Wait)?;
        let signals = SignalFd::new(SignalSet::forwarded()).map_err(RunError::Wait)?;
        let mut child = self.start(&group, held_back.before())?;
        let began = Instant::now();
        let mut watch = Watch::new();
        let mut hold = self.is_held.then(Hold::default);
        let status = loop {
            if let Some(status) = child.try_wait().map_err(RunError::Wait)? {
                break status;
            }
            forward(&signals, &child).map_err(RunError::Wait)?;
            if self.is_held {
                attached.hold();
            }
            session.step(|event| {
                watch.event(event, hold.as_ref());
                if let Some(hold) = &mut hold {
                    follow(event, hold, &attached);
                }
            })?;
        };
        let seconds = began.elapsed().as_secs_f64();
        session.finish(|event| watch.event(event, hold.as_ref()))?;
        Ok(Outcome {
            exit_code: exit_code(status),
            summary: watch.summary(name, attached.counts(), seconds),
            left: group.processes(),
        })
    }

    fn start(&self, group: &ControlGroup, mask: SignalSet) -> Result<Child, RunError> {
        let (command, arguments) = self.command.split_first().expect("a command");
        let mut child = Command::new(command);
        child.args(arguments);
        let door = group.door().map_err(RunError::Wait)?;
        let enter = move || {
            mask.set_mask()?;
            door.enter()
        };
        // SAFETY: between fork and exec it makes system calls only.
        unsafe { child.pre_exec(enter) };
        child.spawn().map_err(|source| RunError::Command {
            command: command.clone(),
            source,
        })
    }
}

/// Lets the connection of an event offer what the law says.
fn follow(event: &Event<'_>, hold: &mut Hold, attached: &Attached) {
    match event {
        Event::Sample(sample, _) => {
            if let Some(window) = hold.sample(sample) {
                attached.offer(sample.head.id, window);
            }
        }
        Event::Close(sample, _) => hold.forget(sample.head.id),
        Event::Open(_) | Event::Identity(_) | Event::Control(_) => {}
    }
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
