//! The emulator: runs a network in real time, with one thread for each part of it that no packet
//! crosses.

use std::collections::HashMap;
use std::io::{self, PipeWriter};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use fairwind_kernel::unix_ns;
use fairwind_path::units::Duration;

use crate::clock::Clock;
use crate::error::{During, LabError, joined};
use crate::host::Host;
use crate::network::Network;

mod arena;
mod capture;
mod classifier;
mod cpu_latency;
mod delivery;
mod departures;
mod ip;
mod lateness;
mod merge;
mod milestones;
mod pause;
mod pcapng;
mod ring;
mod segment;
mod statistics;
mod transit;
mod worker;

pub use capture::{Capture, CaptureCounts};
pub use lateness::{Lateness, LatenessSummary};
pub use statistics::{FlowCounts, LabLosses, NamedPipe, PipeSample, Statistics};

use capture::Writer;
use cpu_latency::CpuLatencyRequest;
use worker::{Common, Report, Worker};

/// Capacity of the samples' channel; further ones are dropped and counted.
const SAMPLES: usize = 1 << 16;

/// Options of a run. The default: seed 0, and nothing but totals.
#[derive(Clone, Debug, Default)]
pub struct EmulatorOptions {
    /// Seed of all random choices: with the same seed, the same sequence of packets on a pipe meets
    /// the same random choices.
    pub seed: u64,
    /// Interval between two samples of each pipe; the first is at time 0. `None`: no samples.
    pub sample_interval: Option<Duration>,
    /// The totals of pipes and flows start at this time.
    pub warmup: Duration,
    /// The totals and the samples end at this time. `None`: when the network stops.
    pub end: Option<Duration>,
    /// From the start of the emulator to the network's time 0, so that everything can be ready by
    /// then. Packets that hosts send earlier wait in their devices.
    pub lead: Duration,
    /// Pipes whose packets are written to files.
    pub captures: Vec<Capture>,
}

/// A running network. It stops when this is dropped.
#[derive(Debug)]
pub struct Emulator {
    hosts: Vec<Host>,
    pipes: usize,
    flows: usize,
    clock: Clock,
    samples: Receiver<PipeSample>,
    workers: Vec<Running>,
    /// The captures' writers, with the index of their pipe.
    captures: Vec<(usize, Writer)>,
    _cpu_latency: CpuLatencyRequest,
}

#[derive(Debug)]
struct Running {
    /// Closing it asks the thread to stop.
    stop: PipeWriter,
    thread: JoinHandle<Report>,
}

impl Emulator {
    /// Starts the network between these hosts.
    ///
    /// # Errors
    /// Fails if a host of the network is not among `hosts`, a pipe is captured twice, a capture file
    /// cannot be created, or a thread cannot be started.
    pub fn start(
        network: &Network,
        hosts: &[Host],
        options: EmulatorOptions,
    ) -> Result<Emulator, LabError> {
        let tap = |(node, address): (usize, Ipv4Addr)| {
            // Of several hosts with the address, the last.
            let host = hosts.iter().rfind(|host| host.address() == address);
            let host = host.ok_or_else(|| {
                LabError::Failed(format!("no host has the address {address} of the network"))
            })?;
            Ok((node, Arc::clone(host.tap())))
        };
        let taps = network.hosts().map(tap).collect::<Result<_, LabError>>()?;
        let (to_samples, samples) = mpsc::sync_channel(SAMPLES);
        let clock = Clock::starting_in(options.lead);
        let start_unix_ns = unix_ns() + options.lead.as_nanos();
        let mut captures = Vec::new();
        let mut recorders = HashMap::new();
        for capture in &options.captures {
            let pipe = capture.pipe.index();
            let name = &network.pipes()[pipe].name;
            let (recorder, writer) = capture::start(capture, name, start_unix_ns)?;
            captures.push((pipe, writer));
            if recorders.insert(pipe, recorder).is_some() {
                return Err(LabError::Failed(format!(
                    "the pipe {name} is to be captured twice"
                )));
            }
        }
        let mtus = hosts.iter().map(|host| host.config().mtu);
        let common = Common {
            network,
            routes: Arc::new(network.routes()),
            taps,
            largest: mtus.max().unwrap_or(0).into(),
            clock,
            options: &options,
            samples: to_samples,
        };
        let parts = network.parts(&common.routes);
        let workers = parts.iter().enumerate().map(|(number, part)| {
            let worker = Worker::new(&common, part, &mut recorders);
            start(worker, number)
        });
        Ok(Emulator {
            hosts: hosts.to_vec(),
            pipes: network.pipes().len(),
            flows: network.flows().len(),
            clock,
            samples,
            workers: workers.collect::<Result<_, _>>()?,
            captures,
            _cpu_latency: CpuLatencyRequest::zero(),
        })
    }

    /// CLOCK_MONOTONIC at the network's time 0, nanoseconds; with a lead it may lie in the future.
    pub fn epoch_ns(&self) -> u64 {
        self.clock.start_ns()
    }

    /// The samples of the pipes as they are taken: for each pipe in the order of time.
    pub fn samples(&self) -> &Receiver<PipeSample> {
        &self.samples
    }

    /// Stops the network; packets in flight are lost.
    pub fn stop(self) -> Statistics {
        let mut statistics = Statistics {
            flows: vec![FlowCounts::default(); self.flows],
            ..Statistics::default()
        };
        let mut captured = HashMap::new();
        let mut pipes: Vec<Option<NamedPipe>> = vec![None; self.pipes];
        for Running { stop, thread } in self.workers {
            drop(stop);
            let report = joined(thread.join());
            statistics.lateness.merge(&report.lateness);
            statistics.mishaps = statistics.mishaps.plus(report.mishaps);
            statistics.samples_lost += report.samples_lost;
            for (flow, counts) in statistics.flows.iter_mut().zip(report.flows) {
                flow.packets += counts.packets;
                flow.lost += counts.lost;
                flow.datagram_bytes += counts.datagram_bytes;
            }
            for (index, pipe) in report.pipes {
                pipes[index] = Some(pipe);
            }
            captured.extend(report.captures);
        }
        statistics.samples = self.samples.try_iter().collect();
        statistics.captures = self
            .captures
            .into_iter()
            .filter_map(|(pipe, writer)| Some(writer.finish(captured.remove(&pipe)?)))
            .collect();
        statistics.pipes = pipes.into_iter().flatten().collect();
        for host in &self.hosts {
            match host.device_drops() {
                Ok(drops) => statistics.mishaps.device_drops += drops,
                Err(error) => statistics.unread = Some(error.to_string()),
            }
        }
        statistics
    }
}

fn start(worker: Worker, number: usize) -> Result<Running, LabError> {
    const STARTING: &str = "starting the emulator";
    let (stopped, stop) = io::pipe().during(STARTING)?;
    let thread = thread::Builder::new()
        .name(format!("fw-emulator-{number}"))
        .spawn(move || worker.run(stopped))
        .during(STARTING)?;
    Ok(Running { stop, thread })
}
