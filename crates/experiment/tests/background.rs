//! The background control on whole paths, in the simulator.

use std::path::Path;

use fairwind_experiment::Engine;
use fairwind_experiment::engine::Run;
use fairwind_experiment::engine::sim::Sim;
use fairwind_instruments::Instruments;
use fairwind_result::record::{FlowSample, LinkSample, Recorder};
use fairwind_scenario::Experiment;
use fairwind_testing::fuzz::cases;
use proptest::prelude::*;

/// The instruments of each flow, sampled every 100 ms.
#[derive(Default)]
struct Arrived {
    flows: Vec<Vec<FlowSample>>,
}

impl Recorder for Arrived {
    fn flow(&mut self, flow: usize, sample: &FlowSample) {
        self.flows
            .resize(self.flows.len().max(flow + 1), Vec::new());
        self.flows[flow].push(*sample);
    }
    fn link(&mut self, _link: usize, _sample: &LinkSample) {}
}

impl Arrived {
    /// Goodput of a flow between two times in seconds, Mbit/s.
    fn mbps(&self, flow: usize, from_s: u64, to_s: u64) -> f64 {
        self.rate(flow, from_s, to_s, |now| now.bytes_received)
    }

    /// What a flow sends between two times in seconds, again or for the first time, Mbit/s.
    fn sent_mbps(&self, flow: usize, from_s: u64, to_s: u64) -> f64 {
        self.rate(flow, from_s, to_s, |now| {
            now.hc_thru_octets_acked + now.segs_retrans * 1448
        })
    }

    fn rate(
        &self,
        flow: usize,
        from_s: u64,
        to_s: u64,
        bytes: impl Fn(&Instruments) -> u64,
    ) -> f64 {
        let by = |s: u64| {
            let samples = self.flows[flow].iter();
            let last = samples.take_while(|sample| sample.time_ns <= s * 1_000_000_000);
            last.last().map_or(0, |sample| bytes(&sample.instruments))
        };
        (by(to_s) - by(from_s)) as f64 * 8e-6 / (to_s - from_s) as f64
    }
}

fn run(text: &str, folder: &Path, seed: u64) -> Arrived {
    let experiment = Experiment::parse(text, "x.toml", folder, &[]).unwrap();
    let mut arrived = Arrived::default();
    let run = Run {
        experiment: &experiment,
        seed,
        folder: Path::new(""),
    };
    Sim.run(run, &mut arrived, &|_| true).unwrap();
    arrived
}

/// A background flow over a link with these fields, with what follows it in the file.
fn over(duration_s: u64, link: &str, rest: &str, folder: &Path) -> Arrived {
    run(&text(duration_s, link, rest), folder, 1)
}

/// What a background flow alone carries over a link with these fields from 5 s to 20 s, Mbit/s: the mean of six seeds.
fn mean_alone(link: &str) -> f64 {
    mean_beside(link, "")
}

/// The same with what follows the link in the file.
fn mean_beside(link: &str, rest: &str) -> f64 {
    let seeds = 1..=6;
    let count = seeds.clone().count() as f64;
    let text = text(20, link, rest);
    let carried = seeds.map(|seed| run(&text, Path::new(""), seed).mbps(0, 5, 20));
    carried.sum::<f64>() / count
}

/// The experiment of `over`.
fn text(duration_s: u64, link: &str, rest: &str) -> String {
    format!(
        r#"
duration = "{duration_s}s"
[record]
interval = "100ms"

[[link]]
name = "bottleneck"
between = ["near", "far"]
{link}

[[flow]]
name = "background"
from = "near"
to = "far"
congestion_control = "fairwind"
{rest}
"#
    )
}

/// A Cubic flow the other way.
const UPLOAD: &str = r#"
[[flow]]
name = "upload"
from = "far"
to = "near"
congestion_control = "cubic"
"#;

/// A flow of Cubic from the same host, to which more of its fields are added.
const CUBIC: &str = r#"
[[flow]]
name = "foreground"
from = "near"
to = "far"
congestion_control = "cubic"
"#;

