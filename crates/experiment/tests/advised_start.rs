//! Starts that are advised (Careful Resume, RFC 9959), in both engines.

use std::path::Path;

use fairwind_experiment::Engine;
use fairwind_experiment::engine::Run;
use fairwind_experiment::engine::lab::Lab;
use fairwind_experiment::engine::sim::Sim;
use fairwind_result::RunResult;
use fairwind_result::record::{FlowSample, LinkSample, Recorder};
use fairwind_scenario::Experiment;
use fairwind_testing::permitted;

/// A download over 100 Mbit/s and 100 ms, with as much room at the receiver as the path needs.
const DOWNLOAD: &str = r#"
duration = "4s"
tcp_wmem = [4096, 16384, 33554432]

[record]
interval = "10ms"
every_ack = true

[[link]]
name = "bottleneck"
between = ["server", "client"]
bandwidth = "100Mbit/s"
delay = "50ms"
queue = "834pkt"

[[flow]]
name = "download"
from = "server"
to = "client"
bytes = "4MB"
receive_buffer = "32MB"
"#;

const ADVISED: &str = "advised_start = { rate = \"100Mbit/s\", rtt = \"100ms\" }";

/// Where `struct resume` begins in the state of `cubic`.
const RESUME: usize = 64;

/// The phases that the first flow goes through, by their numbers, and why each began.
#[derive(Default)]
struct Phases(Vec<(u8, u8)>);

impl Recorder for Phases {
    fn records_states(&self) -> bool {
        true
    }

    fn flow(&mut self, _flow: usize, _sample: &FlowSample) {}

    fn state(&mut self, flow: usize, _sample: &FlowSample, state: &[u8]) {
        let phase = (state[RESUME], state[RESUME + 1]);
        if flow == 0 && self.0.last() != Some(&phase) {
            self.0.push(phase);
        }
    }

    fn link(&mut self, _link: usize, _sample: &LinkSample) {}
}

fn run(engine: &dyn Engine, text: &str) -> (RunResult, Vec<(u8, u8)>) {
    let experiment = Experiment::parse(text, "x.toml", Path::new(""), &[]).unwrap();
    let mut phases = Phases::default();
    let run = Run {
        experiment: &experiment,
        seed: 1,
        folder: Path::new(""),
    };
    let result = engine.run(run, &mut phases, &|_| true).unwrap();
    assert_eq!(result.incomplete, None);
    (result, phases.0)
}

/// Reconnaissance, jump, validation, normal: 1, 2 (7: confirmed), 3 (9: sent), 0 (11: validated).
const VALIDATED: [(u8, u8); 4] = [(1, 0), (2, 7), (3, 9), (0, 11)];

/// Seconds that a download takes.
fn seconds(engine: &dyn Engine, more: &str) -> f64 {
    let (result, _) = run(engine, &format!("{DOWNLOAD}{more}"));
    result.flows[0].completion_s.unwrap()
}

/// A download of so many bytes over another path, with a queue of its bandwidth-delay product.
fn over(mbps: u32, rtt_ms: u32, bytes: f64, more: &str) -> String {
    let queue = (mbps * rtt_ms).div_ceil(12).max(30);
    let path = [
        ("100Mbit", format!("{mbps}Mbit")),
        ("50ms", format!("{}ms", rtt_ms / 2)),
        ("834pkt", format!("{queue}pkt")),
        ("4MB", format!("{bytes}B")),
    ]
    .into_iter()
    .fold(DOWNLOAD.to_owned(), |text, (usual, other)| {
        text.replace(usual, &other)
    });
    format!("{path}{more}")
}

/// Good advice for such a path.
fn advice(mbps: u32, rtt_ms: u32) -> String {
    format!("advised_start = {{ rate = \"{mbps}Mbit/s\", rtt = \"{rtt_ms}ms\" }}")
}

/// The median of three on the kernel: one of them may meet a longer stall.
fn median_seconds(text: &str) -> f64 {
    let mut runs = [(); 3].map(|()| {
        let (result, _) = run(&Lab::default(), text);
        result.flows[0].completion_s.unwrap()
    });
    runs.sort_by(f64::total_cmp);
    runs[1]
}

/// Seconds that a download of so many bytes takes over an empty path, in the simulator.
fn seconds_over(mbps: u32, rtt_ms: u32, bytes: f64, more: &str) -> f64 {
    let text = over(mbps, rtt_ms, bytes, more).replace("\"4s\"", "\"8s\"");
    let (result, _) = run(&Sim, &text);
    result.flows[0].completion_s.unwrap()
}

