//! One run: builds everything, runs it until its time is over or something fails, and takes it
//! down.

use std::path::Path;
use std::time;

use fairwind_instruments::Instruments;
use fairwind_kernel::{monotonic_ns, process_cpu_ns};
use fairwind_lab::application::{self, Applications, FlowPlan, SocketOptions};
use fairwind_lab::emulator::{Emulator, EmulatorOptions};
use fairwind_lab::host::{Host, HostConfig};
use fairwind_lab::{LabError, privilege};
use fairwind_path::units::Duration;
use fairwind_result::record::{FlowSample, LinkSample, Recorder};
use fairwind_result::{CAPTURES_FOLDER, PROGRAMS_FOLDER, RunResult};
use fairwind_scenario::file::flow;
use fairwind_scenario::{Experiment, FlowCopy};
use fairwind_trace::filter::Filter;
use fairwind_trace::kernel::{self, Options};
use fairwind_trace::session::Session;

use super::connections::{Connections, Ends, Times};
use super::controls::Controls;
use super::plan::{self, Plan};
use super::totals::{self, Measured};
use super::{Lab, advice};
use crate::engine::performance::Stopwatch;
use crate::engine::{self, Engine, EngineError, Run, work};

/// The network of the hosts' addresses.
const ADDRESSES: &str = "10.77.0.0/16";
/// Totals are sampled at least this often with up to `GAUGED_CONNECTIONS` connections, for which
/// that costs nothing.
const GAUGE_INTERVAL: Duration = Duration::from_millis(10);
const GAUGED_CONNECTIONS: usize = 256;
/// From the start of the emulator to time 0: enough to start the applications' threads.
const LEAD: Duration = Duration::from_millis(20);
/// Additional lead for each flow with programs, whose first processes have to be started, and the
/// limit.
const LEAD_OF_PROGRAMS: Duration = Duration::from_millis(50);
const LONGEST_LEAD: Duration = Duration::from_secs(1);
/// Longest step of the tracer.
const STEP: time::Duration = time::Duration::from_millis(25);

impl Engine for Lab {
    fn name(&self) -> &'static str {
        "lab"
    }

    fn is_real_time(&self) -> bool {
        true
    }

    /// Fails if the run cannot begin, or the recorder fails. Any other failure after the beginning makes the
    /// result incomplete.
    fn run(
        &self,
        run: Run<'_>,
        recorder: &mut dyn Recorder,
        progress: &dyn Fn(f64) -> bool,
    ) -> Result<RunResult, EngineError> {
        let stopwatch = Stopwatch::start(process_cpu_ns);
        privilege::check()?;
        kernel::check_requirements()?;
        let plan = Plan::of(run.experiment)?;
        let mut controls = Controls::new(self.own_controls)?;
        let names = control_names(run.experiment, &mut controls)?;
        let hosts = create_hosts(self, &plan, run.experiment, &names)?;
        let running = Running::start(&run, &plan, &hosts, &controls, &names, recorder)?;
        let measured = running.watch(&run, recorder, progress)?;
        let mut result = totals::result(self, &run, &plan, &measured);
        let packets = totals::data_packets(&measured.statistics);
        result.performance = stopwatch.performance(packets, measured.statistics.lateness.count());
        Ok(result)
    }
}

/// The kernel's names of the congestion controls of one flow of the file: the first, none without TCP, and
/// the one after each switch.
type ControlNames = (Option<String>, Vec<String>);

/// The names for each flow of the file.
fn control_names(
    experiment: &Experiment,
    controls: &mut Controls,
) -> Result<Vec<ControlNames>, EngineError> {
    let of_flow = |flow: &flow::Flow| {
        let first = flow.application.uses_tcp().then_some(&flow.control);
        let first = first.map(|control| match flow.advised_start {
            Some(start) => controls.provide_advised(control, start),
            None => controls.provide(control),
        });
        let first = first.transpose()?;
        let switched = flow
            .switch
            .iter()
            .map(|switch| controls.provide(&switch.control));
        Ok((first, switched.collect::<Result<_, _>>()?))
    };
    experiment.file().flow.iter().map(of_flow).collect()
}