/// Alone, then beside Cubic, which comes at 6 s and has 55 MB, then alone.
fn beside_cubic(queue: &str) -> Arrived {
    let link = format!(
        r#"
bandwidth = "50Mbit/s"
delay = "10ms"
{queue}
reverse = {{ bandwidth = "unlimited", queue = "unlimited", aqm = {{ kind = "drop-tail" }} }}
"#
    );
    let foreground = format!("{CUBIC}start = \"6s\"\nbytes = \"55MB\"\n");
    over(22, &link, &foreground, Path::new(""))
}

#[track_caller]
fn yields_and_comes_back(arrived: &Arrived) {
    let foreground = arrived.mbps(1, 7, 14);
    assert!(foreground > 45.0, "{foreground}");
    let after = arrived.mbps(0, 19, 22);
    assert!(after > 40.0, "{after}");
}

#[test]
fn it_yields_behind_fair_queueing_and_comes_back() {
    let arrived = beside_cubic("queue = \"1000pkt\"\naqm = { kind = \"fq-codel\" }");
    assert!(arrived.mbps(0, 3, 6) > 45.0);
    yields_and_comes_back(&arrived);
}

/// What Cubic has of the link in 8 to 20 s beside so many from a host each that began so long after each other, behind
/// fair queueing.
fn cubic_beside(senders: u64, apart_ms: u64, mbps: u64, delay: &str) -> f64 {
    let mut text = format!(
        r#"
title = "From a host each"
duration = "20s"

[[link]]
name = "bottleneck"
between = ["near", "far"]
bandwidth = "{mbps}Mbit/s"
delay = "{delay}"
queue = "1000pkt"
aqm = {{ kind = "fq-codel" }}
reverse = {{ bandwidth = "unlimited", queue = "unlimited", aqm = {{ kind = "drop-tail" }} }}
"#
    );
    for number in 0..=senders {
        let (start_ms, control) = match number == senders {
            true => (8000, "cubic"),
            false => (number * apart_ms, "fairwind"),
        };
        text.push_str(&format!(
            r#"
[[link]]
between = ["host-{number}", "near"]
delay = "{}us"

[[flow]]
name = "flow-{number}"
from = "host-{number}"
to = "far"
start = "{start_ms}ms"
congestion_control = "{control}"
"#,
            1000 + 20 * number
        ));
    }
    run(&text, Path::new(""), 1).mbps(senders as usize, 8, 20) / mbps as f64
}

/// Each has had a part of the link only, and learns by bursts that it is faster. 0.68 in the mean if none does.
#[test]
fn senders_that_began_together_behind_fair_queueing_yield_though_none_has_had_the_link() {
    let mut parts = Vec::new();
    for senders in [3, 4] {
        for apart_ms in [100, 150, 200, 250, 300] {
            for (mbps, delay) in [(20, "10ms"), (50, "10ms"), (100, "10ms"), (20, "20ms")] {
                parts.push(cubic_beside(senders, apart_ms, mbps, delay));
            }
        }
    }
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    assert!(mean > 0.71, "{mean} of the link for Cubic");
}

#[test]
fn it_yields_in_a_common_queue_and_comes_back() {
    yields_and_comes_back(&beside_cubic("queue = \"80pkt\""));
}

/// Alone for 20 s over a link of 50 Mbit/s with these fields.
fn alone(fields: &str, folder: &Path) -> Arrived {
    let link = format!("bandwidth = \"50Mbit/s\"\nqueue = \"80pkt\"\n{fields}");
    over(20, &link, "", folder)
}

#[test]
fn jitter_that_keeps_packets_in_order_is_borne() {
    let arrived = alone(
        r#"
delay = "10ms"
jitter = { amount = "1ms" }
reverse = { bandwidth = "unlimited", queue = "unlimited", jitter = "0ms" }
"#,
        Path::new(""),
    );
    let carried = arrived.mbps(0, 5, 20);
    assert!(carried > 35.0, "{carried}");
}