#[test]
fn good_advice_makes_no_download_slower() {
    for control in ["cubic", "reno", "fairwind"] {
        let control = format!("congestion_control = \"{control}\"\n");
        for rtt_ms in [20, 100, 200] {
            for mbps in [5, 10, 20, 40, 100, 300] {
                let start = advice(mbps, rtt_ms);
                // Bandwidth-delay products.
                for size in [0.5, 2.0, 8.0] {
                    let bytes = f64::from(mbps * rtt_ms) * 125.0 * size;
                    let plain = seconds_over(mbps, rtt_ms, bytes, &control);
                    let advised = seconds_over(mbps, rtt_ms, bytes, &format!("{control}{start}"));
                    assert!(
                        advised < 1.01 * plain,
                        "{control}{mbps} Mbit/s, {rtt_ms} ms, {size}: {advised} and {plain} s"
                    );
                }
            }
        }
    }
}

#[test]
fn a_download_with_good_advice_is_faster_in_the_simulator() {
    let (result, phases) = run(&Sim, &format!("{DOWNLOAD}{ADVISED}"));
    assert_eq!(phases, VALIDATED);
    assert_eq!(result.flows[0].retransmits, 0);
    assert!(seconds(&Sim, ADVISED) < 0.8 * seconds(&Sim, ""));
}

#[test]
fn a_download_with_good_advice_is_faster_on_the_kernel() {
    if !permitted(fairwind_lab::privilege::check()) {
        return;
    }
    // The first ten packets take 3 ms over this path, longer than a host usually stalls, which the advice would be doubted
    // for.
    let (mbps, rtt_ms, bytes) = (40, 200, 1e6);
    let advised = over(mbps, rtt_ms, bytes, &advice(mbps, rtt_ms));
    let (_, phases) = run(&Lab::default(), &advised);
    // The tracer may miss a phase; this one comes only of a jump, and stays.
    assert_eq!(phases.last(), Some(&(0, 11)), "{phases:?}");
    let advised = median_seconds(&advised);
    let plain = median_seconds(&over(mbps, rtt_ms, bytes, ""));
    assert!(advised < 0.85 * plain, "{advised} and {plain} s");
}

const BACKGROUND: &str = "congestion_control = \"fairwind\"\n";

#[test]
fn a_background_download_with_good_advice_is_faster_in_the_simulator() {
    let advised = format!("{BACKGROUND}{ADVISED}");
    assert!(seconds(&Sim, &advised) < 0.9 * seconds(&Sim, BACKGROUND));
}

#[test]
fn a_background_download_with_good_advice_is_faster_on_the_kernel() {
    if !permitted(fairwind_lab::privilege::check()) {
        return;
    }
    let advised = median_seconds(&format!("{DOWNLOAD}{BACKGROUND}{ADVISED}"));
    let plain = median_seconds(&format!("{DOWNLOAD}{BACKGROUND}"));
    assert!(advised < 0.95 * plain, "{advised} and {plain} s");
}

#[test]
fn a_background_download_starts_as_any_where_the_advice_does_not_fit() {
    let plain = seconds(&Sim, BACKGROUND);
    for advised in [
        // It no longer holds.
        ADVISED.replace("}", ", until = \"150ms\" }"),
        // Of another path.
        ADVISED.replace("100ms", "300ms"),
        // The first window has waited for more than a thirty-second.
        ADVISED.replace("100ms", "96ms"),
        // No more than the window already.
        ADVISED.replace("100Mbit", "5Mbit"),
    ] {
        assert_eq!(
            seconds(&Sim, &format!("{BACKGROUND}{advised}")),
            plain,
            "{advised}"
        );
    }
}

#[test]
fn advice_that_no_longer_holds_changes_nothing() {
    let stale = ADVISED.replace("}", ", until = \"150ms\" }");
    let (result, phases) = run(&Sim, &format!("{DOWNLOAD}{stale}"));
    assert_eq!(phases, [(1, 0), (0, 2)]);
    let (plain, _) = run(&Sim, DOWNLOAD);
    assert_eq!(result.flows[0].completion_s, plain.flows[0].completion_s);
}

#[test]
fn advice_of_another_path_changes_nothing() {
    let other = ADVISED.replace("100ms", "300ms");
    let (result, phases) = run(&Sim, &format!("{DOWNLOAD}{other}"));
    assert_eq!(phases, [(1, 0), (0, 3)]);
    let (plain, _) = run(&Sim, DOWNLOAD);
    assert_eq!(result.flows[0].completion_s, plain.flows[0].completion_s);
}

#[test]
fn connections_between_the_same_hosts_use_the_advice_one_at_a_time() {
    let two = format!("{DOWNLOAD}{ADVISED}\ncount = 2\nevery = \"10ms\"\n");
    let (result, first) = run(&Sim, &two);
    assert_eq!(first, VALIDATED);
    let [one, other] = [0, 1].map(|flow| result.flows[flow].completion_s.unwrap());
    assert!(other > one + 0.1, "{one} and {other} s");
}