fn create_hosts(
    lab: &Lab,
    plan: &Plan,
    experiment: &Experiment,
    names: &[ControlNames],
) -> Result<Vec<Host>, EngineError> {
    let copies = experiment.flows();
    let hosts = plan.hosts.iter().enumerate().map(|(number, host)| {
        // Programs do not choose a congestion control: they get that of the first flow with
        // programs in this host, or that of their addresses.
        let mut flows = experiment.file().flow.iter().zip(names);
        let of_programs = flows.find(|(flow, _)| {
            matches!(flow.application, flow::Application::Command { .. })
                && (flow.from.value == host.name || flow.to.value == host.name)
        });
        let control = of_programs.and_then(|(_, (first, _))| first.clone());
        let of_flow = |flow: usize| names[copies[flow].position].0.clone();
        Ok(Host::create(HostConfig {
            pairings: plan.pairings(number, of_flow),
            ..plan.host_config(host, experiment, lab.offload, control)
        })?)
    });
    hosts.collect()
}

/// A run in progress.
struct Running {
    session: Session,
    emulator: Emulator,
    applications: Applications,
    connections: Connections,
    duration: Duration,
    interval: Duration,
    /// How long after time 0 the applications were ready.
    late: Duration,
}

impl Running {
    fn start(
        run: &Run<'_>,
        plan: &Plan,
        hosts: &[Host],
        controls: &Controls,
        names: &[ControlNames],
        recorder: &dyn Recorder,
    ) -> Result<Running, EngineError> {
        let experiment = run.experiment;
        let file = experiment.file();
        let (network, pipes) = plan.network(experiment)?;
        let captures = plan::captures(experiment, &pipes, run.folder);
        if !captures.is_empty() {
            let folder = run.folder.join(CAPTURES_FOLDER);
            std::fs::create_dir_all(&folder).map_err(|source| LabError::System {
                action: format!("making {}", folder.display()),
                source,
            })?;
        }
        let plans = flow_plans(run, plan, hosts, names);
        let lead = lead(&plans);
        let session = start_session(experiment, recorder)?;
        let prepared = Applications::prepare(plans)?;
        let emulator = Emulator::start(
            &network,
            hosts,
            EmulatorOptions {
                seed: run.seed,
                sample_interval: recorder.records().then_some(file.record.interval),
                warmup: file.warmup,
                end: Some(file.duration),
                lead,
                captures,
            },
        )?;
        let times = Times {
            epoch_ns: emulator.epoch_ns(),
            warmup_ns: file.warmup.as_nanos(),
            duration_ns: file.duration.as_nanos(),
            interval_ns: (!file.record.every_ack).then(|| file.record.interval.as_nanos()),
        };
        let name = |flow: usize| names[flow].0.as_deref();
        advice::advise(experiment, plan, hosts, controls, name, emulator.epoch_ns())?;
        let applications = prepared.start(emulator.epoch_ns(), file.warmup, file.duration)?;
        let late_ns = monotonic_ns().saturating_sub(emulator.epoch_ns());
        Ok(Running {
            session,
            emulator,
            applications,
            connections: Connections::new(&ends(plan, hosts), times),
            duration: file.duration,
            interval: file.record.interval,
            late: Duration::from_nanos(late_ns),
        })
    }

