//! Runs the cells, and keeps what is measured.

use std::collections::{BTreeMap, BTreeSet};

use fairwind_experiment::engine::sim::Sim;
use fairwind_result::RunResult;
use fairwind_result::record::{FlowSample, LinkSample, Recorder};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::curve::Curve;
use super::setup::{BOTTLENECK_MBPS, Cell, Data};
use crate::cache::program;
use crate::experiments::{self, TCP_IP};
use crate::plan::Run;
use crate::{Error, Task, parallel};

/// What is measured of a run. Rates are in Mbit/s of IP bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Measures {
    /// Of all that crossed the bottleneck.
    pub bottleneck_mbps: f64,
    /// Of the background.
    pub background_mbps: f64,
    /// Mean download time of a document, seconds.
    pub download_s: f64,
    /// Mean queue of the bottleneck, packets.
    pub queue_pkts: f64,
    /// Packets that it dropped.
    pub drops: u64,
    /// Throughput of each background connection over time, means over ten seconds.
    pub curves: Vec<Vec<f64>>,
    /// Window of the first, packets: every 100 ms.
    pub window: Vec<f64>,
}

/// The measures of all cells, one for each seed.
pub(super) type Measured = BTreeMap<Cell, Vec<Measures>>;

/// Seconds of a point of [`Measures::curves`].
pub(super) const CURVE_S: f64 = 10.0;

/// Runs what has not been run, several at a time.
///
/// # Errors
/// If a run fails, or the work is to stop.
pub(super) fn carry_out(task: &Task<'_>, data: &Data, runs: &[&Run]) -> Result<Measured, Error> {
    let cells: BTreeSet<Cell> = runs.iter().map(|run| Cell::of(run)).collect();
    // The web alone says what is available, also if only some of the runs are made.
    let alone = cells.iter().map(|cell| Cell {
        control: "none".to_owned(),
        servers: cell.servers,
        connections: 0,
        joining: false,
        gamma: None,
        delta: None,
    });
    let cells: BTreeSet<Cell> = alone.chain(cells.iter().cloned()).collect();
    let seeds = &data.seeds[..task.seeds().unwrap_or(usize::MAX).min(data.seeds.len())];
    let work: Vec<(&Cell, u64)> = cells
        .iter()
        .flat_map(|cell| seeds.iter().map(move |&seed| (cell, seed)))
        .collect();
    let cache = task.cache("sim");
    let jobs = task.options.jobs.unwrap_or_else(parallel::cores);
    let measured = parallel::each(&work, jobs, |&(cell, seed)| {
        let text = cell.text(data, seed, task.scale());
        let asked = json!({ "experiment": text, "on": program() });
        let place = format!("{}/seed-{seed}", cell.name());
        cache.kept_or_run(&place, &asked, || {
            task.host.go_on()?;
            task.tell(&place);
            run(task, data, cell, seed, &text)
        })
    })?;
    let mut all = Measured::new();
    for (&(cell, _), measures) in work.iter().zip(measured) {
        all.entry(cell.clone()).or_default().extend(measures);
    }
    Ok(all)
}

fn run(
    task: &Task<'_>,
    data: &Data,
    cell: &Cell,
    seed: u64,
    text: &str,
) -> Result<Measures, Error> {
    let mut watch = Watch::new(cell.connections as usize);
    let result = experiments::watch(task, (text, &cell.name()), &Sim, seed, &mut watch)?;
    Ok(measures(data, cell, watch, &result))
}

fn measures(data: &Data, cell: &Cell, watch: Watch, result: &RunResult) -> Measures {
    let connections = cell.connections as usize;
    let measured_s = result.duration_s - result.warmup_s;
    let mbps = |bytes: u64| bytes as f64 * 8e-6 / measured_s;
    let bottleneck = &result.links[0];
    let (background, web) = result.flows.split_at(connections);
    let documents: u64 = web.iter().filter_map(|flow| flow.objects).sum();
    // A session is either downloading or thinking.
    let sessions = (data.sessions * cell.servers) as f64;
    Measures {
        bottleneck_mbps: bottleneck.utilization.unwrap_or_default() * BOTTLENECK_MBPS,
        background_mbps: mbps(background.iter().map(|flow| flow.bytes).sum()) * TCP_IP,
        download_s: sessions * measured_s / documents.max(1) as f64 - data.think_s,
        queue_pkts: bottleneck.queue_mean_pkts,
        drops: bottleneck.drops,
        curves: watch
            .curves
            .iter()
            .map(|curve| curve.mbps(TCP_IP))
            .collect(),
        window: watch.window,
    }
}

/// A run while it goes on.
struct Watch {
    /// What each background connection receives.
    curves: Vec<Curve>,
    window: Vec<f64>,
}

impl Watch {
    fn new(connections: usize) -> Watch {
        Watch {
            curves: vec![Curve::new(CURVE_S); connections],
            window: Vec::new(),
        }
    }
}

impl Recorder for Watch {
    fn flow(&mut self, flow: usize, sample: &FlowSample) {
        let Some(curve) = self.curves.get_mut(flow) else {
            return;
        };
        curve.add(sample.time_ns, sample.instruments.bytes_received);
        if flow == 0 {
            self.window
                .push(sample.instruments.cur_cwnd as f64 / 1448.0);
        }
    }

    fn link(&mut self, _: usize, _: &LinkSample) {}
}
