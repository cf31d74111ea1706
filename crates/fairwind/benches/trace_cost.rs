//! The cost of tracing a connection at 1 Gbit/s with a sample on every acknowledgement: processor time with
//! and without the trace, in turns.
//!
//! One connection fills a path of 1 Gbit/s and 2 x 10 ms. Both ends, the emulator and the tracer are in this
//! process, whose processor time includes all that is done for them, except what the kernel does while
//! nothing else runs. The time of the whole machine, counted in ticks and including other work, is printed
//! beside it.
//!
//! `cargo bench -p fairwind --bench trace_cost`. Needs root. `PAIRS` is the number of pairs of turns, 8 by
//! default, `LENGTH_S` the measured length of each turn in seconds, 5 by default.

use std::net::Ipv4Addr;
use std::thread;
use std::time;

use fairwind_lab::application::{Applications, FlowPlan, SocketOptions};
use fairwind_lab::emulator::{Emulator, EmulatorOptions};
use fairwind_lab::host::{Host, HostConfig};
use fairwind_lab::network::Network;
use fairwind_lab::privilege;
use fairwind_path::delay::{Delay, DelayConfig};
use fairwind_path::pipe::PipeConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::units::{Bandwidth, Duration};
use fairwind_trace::file::Columns;
use fairwind_trace::filter::Filter;
use fairwind_trace::kernel::{Options, check_requirements};
use fairwind_trace::plan::{Background, Plan};
use fairwind_trace::record::{Index, Limits};
use fairwind_workload::Application;

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PORT: u16 = 5001;
/// Time for the window to settle.
const SETTLED: time::Duration = time::Duration::from_millis(1500);

fn main() {
    if let Err(error) = privilege::check() {
        eprintln!("skipped: {error}");
        return;
    }
    if let Err(error) = check_requirements() {
        eprintln!("skipped: {error}");
        return;
    }
    let pairs = number("PAIRS", 8);
    let length = time::Duration::from_secs(number("LENGTH_S", 5));
    println!(
        "{:>4} {:>9} {:>9} {:>7} {:>9} {:>9} {:>8} {:>8} {:>8} {:>5} {:>8}",
        "pair",
        "without",
        "with",
        "more",
        "machine",
        "with",
        "Mbit/s",
        "ACKs",
        "samples",
        "lost",
        "skipped"
    );
    let (mut more, mut more_of_machine) = (Vec::new(), Vec::new());
    for pair in 1..=pairs {
        // Without, with, with, without.
        let traced_first = pair % 2 == 0;
        let before = (!traced_first).then(|| turn(length, false));
        let with = turn(length, true);
        let without = before.unwrap_or_else(|| turn(length, false));
        let percent = |with: f64, without: f64| 100.0 * (with / without - 1.0);
        more.push(percent(with.time_s, without.time_s));
        more_of_machine.push(percent(with.machine_s, without.machine_s));
        let index = with.index.expect("it was traced");
        println!(
            "{pair:>4} {:>7.3} s {:>7.3} s {:>5.2} % {:>7.3} s {:>7.3} s {:>8.1} {:>8} {:>8} {:>5} {:>8}",
            without.time_s,
            with.time_s,
            more[more.len() - 1],
            without.machine_s,
            with.machine_s,
            with.mbps,
            with.acks,
            index.connections.iter().map(sent).sum::<u64>(),
            index.lost,
            index.skipped,
        );
    }
    println!("more processor time with the trace: {}", spread(&more));
    println!("of the whole machine: {}", spread(&more_of_machine));
}

