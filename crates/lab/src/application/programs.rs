//! Real programs: one thread per flow runs its programs, and one watches their connections.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use fairwind_path::units::{Duration, Time};

use super::plan::{Command, FlowPlan, Work};
use super::shared::{Shared, lock};
use super::spawn;
use super::wakeup::Wakeup;
use crate::error::{During, LabError, joined};
use crate::host::process::{
    self, Program, ProgramEvent, Programs, Schedule, shell, with_placeholder,
};
use crate::host::{Host, Inherited};

mod sockets;
mod watch;

use watch::{Watch, WatchedFlow};

/// How long before a flow's start its server is started.
const SERVER_LEAD: Duration = Duration::from_secs(1);
/// How long to wait for the first process of a flow's programs.
const START_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// A flow with programs.
#[derive(Debug)]
pub(super) struct CommandFlow {
    pub index: usize,
    pub plan: FlowPlan,
    command: Command,
    /// PID of the first process of their PID namespace; 0 if there is none.
    first_process: AtomicI32,
    /// When the client exited successfully.
    complete_at: Mutex<Option<Time>>,
}

/// The running programs of all flows.
#[derive(Debug)]
pub(super) struct RunningPrograms {
    pub flows: Vec<Arc<CommandFlow>>,
    stop: Arc<Wakeup>,
    threads: Vec<JoinHandle<()>>,
    watch: Option<JoinHandle<Vec<WatchedFlow>>>,
}

impl CommandFlow {
    /// PID of the first process of the programs' PID namespace, if it exists.
    pub(super) fn first_process(&self) -> Option<i32> {
        let pid = self.first_process.load(Ordering::Relaxed);
        (pid != 0).then_some(pid)
    }

    pub(super) fn complete_at(&self) -> Option<Time> {
        *lock(&self.complete_at)
    }
}

impl RunningPrograms {
    /// Starts the threads for all flows with programs. When this returns, this process has made all
    /// its forks, so that none happens while packets are in flight.
    pub(super) fn start(
        shared: &Arc<Shared>,
        plans: &[FlowPlan],
    ) -> Result<RunningPrograms, LabError> {
        let stop = Wakeup::new().during("starting the programs")?;
        let mut running = RunningPrograms {
            flows: Vec::new(),
            stop: Arc::new(stop),
            threads: Vec::new(),
            watch: None,
        };
        for (index, plan) in plans.iter().enumerate() {
            if let Work::Command(command) = &plan.work {
                running.flows.push(Arc::new(CommandFlow {
                    index,
                    plan: plan.clone(),
                    command: command.clone(),
                    first_process: AtomicI32::new(0),
                    complete_at: Mutex::default(),
                }));
            }
        }
        if running.flows.is_empty() {
            return Ok(running);
        }
        let (begun, begins) = mpsc::channel();
        for flow in &running.flows {
            let (flow, shared) = (Arc::clone(flow), Arc::clone(shared));
            let (stop, begun) = (Arc::clone(&running.stop), begun.clone());
            let run = move || run(&flow, &shared, &stop, begun);
            running.threads.push(spawn("fw-programs", run)?);
        }
        drop(begun);
        for _ in &running.flows {
            // A thread that failed has reported why.
            let _ = begins.recv_timeout(START_TIMEOUT);
        }
        let watch = Watch::new(Arc::clone(shared), running.flows.clone(), plans)?;
        running.watch = Some(spawn("fw-watch", move || watch.run())?);
        Ok(running)
    }

    /// Ends all programs, and adds what the watching thread saw to the outcomes.
    pub(super) fn stop(&mut self, shared: &Shared) {
        let watched = self.watch.take().map(JoinHandle::join).map(joined);
        self.stop.notify();
        self.threads
            .drain(..)
            .for_each(|thread| joined(thread.join()));
        for (flow, watched) in self.flows.iter().zip(watched.unwrap_or_default()) {
            let outcome = &mut shared.outcomes()[flow.index];
            let (start, over) = (flow.plan.start, shared.over());
            outcome.set_delivered(watched.meter, start, flow.complete_at(), over);
            outcome.set_sent(watched.counts, watched.switched);
        }
    }
}