#[test]
fn jitter_of_a_quarter_of_the_round_trip_is_borne() {
    // What it bears of it takes long to learn.
    let carried = mean_alone(
        r#"
bandwidth = "50Mbit/s"
delay = "10ms"
queue = "80pkt"
jitter = { amount = "5ms" }
reverse = { bandwidth = "unlimited", queue = "unlimited", jitter = "0ms" }
"#,
    );
    assert!(carried > 5.0, "{carried}");
}

#[test]
fn bursts_that_do_not_fit_the_buffer_are_not_fair_queueing() {
    // Of eight packets at once four are lost.
    let carried = mean_alone(
        r#"
bandwidth = "6Mbit/s"
delay = "12ms"
queue = "4pkt"
loss = "1%"
reverse = { bandwidth = "unlimited", queue = "unlimited", loss = 0 }
"#,
    );
    assert!(carried > 4.5, "{carried}");
}

#[test]
fn a_buffer_of_five_packets_is_not_overfilled() {
    let carried = mean_alone(
        r#"
bandwidth = "10Mbit/s"
delay = "30ms"
queue = "5pkt"
reverse = { bandwidth = "unlimited", queue = "unlimited" }
"#,
    );
    assert!(carried > 8.5, "{carried}");
}

#[test]
fn it_yields_in_a_buffer_of_four_packets() {
    let link = r#"
bandwidth = "100Mbit/s"
delay = "0.5ms"
queue = "4pkt"
reverse = { bandwidth = "unlimited", queue = "unlimited" }
"#;
    let foreground = format!("{CUBIC}start = \"5s\"\n");
    let beside = over(15, link, &foreground, Path::new("")).mbps(1, 5, 15);
    // Its own bursts leave it two thirds of the link before the background comes.
    let later = format!("start = \"15s\"\n{foreground}");
    let alone = over(16, link, &later, Path::new("")).mbps(1, 5, 15);
    assert!(beside > 0.65 * alone, "{beside} of {alone}");
}

#[test]
fn held_acks_are_borne() {
    for interval in ["1ms", "5ms"] {
        let arrived = alone(
            &format!(
                r#"
delay = "10ms"
reverse = {{ bandwidth = "unlimited", queue = "unlimited", aggregation = {{ interval = "{interval}" }} }}
"#
            ),
            Path::new(""),
        );
        let carried = arrived.mbps(0, 5, 20);
        assert!(carried > 40.0, "{interval}: {carried}");
    }
}

#[test]
fn beside_an_upload_it_has_most_of_the_way_there() {
    // As much in flight as the link alone carries would leave a half, for the upload doubles the round-trip time.
    for (mbps, delay_ms, queue, least) in [
        (10, 10, 17, 0.7),
        (10, 30, 50, 0.8),
        (100, 10, 167, 0.8),
        (100, 30, 500, 0.75),
    ] {
        let link = format!(
            r#"
bandwidth = "{mbps}Mbit/s"
delay = "{delay_ms}ms"
queue = "{queue}pkt"
reverse = {{ bandwidth = "{mbps}Mbit/s", queue = "{queue}pkt" }}
"#
        );
        let mean = mean_beside(&link, UPLOAD) / (f64::from(mbps) * 1448.0 / 1500.0);
        assert!(mean > least, "{mbps} Mbit/s, {delay_ms} ms: {mean}");
    }
}

#[test]
fn losses_do_not_hide_that_the_queue_is_on_the_way_back() {
    let link = r#"
bandwidth = "134Mbit/s"
delay = "27ms"
queue = "160pkt"
loss = 0.0002
reverse = { bandwidth = "68Mbit/s", queue = "590pkt", loss = 0 }
"#;
    let mbps = mean_beside(link, UPLOAD);
    assert!(mbps > 65.0, "{mbps}");
}