/// The samples of the sender.
fn sent(connection: &fairwind_trace::record::Connection) -> u64 {
    match connection.incoming {
        Some(false) => connection.samples,
        _ => 0,
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

struct Turn {
    /// Processor time of this process, seconds.
    time_s: f64,
    /// Processor time of the whole machine, by its own count, seconds.
    machine_s: f64,
    mbps: f64,
    /// Packets from the receiver to the sender, from the beginning to the end.
    acks: u64,
    index: Option<Index>,
}

fn turn(length: time::Duration, traced: bool) -> Turn {
    let hosts = [SENDER, RECEIVER].map(|address| Host::create(HostConfig::new(address)).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let background = traced.then(|| trace(&hosts, folder.path()));
    let mut network = Network::new();
    let [here, there] = [SENDER, RECEIVER].map(|address| network.add_host(address).unwrap());
    network.add_pipe("there", here, there, path()).unwrap();
    network.add_pipe("back", there, here, path()).unwrap();
    let emulator = Emulator::start(&network, &hosts, EmulatorOptions::default()).unwrap();
    let prepared = Applications::prepare(vec![flow(&hosts)]).unwrap();
    let hour = Duration::from_secs(3600);
    let applications = prepared
        .start(emulator.epoch_ns(), Duration::ZERO, hour)
        .unwrap();

    thread::sleep(SETTLED);
    let began = (process_s(), machine_s(), applications.received(0));
    thread::sleep(length);
    let time_s = process_s() - began.0;
    let machine_s = machine_s() - began.1;
    let bytes = applications.received(0) - began.2;

    let index = background.map(|background| {
        let (index, failed) = background.finish().unwrap();
        assert!(failed.is_empty(), "{failed:?}");
        index
    });
    let statistics = emulator.stop();
    for outcome in applications.finish() {
        assert_eq!(outcome.failure, None);
    }
    for warning in statistics.warnings() {
        println!("     {warning}");
    }
    Turn {
        time_s,
        machine_s,
        mbps: bytes as f64 * 8e-6 / length.as_secs_f64(),
        acks: statistics.pipes[1].statistics.packets,
        index,
    }
}

fn trace(hosts: &[Host; 2], folder: &std::path::Path) -> Background {
    let plan = Plan {
        options: Options {
            filter: Filter {
                namespaces: hosts.iter().map(Host::namespace_inode).collect(),
                ..Filter::default()
            },
            every_ack: true,
            ..Options::default()
        },
        interval: None,
        folder: folder.to_owned(),
        columns: Columns::default(),
        limits: Limits::default(),
    };
    plan.in_background().unwrap()
}

fn path() -> PipeConfig {
    PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(1000)),
        delay: DelayConfig {
            base: Delay::Constant(Duration::from_millis(10)),
            ..DelayConfig::default()
        },
        capacity: Capacity::Packets(2500),
        ..PipeConfig::default()
    }
}

fn flow(hosts: &[Host; 2]) -> FlowPlan {
    FlowPlan {
        from: hosts[0].clone(),
        to: hosts[1].clone(),
        port: PORT,
        start: Duration::ZERO,
        work: Application::Bulk { bytes: None }.into(),
        socket: SocketOptions {
            congestion_control: Some("reno".to_owned()),
            ..SocketOptions::default()
        },
        switches: Vec::new(),
        seed: 1,
    }
}

/// Processor time of this process, including what the kernel did while it ran.
fn process_s() -> f64 {
    fairwind_kernel::process_cpu_ns() as f64 * 1e-9
}

/// Time that the processors were not idle, from the first line of `/proc/stat`.
fn machine_s() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let line = text.lines().next().unwrap();
    let ticks: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .map(|word| word.parse().unwrap())
        .collect();
    // User, nice, system, then idle and waiting for I/O, then interrupts and soft interrupts.
    (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / 100.0
}

/// The median, the range of the middle half, and the mean.
fn spread(values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (count, quarter) = (sorted.len(), sorted.len() / 4);
    format!(
        "{:.2} % (median; half of {count} pairs: {:.2} to {:.2}; mean {:.2})",
        sorted[count / 2],
        sorted[quarter],
        sorted[count - 1 - quarter],
        sorted.iter().sum::<f64>() / count as f64
    )
}