/// Runs a flow's programs.
fn run(flow: &CommandFlow, shared: &Shared, stop: &Wakeup, begun: mpsc::Sender<()>) {
    let result = programs(flow, shared).and_then(|programs| {
        let on_report = |report| on_report(flow, shared, report, &begun);
        process::run_scheduled(&programs, stop.as_fd(), on_report)
    });
    flow.first_process.store(0, Ordering::Relaxed);
    if let Err(error) = result {
        shared.fail(flow.index, error.to_string());
    }
}

fn on_report(flow: &CommandFlow, shared: &Shared, report: ProgramEvent, begun: &mpsc::Sender<()>) {
    let fail = |text: String, file: &str| {
        shared.fail(
            flow.index,
            with_last_line(text, &flow.command.output.join(file)),
        );
    };
    match report {
        ProgramEvent::FirstProcess(pid) => {
            flow.first_process.store(pid, Ordering::Relaxed);
            // The starting thread is waiting for this.
            let _ = begun.send(());
        }
        ProgramEvent::CommandEnded(0) => {
            let now = shared.clock.now();
            *lock(&flow.complete_at) = (now <= shared.end).then_some(now);
        }
        ProgramEvent::CommandEnded(code) => {
            let what = if code == 127 {
                " (no such program)"
            } else {
                ""
            };
            let client = flow.command.client.to_string_lossy();
            let text = format!("the client `{client}` ended with exit code {code}{what}");
            fail(text, "client.err");
        }
        ProgramEvent::ServerEnded(text) | ProgramEvent::Failed(text) => fail(text, "server.err"),
    }
}

/// Appends the last non-blank line of the file, if any, to the text.
fn with_last_line(text: String, file: &Path) -> String {
    let said = fs::read(file).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    match said.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("{text}: {}", line.trim()),
        None => text,
    }
}

fn programs(flow: &CommandFlow, shared: &Shared) -> Result<Programs, LabError> {
    let plan = &flow.plan;
    let Command {
        client,
        server,
        output,
    } = &flow.command;
    let [from, to] = [&plan.from, &plan.to].map(|host| host.address().to_string());
    let program = |host: &Host, line: &OsStr, name: &str| -> Result<Program, LabError> {
        let line = with_placeholder(line, "{to}", &to);
        let line = with_placeholder(&line, "{from}", &from);
        Ok(Program {
            namespace: host.namespace().clone(),
            words: shell(line),
            environment: Vec::new(),
            output: Some([file(output, name, "out")?, file(output, name, "err")?]),
        })
    };
    let server = server
        .as_deref()
        .map(|line| program(&plan.to, line, "server"))
        .transpose()?;
    let start = plan.start;
    let lead = start.as_nanos().saturating_sub(SERVER_LEAD.as_nanos());
    Ok(Programs {
        command: program(&plan.from, client, "client")?,
        servers: server.into_iter().collect(),
        schedule: Some(Schedule {
            servers_ns: shared.clock.monotonic_ns(Time::from_nanos(lead)),
            command_ns: shared.clock.monotonic_ns(Time::ZERO + start),
        }),
    })
}

fn file(folder: &Path, name: &str, extension: &str) -> Result<Inherited, LabError> {
    let path = folder.join(format!("{name}.{extension}"));
    let made = fs::create_dir_all(folder).and_then(|()| File::create(&path));
    made.map(Inherited::from)
        .during(format!("making {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_says_something_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.err");
        fs::write(&path, "warning: x\nsh: 1: iperf4: not found \n\n").unwrap();
        let text = with_last_line("it ended".to_owned(), &path);
        assert_eq!(text, "it ended: sh: 1: iperf4: not found");
        let text = with_last_line("it ended".to_owned(), &folder.path().join("none"));
        assert_eq!(text, "it ended");
    }
}
