//! A made-up run for tests: flows that share a bottleneck. Each raises its window by a packet per round trip,
//! and one of them halves it when the queue is full.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fairwind_instruments::Instruments;
use fairwind_result::record::{FlowSample, LinkSample, Recorder};
use fairwind_result::series::ParquetRecorder;
use fairwind_result::series::curves::Curves;
use fairwind_result::{
    EXPERIMENT_FILE, FORMAT_VERSION, FlowResult, LinkResult, Performance, RunResult, Summary,
    seed_folder,
};

const PACKET: f64 = 1448.0;
const PACKETS_PER_SECOND: f64 = 15e6 / 8.0 / 1500.0;
const RTT_S: f64 = 0.02;
const QUEUE: f64 = 50.0;
const STEP_S: f64 = 0.01;

/// The experiment file that belongs to the run.
pub(crate) const EXPERIMENT: &str = r#"title    = "Reno against itself, 15 Mbit/s, 20 ms RTT"
duration = "60s"
seeds    = [1]

[[link]]
name      = "bottleneck"
between   = ["server", "client"]
bandwidth = "15Mbit/s"
delay     = "10ms"
queue     = "50pkt"

[[flow]]
from  = "server"
to    = "client"
congestion_control = "reno"
count = 2     # <- as many as you like
"#;

struct Flow {
    cwnd: f64,
    ssthresh: Option<f64>,
    srtt: f64,
    delivered: f64,
    reductions: u64,
}

/// Writes the folder of a run with `flows` flows over `seconds` seconds.
pub(crate) fn write_run(folder: &Path, flows: usize, seconds: u64, seed: u64) -> RunResult {
    let names: Vec<String> = (1..=flows).map(|n| format!("flow {n}")).collect();
    let links = ["bottleneck".to_owned(), "bottleneck reverse".to_owned()];
    let mut recorder = ParquetRecorder::create(folder, &names, &links).unwrap();
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut states: Vec<Flow> = (0..flows)
        .map(|_| Flow {
            cwnd: 10.0,
            ssthresh: None,
            srtt: RTT_S,
            delivered: 0.0,
            reductions: 0,
        })
        .collect();
    let (mut drops, mut carried, mut queue_sum) = (0_u64, 0.0, 0.0);
    let steps = seconds * 100;
    for step in 0..=steps {
        let now = step as f64 * STEP_S;
        let active = |at: usize| now >= 0.1 * at as f64;
        let total: f64 = (0..flows)
            .filter(|&f| active(f))
            .map(|f| states[f].cwnd)
            .sum();
        let mut queue = (total - PACKETS_PER_SECOND * RTT_S).max(0.0);
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        if queue > QUEUE {
            queue = QUEUE;
            drops += 1 + (random >> 62);
            let chosen = (random >> 33) as usize % flows;
            let state = &mut states[chosen];
            state.cwnd = (state.cwnd / 2.0).max(2.0);
            state.ssthresh = Some(state.cwnd);
            state.reductions += 1;
        }
        let rtt = RTT_S + queue / PACKETS_PER_SECOND;
        queue_sum += queue;
        for (at, state) in states.iter_mut().enumerate().filter(|(at, _)| active(*at)) {
            let share = (state.cwnd / rtt).min(PACKETS_PER_SECOND * state.cwnd / total.max(1.0));
            state.delivered += share * STEP_S * PACKET;
            carried += share * STEP_S;
            state.srtt += (rtt - state.srtt) / 8.0;
            state.cwnd += if state.ssthresh.is_some_and(|limit| state.cwnd >= limit) {
                STEP_S / rtt
            } else {
                state.cwnd * STEP_S / rtt / 2.0
            };
            recorder.flow(at, &sample(step, state));
        }
        for link in 0..2 {
            let queue = if link == 0 { queue as u64 } else { step % 2 };
            recorder.link(
                link,
                &LinkSample {
                    time_ns: step * 10_000_000,
                    queue_packets: queue,
                    queue_bytes: queue * 1500,
                    drops: if link == 0 { drops } else { 0 },
                    bytes: (carried * 1500.0) as u64,
                },
            );
        }
    }
    recorder.finish().unwrap();
    let run = RunResult {
        format_version: FORMAT_VERSION,
        title: "Reno against itself, 15 Mbit/s, 20 ms RTT".into(),
        engine: "sim".into(),
        seed,
        versions: BTreeMap::from([("fairwind".into(), "0.1.0".into())]),
        accounting: "Bandwidth counts IP bytes: the IP header and all it carries.".into(),
        stack: "linux".into(),
        duration_s: seconds as f64,
        warmup_s: 0.0,
        overrides: Vec::new(),
        incomplete: None,
        warnings: Vec::new(),
        flows: states
            .iter()
            .zip(names)
            .enumerate()
            .map(|(at, (state, name))| {
                let active = seconds as f64 - 0.1 * at as f64;
                FlowResult {
                    name,
                    congestion_control: Some("reno".into()),
                    bytes: state.delivered as u64,
                    goodput_mbps: state.delivered * 8e-6 / active,
                    goodput_sd_mbps: Some(1.234),
                    completion_s: None,
                    retransmits: state.reductions * 2,
                    timeouts: 0,
                    rtt_min_ms: Some(20.0),
                    rtt_mean_ms: Some(43.21),
                    application: "bulk".into(),
                    start_s: 0.1 * at as f64,
                    packets_sent: (state.delivered / PACKET) as u64,
                    packets_lost: state.reductions * 2,
                    objects: None,
                    object_p50_s: None,
                    object_p99_s: None,
                    ecn_signals: None,
                    kernel_controls: Vec::new(),
                }
            })
            .collect(),
        links: vec![
            LinkResult {
                name: links[0].clone(),
                utilization: Some(carried / PACKETS_PER_SECOND / seconds as f64),
                queue_mean_pkts: queue_sum / steps as f64,
                queue_p99_pkts: QUEUE,
                drops,
                marks: 0,
                random_losses: 0,
                policed: 0,
                packets: carried as u64,
                bytes: (carried * 1500.0) as u64,
            },
            LinkResult {
                name: links[1].clone(),
                utilization: Some(0.0173),
                queue_mean_pkts: 0.5,
                queue_p99_pkts: 1.0,
                ..LinkResult::default()
            },
        ],
        emulator: None,
        performance: Performance {
            data_packets: carried as u64,
            events: 2 * carried as u64,
            cpu_s: 0.031,
            wall_s: 0.033,
            peak_rss_mb: 14.2,
            machine: None,
        },
    };
    run.write(folder).unwrap();
    fs::write(folder.join(EXPERIMENT_FILE), EXPERIMENT).unwrap();
    run
}