    /// Watches the run until its time is over or something fails, and takes everything down.
    fn watch(
        mut self,
        run: &Run<'_>,
        recorder: &mut dyn Recorder,
        progress: &dyn Fn(f64) -> bool,
    ) -> Result<Measured, EngineError> {
        let copies = run.experiment.flows();
        let links = engine::totals::link_of_pipe(run.experiment);
        let mut datagrams = DatagramRows::new(&copies, self.interval);
        let incomplete = loop {
            let now = self.now();
            let left = self.duration.max(now) - now;
            let share = now.as_secs_f64() / self.duration.as_secs_f64();
            if recorder.failed() {
                return Err(EngineError::Stopped);
            }
            if !progress(share.min(1.0)) {
                break Some("stopped".to_owned());
            }
            if let Some(failure) = self.applications.failures().first() {
                let name = &copies[failure.flow].name;
                break Some(format!("flow {name}: {}", failure.text));
            }
            if left == Duration::ZERO {
                break None;
            }
            let left = time::Duration::from_nanos(left.as_nanos());
            if left < STEP {
                std::thread::sleep(left);
            } else if let Err(error) = self.step(recorder) {
                break Some(error);
            }
            write_links(&links, &self.emulator, recorder);
            datagrams.write(now, &self.applications, recorder);
        };
        let duration = self.now().min(self.duration);
        Ok(self.take_down(duration, incomplete, recorder, &links))
    }

    /// Runs the tracer for a step, and writes its samples.
    fn step(&mut self, recorder: &mut dyn Recorder) -> Result<(), String> {
        let connections = &mut self.connections;
        let step = self.session.step(|event| connections.take(event));
        self.connections.write(recorder);
        step.map_err(|error| error.to_string())
    }

    fn take_down(
        self,
        duration: Duration,
        mut incomplete: Option<String>,
        recorder: &mut dyn Recorder,
        links: &[Option<usize>],
    ) -> Measured {
        let mut connections = self.connections;
        connections.end();
        let last = self.session.finish(|event| connections.take(event));
        connections.write(recorder);
        write_links(links, &self.emulator, recorder);
        let statistics = self.emulator.stop();
        let outcomes = self.applications.finish();
        let unseen = match last {
            Ok((unseen, _)) => Some(unseen),
            Err(error) => {
                incomplete.get_or_insert(error.to_string());
                None
            }
        };
        let length = duration.as_secs_f64();
        Measured {
            outcomes,
            gauges: connections.into_gauges(),
            statistics,
            unseen,
            incomplete: incomplete.map(|reason| format!("after {length:.3} s: {reason}")),
            duration,
            late: self.late,
        }
    }

    /// Time since the start of the run.
    fn now(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.emulator.epoch_ns()))
    }
}

/// Time in which the prepared applications of these flows should be ready.
fn lead(plans: &[FlowPlan]) -> Duration {
    let programs = plans
        .iter()
        .filter(|plan| matches!(plan.work, application::Work::Command(_)));
    let lead = LEAD.as_nanos() + programs.count() as u64 * LEAD_OF_PROGRAMS.as_nanos();
    Duration::from_nanos(lead).min(LONGEST_LEAD)
}

/// Traces every connection between hosts of labs; those of this run are recognised by their
/// namespaces.
fn start_session(experiment: &Experiment, recorder: &dyn Recorder) -> Result<Session, EngineError> {
    let record = experiment.file().record;
    let options = Options {
        filter: Filter {
            hosts: vec![ADDRESSES.parse().expect("a network")],
            ..Filter::default()
        },
        every_ack: record.every_ack && recorder.records(),
        control_state: recorder.records_states(),
        ..Options::default()
    };
    let interval = (!options.every_ack).then(|| gauge_interval(experiment));
    Ok(Session::start(&options, interval)?)
}

/// The sampling interval for totals, of which the recording interval is a multiple.
fn gauge_interval(experiment: &Experiment) -> time::Duration {
    let interval = experiment.file().record.interval;
    let copies = experiment.flows();
    let connections = copies.iter().map(|copy| work::connections(copy.flow));
    let parts = if connections.sum::<usize>() <= GAUGED_CONNECTIONS {
        interval.as_nanos().div_ceil(GAUGE_INTERVAL.as_nanos())
    } else {
        1
    };
    time::Duration::from_nanos(interval.as_nanos() / parts.max(1))
}

