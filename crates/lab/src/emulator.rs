//! The emulator: a network that runs in real time, one thread for each part of it that no packet
//! crosses.

use std::collections::HashMap;
use std::io::{self, PipeWriter};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::LabError;
use crate::clock::Clock;
use crate::host::Host;
use crate::network::Network;
use crate::statistics::{Mishaps, NamedPipe, Statistics};
use crate::tun::Tun;
use crate::worker::{Report, Worker};

/// A network at work. It stops when this is dropped.
#[derive(Debug)]
pub struct Emulator {
    hosts: Vec<Host>,
    pipes: usize,
    workers: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    /// Closing it asks the thread to stop.
    stop: PipeWriter,
    thread: JoinHandle<Report>,
}

impl Emulator {
    /// Starts the network between these hosts. The same seed makes the same random choices for the
    /// same sequence of packets on each pipe.
    ///
    /// # Errors
    /// If a host of the network is not among `hosts`, or a thread cannot be started.
    pub fn start(network: &Network, hosts: &[Host], seed: u64) -> Result<Emulator, LabError> {
        let mut tuns: HashMap<Ipv4Addr, &Arc<Tun>> = HashMap::new();
        for host in hosts {
            tuns.insert(host.config().address, host.tun());
        }
        let mut by_node = HashMap::new();
        for (node, address) in network.hosts() {
            let tun = tuns.get(&address).ok_or_else(|| {
                LabError::Network(format!("no host has the address {address} of the network"))
            })?;
            by_node.insert(node, Arc::clone(tun));
        }
        let routes = Arc::new(network.routes());
        let clock = Clock::start();
        let mut workers = Vec::new();
        for part in network.parts(&routes) {
            let worker = Worker::new(network, &part, Arc::clone(&routes), &by_node, clock, seed);
            workers.push(start(worker, workers.len())?);
        }
        Ok(Emulator {
            hosts: hosts.to_vec(),
            pipes: network.pipes().len(),
            workers,
        })
    }

    /// Stops the network; packets on their way are lost.
    ///
    /// # Errors
    /// If the devices' counters cannot be read.
    pub fn stop(self) -> Result<Statistics, LabError> {
        let mut statistics = Statistics::default();
        let mut pipes: Vec<Option<NamedPipe>> = vec![None; self.pipes];
        for Running { stop, thread } in self.workers {
            drop(stop);
            let report = match thread.join() {
                Ok(report) => report,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            statistics.lateness.merge(&report.lateness);
            statistics.mishaps = statistics.mishaps.plus(report.mishaps);
            for (index, pipe) in report.pipes {
                pipes[index] = Some(pipe);
            }
        }
        statistics.pipes = pipes.into_iter().flatten().collect();
        for host in &self.hosts {
            let device_drops = host.device_drops()?;
            statistics.mishaps = statistics.mishaps.plus(Mishaps {
                device_drops,
                ..Mishaps::default()
            });
        }
        Ok(statistics)
    }
}

fn start(worker: Worker, number: usize) -> Result<Running, LabError> {
    let failed = |error: io::Error| LabError::system("starting the emulator", error);
    let (stopped, stop) = io::pipe().map_err(failed)?;
    let thread = thread::Builder::new()
        .name(format!("fw-emulator-{number}"))
        .spawn(move || worker.run(stopped))
        .map_err(failed)?;
    Ok(Running { stop, thread })
}