fn sample(step: u64, state: &Flow) -> FlowSample {
    let rtt_us = (state.srtt * 1e6) as u32;
    FlowSample {
        time_ns: step * 10_000_000,
        connection: 0,
        instruments: Instruments {
            cur_cwnd: (state.cwnd * PACKET) as u64,
            cur_ssthresh: state.ssthresh.map(|limit| (limit * PACKET) as u64),
            smoothed_rtt_us: Some(rtt_us),
            cur_rto_us: rtt_us + 200_000,
            bytes_received: state.delivered as u64,
            hc_thru_octets_acked: state.delivered as u64,
            ..Instruments::default()
        },
    }
}

/// Writes the folder of several seeds and returns the summary.
pub(crate) fn write_seeds(folder: &Path, flows: usize, seconds: u64, seeds: &[u64]) -> Summary {
    let runs: Vec<RunResult> = seeds
        .iter()
        .map(|&seed| {
            let below = folder.join(seed_folder(seed));
            fs::create_dir(&below).unwrap();
            write_run(&below, flows, seconds, seed)
        })
        .collect();
    let summary = Summary::of(&runs).unwrap();
    summary.write(folder).unwrap();
    summary
}

/// A run and its curves.
pub(crate) fn curves(flows: usize, seconds: u64) -> (RunResult, Curves) {
    let folder = tempfile::tempdir().unwrap();
    let run = write_run(folder.path(), flows, seconds, 1);
    let curves = Curves::read(folder.path(), &run).unwrap().unwrap();
    (run, curves)
}
