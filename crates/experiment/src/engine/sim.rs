//! The simulator as an engine: converts the experiment to a scenario, and the outcome to a result.

use fairwind_cc::native::{Parameters, TcpSock};
use fairwind_instruments::Instruments;
use fairwind_kernel::thread_cpu_ns;
use fairwind_path::units::Time;
use fairwind_result::RunResult;
use fairwind_result::record::{FlowSample, LinkSample, Recorder};
use fairwind_scenario::file;
use fairwind_scenario::file::flow::{self, Control, Flow};
use fairwind_scenario::pipes;
use fairwind_scenario::topology::DirectedLink;
use fairwind_scenario::{Experiment, FlowCopy};
use fairwind_sim::outcome::{Observer, PipeSample};
use fairwind_sim::scenario::{FlowConfig, Hop, Sampling, Scenario, Stack, Switch, TcpConfig};

use super::performance::Stopwatch;
use super::{Engine, EngineError, Run, totals, work};

/// Runs experiments in virtual time with `fairwind-sim`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sim;

impl Engine for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn run(
        &self,
        run: Run<'_>,
        recorder: &mut dyn Recorder,
        progress: &dyn Fn(f64) -> bool,
    ) -> Result<RunResult, EngineError> {
        let stopwatch = Stopwatch::start(thread_cpu_ns);
        let experiment = run.experiment;
        let scenario = scenario(experiment, run.seed, recorder.records())?;
        let mut watcher = Watcher {
            recorder,
            progress,
            latest: FlowSample::default(),
            link_of_pipe: totals::link_of_pipe(experiment),
            duration_s: scenario.duration.as_secs_f64(),
            stopped: false,
        };
        let outcome = fairwind_sim::run(&scenario, &mut watcher);
        if watcher.stopped {
            return Err(EngineError::Stopped);
        }
        let copies = experiment.flows();
        let flows = copies.iter().zip(&outcome.flows);
        let flows = flows.map(|(copy, outcome)| totals::flow_result(copy, outcome));
        let pipe = |direction: DirectedLink| &outcome.pipes[direction.index()];
        Ok(RunResult {
            performance: stopwatch.performance(outcome.data_packets, outcome.events),
            ..totals::result(&run, self, flows.collect(), pipe)
        })
    }
}

/// The scenario of an experiment. Its pipes are in the order of [`DirectedLink::index`].
///
/// # Errors
/// Fails if a flow needs what only the lab has: a program, or a congestion control of the kernel.
pub fn scenario(
    experiment: &Experiment,
    seed: u64,
    records: bool,
) -> Result<Scenario, EngineError> {
    let file = experiment.file();
    let pipes = file.directions();
    let pipes = pipes.map(|(direction, link)| pipes::pipe(direction.of(link)));
    Ok(Scenario {
        seed,
        duration: file.duration,
        warmup: file.warmup,
        pipes: pipes.collect(),
        flows: experiment
            .flows()
            .iter()
            .map(|copy| flow_config(copy, experiment))
            .collect::<Result<_, _>>()?,
        sampling: match (records, file.record.every_ack) {
            (false, _) => Sampling::Off,
            (true, false) => Sampling::Every(file.record.interval),
            (true, true) => Sampling::EveryAck(file.record.interval),
        },
    })
}

/// The error for a flow that only the lab can run.
fn unable(flow: &Flow) -> EngineError {
    let reason = flow.only_in_lab().unwrap_or_default();
    EngineError::unable(
        format!("flow `{}` runs only in the lab: {reason}", flow.name.value),
        "run it on this machine's kernel: fairwind lab run FILE",
    )
}

fn own<'a>(flow: &'a Flow, control: &'a Control) -> Result<&'a Parameters, EngineError> {
    match control {
        Control::Own(parameters) => Ok(parameters),
        Control::Kernel(_) => Err(unable(flow)),
    }
}

fn flow_config(copy: &FlowCopy<'_>, experiment: &Experiment) -> Result<FlowConfig, EngineError> {
    let (flow, file) = (copy.flow, experiment.file());
    let route = &experiment.topology().routes()[copy.position];
    let hops = |directions: &[DirectedLink], acknowledgements| {
        let hop = |direction: &DirectedLink| {
            let link = direction.of(&file.link[direction.link()]);
            Hop {
                pipe: direction.index() as u32,
                class: pipes::class(link, flow, acknowledgements),
            }
        };
        directions.iter().map(hop).collect()
    };
    let switch = |switch: &flow::Switch| -> Result<Switch, EngineError> {
        Ok(Switch {
            at: Time::ZERO + switch.at,
            parameters: own(flow, &switch.control)?.clone(),
        })
    };
    let host = |name: &str| {
        let node = experiment.topology().node(name);
        node.expect("a route between the hosts") as u32
    };
    Ok(FlowConfig {
        hosts: [host(&flow.from.value), host(&flow.to.value)],
        start: Time::ZERO + copy.start,
        application: work::traffic(flow).ok_or_else(|| unable(flow))?,
        tcp: TcpConfig {
            stack: match flow.stack {
                file::Stack::Linux => Stack::Linux,
                file::Stack::Classic2005 => Stack::Classic2005,
            },
            hz: Some(file.hz),
            switches: flow.switch.iter().map(switch).collect::<Result<_, _>>()?,
            advised_start: flow.advised_start.and_then(|start| start.for_control(0)),
            mss: flow.mss,
            receive_buffer: flow.receive_buffer,
            send_buffer: flow.send_buffer,
            tcp_rmem: file.tcp_rmem,
            tcp_wmem: file.tcp_wmem,
            pacing: flow.pacing,
            ecn: flow.ecn,
            ..TcpConfig::new(own(flow, &flow.control)?.clone())
        },
        forward: hops(&route.forward, false),
        backward: hops(&route.backward, true),
    })
}

/// Forwards samples to the recorder, and progress to the caller.
struct Watcher<'a> {
    recorder: &'a mut dyn Recorder,
    progress: &'a dyn Fn(f64) -> bool,
    /// The latest sample of a flow.
    latest: FlowSample,
    /// Position in the result's links; `None` for pipes that are not reported.
    link_of_pipe: Vec<Option<usize>>,
    duration_s: f64,
    stopped: bool,
}

impl Observer for Watcher<'_> {
    fn flow(&mut self, flow: usize, connection: usize, now: Time, instruments: &Instruments) {
        let sample = FlowSample {
            time_ns: now.as_nanos(),
            connection: connection as u32,
            instruments: *instruments,
        };
        self.recorder.flow(flow, &sample);
        self.latest = sample;
    }

    fn socket(&mut self, flow: usize, _: usize, _: Time, socket: &TcpSock) {
        if self.recorder.records_states() {
            let words = socket.icsk_ca_priv.iter();
            let state: Vec<u8> = words.flat_map(|word| word.to_ne_bytes()).collect();
            self.recorder.state(flow, &self.latest, &state);
        }
    }

    fn pipe(&mut self, pipe: usize, now: Time, sample: &PipeSample) {
        let Some(link) = self.link_of_pipe[pipe] else {
            return;
        };
        let sample = LinkSample {
            time_ns: now.as_nanos(),
            queue_packets: sample.queue_packets,
            queue_bytes: sample.queue_bytes,
            drops: sample.drops,
            bytes: sample.bytes,
        };
        self.recorder.link(link, &sample);
    }

    fn progress(&mut self, now: Time) -> bool {
        let share = now.as_secs_f64() / self.duration_s;
        if self.recorder.failed() || !(self.progress)(share.min(1.0)) {
            self.stopped = true;
        }
        !self.stopped
    }
}
