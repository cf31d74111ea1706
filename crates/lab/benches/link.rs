//! One TCP connection over one emulated link, both ends and the emulator on this machine.
//!
//! `cargo bench -p fairwind-lab` runs all cases, `cargo bench -p fairwind-lab -- gigabit` those
//! whose names contain the word. Needs root. `LENGTH_S` is the duration of each case in seconds, 4
//! by default.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use fairwind_cc::kernel::Choice;
use fairwind_lab::emulator::Lateness;
use fairwind_lab::exec::{self, ExecConfig, PEER_PLACEHOLDER, Peer};
use fairwind_lab::host::Offload;
use fairwind_path::delay::{Delay, DelayConfig};
use fairwind_path::pipe::PipeConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::units::Bandwidth;

struct Case {
    name: &'static str,
    mbps: Option<u64>,
    /// One-way delay.
    delay_ms: u64,
    queue: Capacity,
    offload: Offload,
    /// Send buffer, which limits the window where nothing else does, bytes.
    buffer: Option<usize>,
    congestion_control: &'static str,
}

const CASES: [Case; 7] = [
    Case {
        name: "capacity, offload of both",
        mbps: None,
        delay_ms: 0,
        queue: Capacity::Unlimited,
        offload: Offload::Both,
        buffer: Some(1 << 20),
        congestion_control: "reno",
    },
    Case {
        name: "capacity, offload of sending",
        mbps: None,
        delay_ms: 0,
        queue: Capacity::Unlimited,
        offload: Offload::Send,
        buffer: Some(1 << 20),
        congestion_control: "reno",
    },
    Case {
        name: "capacity, no offload",
        mbps: None,
        delay_ms: 0,
        queue: Capacity::Unlimited,
        offload: Offload::None,
        buffer: Some(1 << 20),
        congestion_control: "reno",
    },
    Case {
        name: "capacity, checksums in software",
        mbps: None,
        delay_ms: 0,
        queue: Capacity::Unlimited,
        offload: Offload::Software,
        buffer: Some(1 << 20),
        congestion_control: "reno",
    },
    Case {
        name: "100 Mbit/s, 2 x 10 ms, 100 packets",
        mbps: Some(100),
        delay_ms: 10,
        queue: Capacity::Packets(100),
        offload: Offload::Send,
        buffer: None,
        congestion_control: "reno",
    },
    Case {
        name: "100 Mbit/s, 2 x 10 ms, 100 packets, no offload",
        mbps: Some(100),
        delay_ms: 10,
        queue: Capacity::Packets(100),
        offload: Offload::None,
        buffer: None,
        congestion_control: "reno",
    },
    Case {
        name: "gigabit, 2 x 10 ms, 2500 packets",
        mbps: Some(1000),
        delay_ms: 10,
        queue: Capacity::Packets(2500),
        offload: Offload::Send,
        buffer: None,
        congestion_control: "reno",
    },
];

const PORT: u16 = 5001;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("sink") => sink(),
        Some("source") => source(&words[1..]),
        _ => {
            let wanted = words.iter().find(|word| !word.starts_with('-'));
            for case in CASES {
                if wanted.is_none_or(|word| case.name.contains(word)) {
                    measure(&case);
                }
            }
        }
    }
}

fn measure(case: &Case) {
    let seconds: u64 = std::env::var("LENGTH_S").map_or(4, |text| text.parse().unwrap());
    let path = PipeConfig {
        bandwidth: case.mbps.map_or(Rate::Unlimited, |mbps| {
            Rate::Constant(Bandwidth::from_mbps(mbps))
        }),
        delay: DelayConfig {
            base: Delay::Constant(fairwind_path::units::Duration::from_millis(case.delay_ms)),
            ..DelayConfig::default()
        },
        capacity: case.queue,
        ..PipeConfig::default()
    };
    let me = std::env::current_exe().unwrap();
    let buffer = case.buffer.unwrap_or(0).to_string();
    let command = [
        me.clone().into_os_string(),
        "source".into(),
        PEER_PLACEHOLDER.into(),
        seconds.to_string().into(),
        buffer.into(),
    ];
    let mut server = OsString::from(me);
    server.push(" sink");
    let outcome = exec::run(&ExecConfig {
        congestion_control: Some(Choice::Named(case.congestion_control.into())),
        offload: case.offload,
        peer: Peer::serving(server),
        ..ExecConfig::new(path, command.into())
    })
    .unwrap();
    let statistics = outcome.statistics;
    let [there, back] = [0, 1].map(|n| &statistics.pipes[n].statistics);
    let packets = there.packets + back.packets;
    let lateness = statistics.lateness.summary();
    println!("{}", case.name);
    println!(
        "  {:.0} packets/s: {} there ({:.1} Mbit/s), {} back; {} dropped by the queue",
        packets as f64 / seconds as f64,
        there.packets,
        there.bytes as f64 * 8e-6 / seconds as f64,
        back.packets,
        there.drops
    );
    println!(
        "  late by {:.1} us (median), {:.1} us (99 %), {:.1} us (largest)",
        lateness.lateness_p50_us, lateness.lateness_p99_us, lateness.lateness_max_us
    );
    for warning in statistics.warnings() {
        println!("  {warning}");
    }
    print_histogram(&statistics.lateness);
}

/// Prints the packets' lateness in powers of two.
fn print_histogram(lateness: &Lateness) {
    let mut doublings = BTreeMap::new();
    for (late, packets) in lateness.buckets() {
        let limit_us = late.as_nanos().div_ceil(1000).max(1).next_power_of_two();
        *doublings.entry(limit_us).or_insert(0) += packets;
    }
    for (limit_us, packets) in doublings {
        let share = packets as f64 / lateness.count() as f64;
        let bar = "#".repeat((share * 50.0).ceil() as usize);
        println!("    <= {limit_us:>6} us {packets:>9} {bar}");
    }
}

/// Reads one connection to its end.
fn sink() {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut buffer = vec![0; 256 << 10];
    while stream.read(&mut buffer).unwrap() > 0 {}
}

/// Sends for the number of seconds in the second word to the address in the first; the third limits
/// the send buffer.
fn source(words: &[String]) {
    let seconds = Duration::from_secs(words[1].parse().unwrap());
    let mut stream = TcpStream::connect((words[0].as_str(), PORT)).unwrap();
    let buffer: i32 = words[2].parse().unwrap();
    if buffer > 0 {
        use std::os::fd::AsRawFd;
        // SAFETY: the socket is open; the option is an integer that outlives the call.
        let done = unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_SNDBUFFORCE,
                (&raw const buffer).cast(),
                size_of::<i32>() as libc::socklen_t,
            )
        };
        assert_eq!(done, 0);
    }
    let data = vec![0; 128 << 10];
    let started = Instant::now();
    while started.elapsed() < seconds {
        stream.write_all(&data).unwrap();
    }
}