#[test]
fn a_policer_is_sent_little_more_than_it_lets_pass() {
    // 10 Mbit/s of packets of 1500 bytes, of which 1448 are payload, are 9.65.
    for (delay, burst, most) in [("5ms", "6kB", 1.1), ("2ms", "15kB", 1.25)] {
        let link = format!(
            r#"
bandwidth = "100Mbit/s"
delay = "{delay}"
queue = "200pkt"
policer = {{ rate = "10Mbit/s", burst = "{burst}" }}
reverse = {{ bandwidth = "unlimited", queue = "unlimited", policer = "none" }}
"#
        );
        let arrived = over(20, &link, "", Path::new(""));
        let sent = arrived.sent_mbps(0, 10, 20);
        assert!(sent < most * 9.65, "{delay}: {sent}");
        let carried = arrived.mbps(0, 10, 20);
        assert!(carried > 8.5, "{delay}: {carried}");
    }
}

#[test]
fn a_route_that_changes_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let delays = "time_s,delay_ms\n0,10\n5,15\n12,10\n";
    std::fs::write(folder.path().join("delays.csv"), delays).unwrap();
    let fields = r#"
delay = { trace = "delays.csv" }
reverse = { bandwidth = "unlimited", queue = "unlimited" }
"#;
    let arrived = alone(fields, folder.path());
    let carried = [(9, 12), (13, 20)].map(|(from, to)| arrived.mbps(0, from, to));
    assert!(carried.iter().all(|&mbps| mbps > 45.0), "{carried:?}");
}

#[test]
fn a_route_whose_longer_way_looks_like_a_queue_at_its_limit_is_followed() {
    // The half of it that is on the way there is about what is tolerated at 10 Mbit/s: some looks seem empty to
    // pairs, and it comes back in vain.
    let folder = tempfile::tempdir().unwrap();
    let delays = "time_s,delay_ms\n0,10.278\n8,7.278\n16,10.278\n";
    std::fs::write(folder.path().join("delays.csv"), delays).unwrap();
    let link = r#"
bandwidth = "10Mbit/s"
delay = { trace = "delays.csv" }
queue = "17pkt"
reverse = { bandwidth = "unlimited", queue = "unlimited" }
"#;
    for start_ms in [1, 11, 21, 31, 41, 51] {
        let start = format!("start = \"{start_ms}ms\"");
        let arrived = over(34, link, &start, folder.path());
        let carried = [(19, 23), (26, 34)].map(|(from, to)| arrived.mbps(0, from, to));
        assert!(
            carried.iter().all(|&mbps| mbps > 7.0),
            "{start_ms} ms: {carried:?}"
        );
    }
}

#[test]
fn a_link_that_becomes_slower_is_not_taken_for_fair_queueing() {
    let folder = tempfile::tempdir().unwrap();
    let steps = "time_s,bandwidth_mbps\n0,50\n6,20\n";
    std::fs::write(folder.path().join("steps.csv"), steps).unwrap();
    let link = r#"
bandwidth = { trace = "steps.csv" }
delay = "10ms"
queue = "80pkt"
reverse = { bandwidth = "unlimited", queue = "unlimited" }
"#;
    let arrived = over(22, link, "", folder.path());
    assert!(arrived.mbps(0, 3, 6) > 45.0);
    assert!(
        arrived.mbps(0, 14, 22) > 17.0,
        "{}",
        arrived.mbps(0, 14, 22)
    );
}

/// Flows from one host to another over a link of 100 Mbit/s and 20 ms with these fields; `flows` follows.
fn from_one_host(duration_s: u64, link: &str, flows: &str) -> Arrived {
    let link = format!("bandwidth = \"100Mbit/s\"\ndelay = \"10ms\"\n{link}");
    over(duration_s, &link, flows, Path::new(""))
}

/// Another flow between the same hosts, to which more of its fields are added.
const ANOTHER: &str = r#"
[[flow]]
name = "another"
from = "near"
to = "far"
congestion_control = "fairwind"
"#;

