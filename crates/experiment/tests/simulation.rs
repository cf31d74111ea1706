//! Whole experiments in the simulator.

use std::fs;
use std::path::Path;

use fairwind_experiment::engine::sim::Sim;
use fairwind_experiment::{Completed, ExecuteOptions, execute};
use fairwind_result::{Performance, RunResult};
use fairwind_scenario::Experiment;

const DUMBBELL: &str = r#"
title = "two flows"
duration = "20s"
warmup = "5s"

[[link]]
between = ["server", "router"]
bandwidth = "100Mbit/s"

[[link]]
name = "bottleneck"
between = ["router", "client"]
bandwidth = "10Mbit/s"
delay = "10ms"
queue = "50pkt"
loss = 0.0001
reverse = { bandwidth = "1Mbit/s" }

[[flow]]
name = "bulk"
from = "server"
to = "client"
congestion_control = "reno"
count = 2
every = "100ms"

[[flow]]
name = "web"
from = "server"
to = "client"
congestion_control = "reno"
application = { kind = "web", sessions = 3 }

[[flow]]
name = "voice"
from = "server"
to = "client"
application = { kind = "constant", rate = "100kbit/s", packet = "200B" }
"#;

fn run(text: &str, set: &[&str], seed: u64, out: &Path) -> Completed {
    let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
    let experiment = Experiment::parse(text, "x.toml", Path::new(""), &set)
        .unwrap_or_else(|diagnostic| panic!("{diagnostic}"));
    let options = ExecuteOptions {
        seeds: Some(vec![seed]),
        ..ExecuteOptions::new(out)
    };
    execute(&experiment, &Sim, &options, &()).unwrap()
}

/// The result without what differs from run to run.
fn without_performance(run: &RunResult) -> String {
    RunResult {
        performance: Performance::default(),
        ..run.clone()
    }
    .to_json()
}

#[test]
fn the_same_file_and_seed_give_the_same_bytes_and_another_seed_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let once = run(DUMBBELL, &[], 1, &at("once"));
    let again = run(DUMBBELL, &[], 1, &at("again"));
    let other = run(DUMBBELL, &[], 2, &at("other"));
    assert_eq!(
        without_performance(&once.runs[0]),
        without_performance(&again.runs[0])
    );
    for series in ["flows.parquet", "links.parquet"] {
        let bytes = |name: &str| fs::read(at(name).join(series)).unwrap();
        assert!(bytes("once") == bytes("again"), "{series}");
        assert!(bytes("once") != bytes("other"), "{series}");
    }
    assert_ne!(once.runs[0].flows, other.runs[0].flows);
}

#[test]
fn recording_does_not_change_what_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let results: Vec<Vec<_>> = [
        ("plain", "record.series=true"),
        ("silent", "record.series=false"),
        ("dense", "record.interval=1ms"),
        ("every", "record.every_ack=true"),
    ]
    .iter()
    .map(|(name, set)| run(DUMBBELL, &[set], 1, &at(name)).runs[0].flows.clone())
    .collect();
    assert!(results.iter().all(|flows| *flows == results[0]));
}

#[test]
fn a_result_tells_of_every_copy_and_every_reported_link() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    let result = run(DUMBBELL, &["title=changed"], 1, &out).runs.remove(0);
    let flows: Vec<&str> = result.flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(flows, ["bulk-1", "bulk-2", "web", "voice"]);
    let links: Vec<&str> = result.links.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(links, ["server-router", "bottleneck", "bottleneck.reverse"]);
    assert_eq!(result.title, "changed");
    assert_eq!(result.overrides, ["title=changed"]);
    assert_eq!((result.engine.as_str(), result.seed), ("sim", 1));
    assert_eq!((result.duration_s, result.warmup_s), (20.0, 5.0));
    assert!(result.accounting.starts_with("Bandwidth counts IP bytes"));
    assert!(result.performance.data_packets > 10_000);
    assert!(result.performance.cpu_s > 0.0);
    assert!(result.performance.peak_rss_mb > 1.0);
}

