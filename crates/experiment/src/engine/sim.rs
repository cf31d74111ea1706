//! The simulator as an engine: converts the experiment to a scenario, and the outcome to a result.

use std::collections::BTreeMap;

use fairwind_cc::native::Parameters;
use fairwind_instruments::Instruments;
use fairwind_path::units::Time;
use fairwind_sim::outcome::{Observer, PipeSample};
use fairwind_sim::scenario::{FlowConfig, Hop, Sampling, Scenario, Stack, Switch, TcpConfig};

use super::performance::Stopwatch;
use super::work::Work;
use super::{Engine, EngineError, Run, totals};
use crate::experiment::{Experiment, FlowCopy};
use crate::file;
use crate::file::flow::{self, Control, Flow};
use crate::pipes;
use crate::record::{FlowSample, LinkSample, Recorder};
use crate::result::{FORMAT_VERSION, RunResult};
use crate::topology::DirectedLink;

/// Runs experiments in virtual time with `fairwind-sim`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sim;

impl Engine for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn run(
        &self,
        Run {
            experiment, seed, ..
        }: Run<'_>,
        recorder: &mut dyn Recorder,
        progress: &dyn Fn(f64) -> bool,
    ) -> Result<RunResult, EngineError> {
        let stopwatch = Stopwatch::of_thread();
        let scenario = scenario(experiment, seed, recorder.records())?;
        let links = experiment.reported_links();
        let mut link_of_pipe = vec![None; scenario.pipes.len()];
        for (index, direction) in links.iter().enumerate() {
            link_of_pipe[direction.index()] = Some(index);
        }
        let mut watcher = Watcher {
            recorder,
            progress,
            link_of_pipe,
            duration_s: scenario.duration.as_secs_f64(),
            stopped: false,
        };
        let outcome = fairwind_sim::run(&scenario, &mut watcher);
        if watcher.stopped {
            return Err(EngineError::Stopped);
        }
        let file = experiment.file();
        let flows = experiment.flows();
        Ok(RunResult {
            format_version: FORMAT_VERSION,
            title: experiment.title().to_owned(),
            engine: self.name().to_owned(),
            seed,
            versions: BTreeMap::from([(
                "fairwind".to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            )]),
            accounting: experiment.accounting(),
            stack: file.stack.word().to_owned(),
            duration_s: file.duration.as_secs_f64(),
            warmup_s: file.warmup.as_secs_f64(),
            overrides: experiment.overrides().to_vec(),
            incomplete: None,
            warnings: Vec::new(),
            flows: flows
                .iter()
                .zip(&outcome.flows)
                .map(|(copy, outcome)| totals::flow_result(copy, outcome))
                .collect(),
            links: links
                .iter()
                .map(|direction| {
                    let statistics = &outcome.pipes[direction.index()];
                    totals::link_result(*direction, file, statistics)
                })
                .collect(),
            emulator: None,
            performance: stopwatch.performance(outcome.data_packets, outcome.events),
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
    let directions = (0..file.link.len())
        .flat_map(|link| [DirectedLink::forward(link), DirectedLink::reverse(link)]);
    Ok(Scenario {
        seed,
        duration: file.duration,
        warmup: file.warmup,
        pipes: directions
            .map(|direction| pipes::pipe(direction.of(&file.link[direction.link()])))
            .collect(),
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
    EngineError::Unable {
        message: format!("flow `{}` runs only in the lab: {reason}", flow.name.value),
        help: "run it on this machine's kernel: fairwind lab run FILE".to_owned(),
    }
}

fn own<'a>(flow: &'a Flow, control: &'a Control) -> Result<&'a Parameters, EngineError> {
    match control {
        Control::Own(parameters) => Ok(parameters),
        Control::Kernel(_) => Err(unable(flow)),
    }
}

fn switches(flow: &Flow) -> Result<Vec<Switch>, EngineError> {
    let switch = |switch: &flow::Switch| {
        Ok(Switch {
            at: Time::ZERO + switch.at,
            parameters: own(flow, &switch.control)?.clone(),
        })
    };
    flow.switch.iter().map(switch).collect()
}

fn flow_config(copy: &FlowCopy<'_>, experiment: &Experiment) -> Result<FlowConfig, EngineError> {
    let (flow, file) = (copy.flow, experiment.file());
    let route = &experiment.topology().routes()[copy.position];
    let hops = |directions: &[DirectedLink], acknowledgements| {
        let hop = |direction: &DirectedLink| Hop {
            pipe: direction.index() as u32,
            class: pipes::class(
                direction.of(&file.link[direction.link()]),
                flow,
                acknowledgements,
            ),
        };
        directions.iter().map(hop).collect()
    };
    Ok(FlowConfig {
        start: Time::ZERO + copy.start,
        application: match Work::of(flow) {
            Work::Traffic(application) => application,
            Work::Programs { .. } => return Err(unable(flow)),
        },
        tcp: TcpConfig {
            stack: match flow.stack {
                file::Stack::Linux => Stack::Linux,
                file::Stack::Classic2005 => Stack::Classic2005,
            },
            hz: Some(file.hz),
            parameters: own(flow, &flow.control)?.clone(),
            switches: switches(flow)?,
            mss: flow.mss,
            receive_buffer: flow.receive_buffer,
            send_buffer: flow.send_buffer,
            tcp_rmem: file.tcp_rmem,
            tcp_wmem: file.tcp_wmem,
            pacing: flow.pacing,
        },
        forward: hops(&route.forward, false),
        backward: hops(&route.backward, true),
    })
}

/// Forwards samples to the recorder, and progress to the caller.
struct Watcher<'a> {
    recorder: &'a mut dyn Recorder,
    progress: &'a dyn Fn(f64) -> bool,
    /// Position in the result's links; `None` for pipes that are not reported.
    link_of_pipe: Vec<Option<usize>>,
    duration_s: f64,
    stopped: bool,
}

impl Observer for Watcher<'_> {
    fn flow(&mut self, flow: usize, connection: usize, now: Time, instruments: &Instruments) {
        self.recorder.flow(
            flow,
            &FlowSample {
                time_ns: now.as_nanos(),
                connection: connection as u32,
                instruments: *instruments,
            },
        );
    }

    fn pipe(&mut self, pipe: usize, now: Time, sample: &PipeSample) {
        let Some(link) = self.link_of_pipe[pipe] else {
            return;
        };
        self.recorder.link(
            link,
            &LinkSample {
                time_ns: now.as_nanos(),
                queue_packets: sample.queue_packets,
                queue_bytes: sample.queue_bytes,
                drops: sample.drops,
                bytes: sample.bytes,
            },
        );
    }

    fn progress(&mut self, now: Time) -> bool {
        let share = now.as_secs_f64() / self.duration_s;
        if self.recorder.failed() || !(self.progress)(share.min(1.0)) {
            self.stopped = true;
        }
        !self.stopped
    }
}