#[test]
fn flows_of_one_host_are_one_sender_behind_fair_queueing() {
    let flows = format!("count = 8\nevery = \"200ms\"\n{CUBIC}start = \"8s\"\n");
    let link = "queue = \"660pkt\"\naqm = { kind = \"fq-codel\" }";
    let arrived = from_one_host(20, link, &flows);
    let before: f64 = (0..8).map(|flow| arrived.mbps(flow, 4, 8)).sum();
    assert!(before > 80.0, "{before} Mbit/s alone");
    let cubic = arrived.mbps(8, 8, 20);
    assert!(cubic > 80.0, "{cubic} Mbit/s for Cubic");
}

#[test]
fn flows_of_one_host_that_share_a_queue_have_equal_parts() {
    let flows = "count = 8\nevery = \"200ms\"";
    let arrived = from_one_host(15, "queue = \"170pkt\"", flows);
    let each: Vec<f64> = (0..8).map(|flow| arrived.mbps(flow, 5, 15)).collect();
    let all: f64 = each.iter().sum();
    assert!(all > 88.0, "{all} Mbit/s");
    for mbps in each {
        let part = mbps / all * 8.0;
        assert!((0.9..1.1).contains(&part), "{part} of an equal part");
    }
}

#[test]
fn the_next_connection_between_two_hosts_begins_where_the_last_ended() {
    let flows = format!("bytes = \"40MB\"\n{ANOTHER}start = \"6s\"\n");
    let arrived = from_one_host(8, "queue = \"170pkt\"", &flows);
    // Slow start would take ten round trips, 200 ms, and less than half of that time's bytes.
    let first = arrived.mbps(1, 6, 7);
    assert!(first > 85.0, "{first} Mbit/s in its first second");
}

#[test]
fn flows_of_one_host_that_cannot_fill_the_link_alone_fill_it_together() {
    let flows = "count = 8\nevery = \"200ms\"\nreceive_buffer = \"80kB\"";
    let arrived = from_one_host(15, "queue = \"170pkt\"", flows);
    let all: f64 = (0..8).map(|flow| arrived.mbps(flow, 5, 15)).sum();
    assert!(all > 85.0, "{all} Mbit/s");
}

#[test]
fn a_flow_of_many_that_ends_leaves_its_part_to_the_others() {
    let flows = format!("count = 4\nbytes = \"20MB\"\n{ANOTHER}");
    let arrived = from_one_host(20, "queue = \"170pkt\"", &flows);
    // The four have 80 MB, for which all five need 8 s.
    let alone = arrived.mbps(4, 12, 20);
    assert!(alone > 85.0, "{alone} Mbit/s");
}