#[test]
fn a_bottleneck_is_filled_and_shared_out_without_remainder() {
    let folder = tempfile::tempdir().unwrap();
    let text = DUMBBELL.replace("loss = 0.0001\n", "");
    let result = run(
        &text,
        &["record.series=false"],
        1,
        &folder.path().join("result"),
    )
    .runs
    .remove(0);
    let bottleneck = &result.links[1];
    let utilization = bottleneck.utilization.unwrap();
    assert!((0.98..=1.0).contains(&utilization), "{utilization}");
    assert!(bottleneck.queue_p99_pkts <= 50.0);
    // A full packet carries 1448 bytes of payload in 1500.
    let goodput: f64 = result.flows.iter().map(|f| f.goodput_mbps).sum();
    assert!(
        (9.3..=10.0 * 1448.0 / 1500.0).contains(&goodput),
        "{goodput}"
    );
    // Voice carries 172 bytes in 200, and loses some where the others fill the queue.
    let voice = result.flows[3].goodput_mbps;
    assert!((0.078..=0.0865).contains(&voice), "{voice}");
    let bulk = &result.flows[0];
    // A round-trip delay of 20 ms, and at most 50 packets of 1.2 ms in the queue.
    let least = bulk.rtt_min_ms.unwrap();
    let mean = bulk.rtt_mean_ms.unwrap();
    assert!((20.0..85.0).contains(&least), "{least}");
    assert!(least <= mean && mean < 130.0, "{mean}");
}

#[test]
fn one_flow_alone_gets_the_payloads_share_of_the_bandwidth() {
    let folder = tempfile::tempdir().unwrap();
    let text = "duration = \"30s\"\nwarmup = \"10s\"\n\
                [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nbandwidth = \"10Mbit/s\"\n\
                delay = \"5ms\"\nqueue = \"100pkt\"\n\
                [[flow]]\nname = \"one\"\nfrom = \"a\"\nto = \"b\"\ncongestion_control = \"reno\"\n";
    let result = run(
        text,
        &["record.series=false"],
        1,
        &folder.path().join("result"),
    )
    .runs
    .remove(0);
    // 10 Mbit/s times 1448 / 1500.
    let goodput = result.flows[0].goodput_mbps;
    assert!((goodput - 9.653).abs() < 0.05, "{goodput}");
}

#[test]
fn weights_divide_a_bottleneck() {
    let folder = tempfile::tempdir().unwrap();
    let text = "duration = \"30s\"\nwarmup = \"10s\"\n\
                [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nbandwidth = \"10Mbit/s\"\n\
                delay = \"1ms\"\n\
                scheduler = { kind = \"wf2q+\", weights = { gold = 3, lead = 1 } }\n\
                [[flow]]\nname = \"gold\"\nfrom = \"a\"\nto = \"b\"\ncongestion_control = \"reno\"\n\
                [[flow]]\nname = \"lead\"\nfrom = \"a\"\nto = \"b\"\ncongestion_control = \"reno\"\n";
    let result = run(
        text,
        &["record.series=false"],
        1,
        &folder.path().join("result"),
    )
    .runs
    .remove(0);
    let ratio = result.flows[0].goodput_mbps / result.flows[1].goodput_mbps;
    assert!((2.8..3.2).contains(&ratio), "{ratio}");
}

#[test]
fn a_flow_with_bytes_completes() {
    let folder = tempfile::tempdir().unwrap();
    let text = "duration = \"30s\"\n\
                [[link]]\nbetween = [\"a\", \"b\"]\nbandwidth = \"10Mbit/s\"\ndelay = \"5ms\"\n\
                queue = \"100pkt\"\n\
                [[flow]]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1MB\"\nstart = \"2s\"\n\
                congestion_control = \"reno\"\n";
    let result = run(text, &[], 1, &folder.path().join("result"))
        .runs
        .remove(0);
    let flow = &result.flows[0];
    assert_eq!(flow.bytes, 1_000_000);
    // 691 packets of 1500 bytes at 10 Mbit/s last 0.83 s; the handshake and slow start come on top.
    let completion = flow.completion_s.unwrap();
    assert!((0.83..1.1).contains(&completion), "{completion}");
}