fn flow_plans(run: &Run<'_>, plan: &Plan, hosts: &[Host], names: &[ControlNames]) -> Vec<FlowPlan> {
    let copies = run.experiment.flows();
    let plans = plan.flows.iter().zip(&copies).map(|(planned, copy)| {
        let (flow, (first, switched)) = (copy.flow, &names[copy.position]);
        let switches = flow.switch.iter().zip(switched);
        FlowPlan {
            from: hosts[planned.from].at(planned.addresses[0]),
            to: hosts[planned.to].at(planned.addresses[1]),
            port: planned.port.unwrap_or(0),
            start: copy.start,
            work: work(copy, run.folder),
            socket: SocketOptions {
                congestion_control: first.clone(),
                mss: Some(flow.mss),
                send_buffer: flow.send_buffer.map(|bytes| bytes.0),
                receive_buffer: flow.receive_buffer.map(|bytes| bytes.0),
                pacing: flow.pacing,
            },
            switches: switches
                .map(|(switch, name)| application::Switch {
                    at: switch.at,
                    congestion_control: name.clone(),
                })
                .collect(),
            seed: run.seed,
        }
    });
    plans.collect()
}

/// What the flow's ends do. The output of programs goes to a folder of the result.
fn work(copy: &FlowCopy<'_>, folder: &Path) -> application::Work {
    let flow::Application::Command { client, server } = &copy.flow.application else {
        let traffic = work::traffic(copy.flow);
        return traffic.expect("all but programs is traffic").into();
    };
    let output = folder.join(PROGRAMS_FOLDER);
    application::Work::Command(application::Command {
        client: client.into(),
        server: server.as_ref().map(Into::into),
        output: output.join(plan::file_name(&copy.name)),
    })
}

fn ends(plan: &Plan, hosts: &[Host]) -> Vec<Ends> {
    let end = |host: usize, address| (hosts[host].namespace_inode(), address);
    let flows = plan.flows.iter().map(|flow| Ends {
        from: end(flow.from, flow.addresses[0]),
        to: end(flow.to, flow.addresses[1]),
        port: flow.port,
    });
    flows.collect()
}

/// Writes the emulator's pending samples. `links` are the positions of its pipes in the result's links.
fn write_links(links: &[Option<usize>], emulator: &Emulator, recorder: &mut dyn Recorder) {
    for sample in emulator.samples().try_iter() {
        let Some(link) = links[sample.pipe] else {
            continue;
        };
        let sample = LinkSample {
            time_ns: sample.time.as_nanos(),
            queue_packets: sample.queue_packets,
            queue_bytes: sample.queue_bytes,
            drops: sample.drops,
            bytes: sample.bytes,
        };
        recorder.link(link, &sample);
    }
}

/// Rows of flows that have no connection to trace.
struct DatagramRows {
    /// Index and start of each flow.
    flows: Vec<(usize, Duration)>,
    interval: Duration,
    next: Duration,
}

impl DatagramRows {
    fn new(copies: &[FlowCopy<'_>], interval: Duration) -> DatagramRows {
        let flows = copies.iter().enumerate();
        let datagrams = flows.filter(|(_, copy)| !copy.flow.application.uses_tcp());
        DatagramRows {
            flows: datagrams.map(|(flow, copy)| (flow, copy.start)).collect(),
            interval,
            next: Duration::ZERO,
        }
    }

    /// Writes what has been received by `now`, if a row is due.
    fn write(&mut self, now: Duration, applications: &Applications, recorder: &mut dyn Recorder) {
        if now < self.next {
            return;
        }
        let passed = now.as_nanos() / self.interval.as_nanos().max(1);
        self.next = Duration::from_nanos((passed + 1) * self.interval.as_nanos());
        for &(flow, _) in self.flows.iter().filter(|(_, start)| *start <= now) {
            let instruments = Instruments {
                bytes_received: applications.received(flow),
                ..Instruments::default()
            };
            let sample = FlowSample {
                time_ns: now.as_nanos(),
                connection: 0,
                instruments,
            };
            recorder.flow(flow, &sample);
        }
    }
}