proptest! {
    #![proptest_config(cases(24))]

    /// Whatever connections there are between two hosts, and whatever the path does: the link is used, and nobody is forgotten.
    #[test]
    fn flows_of_one_host_never_stand_still(
        mbps in prop::sample::select(vec![3u64, 10, 50, 200]),
        rtt_ms in prop::sample::select(vec![2u64, 20, 80, 200]),
        queue in prop::sample::select(vec![0.25, 1.0, 4.0]),
        aqm in prop::sample::select(vec!["drop-tail", "codel", "fq-codel"]),
        loss in prop::sample::select(vec!["0%", "0.1%", "1%"]),
        count in 2..13usize,
        every_ms in 0..700u64,
        come_and_go in 0..4usize,
        kilobytes in prop::sample::select(vec![0u64, 64, 256]),
        seed in 0..1000u64,
    ) {
        let product = mbps * rtt_ms * 125;
        let length = ((product as f64 * queue / 1500.0) as u64).max(10);
        // What the receiver's windows allow together.
        let buffer = match kilobytes {
            0 => String::new(),
            kilobytes => format!("receive_buffer = \"{kilobytes}kB\""),
        };
        let come_and_go = match come_and_go {
            0 => String::new(),
            count => format!(
                "{ANOTHER}count = {count}\nevery = \"500ms\"\n\
                 application = {{ kind = \"on-off\", on = \"700ms\", off = \"2s\" }}\n"
            ),
        };
        let link = format!(
            "bandwidth = \"{mbps}Mbit/s\"\ndelay = \"{}us\"\nqueue = \"{length}pkt\"\n\
             aqm = {{ kind = \"{aqm}\" }}\nloss = \"{loss}\"\n",
            rtt_ms * 500,
        );
        let flows = format!("count = {count}\nevery = \"{every_ms}ms\"\n{buffer}\n{come_and_go}");
        let text = text(50, &link, &flows);
        let arrived = run(&text, Path::new(""), seed);
        let flows = arrived.flows.len();
        let all: f64 = (0..flows).map(|flow| arrived.mbps(flow, 20, 50)).sum();
        let limit = match kilobytes {
            0 => f64::INFINITY,
            kilobytes => (count as u64 * kilobytes) as f64 * 4.0 / rtt_ms as f64,
        };
        let share = all / limit.min(mbps as f64);
        // Where the path holds a packet of each or less, one of them may have to wait for a second before it leads; and where
        // a round trip takes 200 ms, the way back from a few losses takes longer than this.
        let least = match rtt_ms {
            200 => 0.01,
            _ if product < 1500 * 8 => 0.02,
            _ => 0.1,
        };
        prop_assert!(share > least, "{share} of what can be carried: {text}");
        for flow in 0..count {
            let mbps = arrived.mbps(flow, 20, 50);
            prop_assert!(mbps > 0.0, "flow {flow} has stood still: {text}");
        }
    }
}

#[test]
fn alone_it_has_what_the_link_carries_though_it_sends_several_packets_at_once() {
    // Of 96.5 % that are payload.
    for (bandwidth, queue, least) in [("10Mbit/s", 17, 9.5), ("1000Mbit/s", 1667, 945.0)] {
        let link = format!("bandwidth = \"{bandwidth}\"\ndelay = \"10ms\"\nqueue = \"{queue}pkt\"");
        let mbps = mean_alone(&link);
        assert!(mbps > least, "{bandwidth}: {mbps}");
    }
}

#[test]
fn over_a_short_path_its_own_bursts_are_nobody_elses() {
    // The kernel sends half of the window at once here.
    let mbps = mean_alone("bandwidth = \"100Mbit/s\"\ndelay = \"515us\"\nqueue = \"33pkt\"");
    assert!(mbps > 85.0, "{mbps}");
}

#[test]
fn noise_that_has_made_the_first_window_look_like_turns_is_found_out() {
    let jitter = "jitter = { amount = \"1ms\" }\nreverse = { bandwidth = \"unlimited\", queue = \"unlimited\", jitter = \"0ms\" }";
    let held = "reverse = { bandwidth = \"unlimited\", queue = \"unlimited\", aggregation = { interval = \"1ms\" } }";
    for (noise, delay_us, queue, at_least) in [
        (jitter, 5_164, 17, 6.0),
        (jitter, 15_508, 50, 6.0),
        (held, 5_164, 17, 8.5),
        (held, 15_508, 50, 8.5),
        (held, 15_358, 50, 8.5),
    ] {
        let text = format!(
            r#"
duration = "20s"
[record]
interval = "100ms"

[[link]]
name = "bottleneck"
between = ["near", "far"]
bandwidth = "10Mbit/s"
delay = "{delay_us}us"
queue = "{queue}pkt"
{noise}

[[link]]
between = ["host", "near"]
delay = "{delay_us}us"

[[flow]]
name = "background"
from = "host"
to = "far"
start = "14313us"
congestion_control = "fairwind"
"#
        );
        let carried: Vec<f64> = (1..=48)
            .map(|seed| run(&text, Path::new(""), seed).mbps(0, 4, 20))
            .collect();
        let least = carried.iter().copied().fold(f64::INFINITY, f64::min);
        let mean = carried.iter().sum::<f64>() / carried.len() as f64;
        assert!(
            least > at_least && mean > 9.0,
            "{noise}, {delay_us} us: {least}, mean {mean}"
        );
    }
}
