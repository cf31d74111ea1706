//! The reference dumbbell, without files: prints goodput and data packets per CPU second.
//!
//! `cargo run --release -p fairwind-sim --example dumbbell -- FLOWS CONTROL [SECONDS] [MBIT_S]`

use std::env;
use std::time::Instant;

use fairwind_cc::native::find;
use fairwind_path::delay::{Delay, DelayConfig};
use fairwind_path::pipe::PipeConfig;
use fairwind_path::rate::Rate;
use fairwind_path::units::{Bandwidth, Duration, Time};
use fairwind_sim::scenario::{Application, FlowConfig, Hop, Sampling, Scenario, Stack, TcpConfig};

fn pipe(mbps: u64, delay_ms: u64, slots: u32) -> PipeConfig {
    PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(mbps)),
        delay: DelayConfig {
            base: Delay::Constant(Duration::from_millis(delay_ms)),
            ..DelayConfig::default()
        },
        capacity: fairwind_path::queue::Capacity::Packets(slots),
        ..PipeConfig::default()
    }
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        arguments
            .get(at)
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let flows = number(0, 1);
    let control = arguments.get(1).map_or("reno", String::as_str);
    let control = find(control).expect("a control of cc/");
    let (seconds, mbps) = (number(2, 500), number(3, 50));
    let mut pipes = vec![pipe(mbps, 10, 1000), pipe(mbps, 10, 1000)];
    let hop = |pipe: usize| Hop {
        pipe: pipe as u32,
        class: 0,
    };
    let flows = (0..flows)
        .map(|index| {
            let first = pipes.len();
            for _ in 0..4 {
                pipes.push(pipe(1000.max(mbps), 0, 100_000));
            }
            FlowConfig {
                start: Time::from_millis(100 * index),
                application: Application::Bulk { bytes: None },
                tcp: TcpConfig {
                    stack: if env::var_os("OLD").is_some() {
                        Stack::Classic2005
                    } else {
                        Stack::Linux
                    },
                    control,
                    parameters: control.default_parameters(),
                    mss: 1448,
                    receive_buffer: None,
                    send_buffer: None,
                    tcp_rmem: [4096, 131_072, 33_554_432],
                    tcp_wmem: [4096, 16_384, 33_554_432],
                    pacing: false,
                },
                forward: vec![hop(first), hop(0), hop(first + 1)],
                backward: vec![hop(first + 2), hop(1), hop(first + 3)],
            }
        })
        .collect();
    let scenario = Scenario {
        seed: 1,
        duration: Duration::from_secs(seconds),
        warmup: Duration::ZERO,
        pipes,
        flows,
        sampling: Sampling::Off,
    };
    let start = Instant::now();
    let outcome = fairwind_sim::run(&scenario, &mut ());
    let elapsed = start.elapsed().as_secs_f64();
    for flow in outcome.flows.iter().take(10) {
        println!(
            "{:8.3} Mbit/s  {:5} retransmits {:3} timeouts  rtt {:?}",
            flow.bytes as f64 * 8e-6 / flow.active.as_secs_f64(),
            flow.retransmits,
            flow.timeouts,
            flow.rtt_mean,
        );
    }
    let p = &outcome.pipes[0];
    println!(
        "bottleneck: utilization {:.4} queue {:.1} p99 {} drops {}",
        p.utilization, p.queue_mean_pkts, p.queue_p99_pkts, p.drops
    );
    println!(
        "{} data packets, {} events, {elapsed:.3} s: {:.3} M data packets/s",
        outcome.data_packets,
        outcome.events,
        outcome.data_packets as f64 / elapsed / 1e6
    );
}
