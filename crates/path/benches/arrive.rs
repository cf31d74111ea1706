//! Prints the cost of a packet in a pipe, in nanoseconds of one core.
//!
//! `cargo bench -p fairwind-path --bench arrive [NAME]`

use std::hint::black_box;
use std::time::Instant;

use fairwind_path::codel::CoDelConfig;
use fairwind_path::dualpi2::DualPi2Config;
use fairwind_path::fq_codel::FqCoDelConfig;
use fairwind_path::loss::LossConfig;
use fairwind_path::pie::PieConfig;
use fairwind_path::pipe::{Aqm, Offer, Pipe, PipeConfig};
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::red::RedConfig;
use fairwind_path::scheduler::SchedulerConfig;
use fairwind_path::units::{Bandwidth, Duration, Time};

/// Packets at slightly less than the bandwidth, in bursts of 64, so that the queue varies.
fn measure(name: &str, config: &PipeConfig) {
    // Without `--bench` this is a test run, which only checks that it works.
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let wanted = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with("--"));
    if wanted.is_some_and(|wanted| wanted != name) {
        return;
    }
    let packets: u64 = if measuring { 5_000_000 } else { 1_000 };
    let mut pipe = Pipe::new(config, 1);
    let mut best = f64::MAX;
    let mut now = Time::ZERO;
    for _ in 0..3 {
        let start = Instant::now();
        for packet in 0..packets {
            if packet % 64 == 0 {
                now += Duration::from_micros(241 * 64);
            }
            let offer = Offer {
                class: (packet % 4) as u16,
                flow: (packet % 4) as u32,
                ..Offer::of(1500)
            };
            black_box(pipe.arrive(now, offer, packet));
            if !pipe.is_immediate() {
                while let Some(departure) = pipe.depart(now) {
                    black_box(departure);
                }
            }
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{name:24} {:6.1} ns", best / packets as f64 * 1e9);
}

fn main() {
    let plain = PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(50)),
        capacity: Capacity::Packets(1000),
        ..PipeConfig::default()
    };
    measure("drop-tail", &plain);
    measure(
        "drop-tail in bytes",
        &PipeConfig {
            capacity: Capacity::Bytes(1_500_000),
            ..plain.clone()
        },
    );
    measure(
        "unlimited bandwidth",
        &PipeConfig {
            bandwidth: Rate::Unlimited,
            ..plain.clone()
        },
    );
    measure(
        "loss",
        &PipeConfig {
            loss: LossConfig::Bernoulli(0.01),
            ..plain.clone()
        },
    );
    measure(
        "RED",
        &PipeConfig {
            aqm: Aqm::Red(RedConfig::default()),
            ..plain.clone()
        },
    );
    measure(
        "CoDel",
        &PipeConfig {
            aqm: Aqm::CoDel(CoDelConfig::default()),
            ..plain.clone()
        },
    );
    let others = [
        ("PIE", Aqm::Pie(PieConfig::default())),
        ("FQ-CoDel", Aqm::FqCoDel(FqCoDelConfig::default())),
        ("DualPI2", Aqm::DualPi2(DualPi2Config::default())),
    ];
    for (name, aqm) in others {
        let plain = plain.clone();
        measure(name, &PipeConfig { aqm, ..plain });
    }
    let scheduler = SchedulerConfig::StrictPriority { classes: 4 };
    measure(
        "strict priority",
        &PipeConfig {
            scheduler,
            ..plain.clone()
        },
    );
    let scheduler = SchedulerConfig::Wf2q {
        weights: vec![40, 20, 10, 1],
    };
    measure("WF2Q+", &PipeConfig { scheduler, ..plain });
}
