//! What files mean, and that the schema describes exactly what is read.

mod reference;

use std::collections::BTreeMap;
use std::path::Path;

use fairwind_cc::native::Parameters;
use fairwind_path::accounting::Accounting;
use fairwind_path::aggregation::AggregationConfig;
use fairwind_path::codel::CoDelConfig;
use fairwind_path::delay::{Delay, Displacement, Jitter, JitterDistribution, ReorderConfig};
use fairwind_path::dualpi2::DualPi2Config;
use fairwind_path::fq_codel::FqCoDelConfig;
use fairwind_path::loss::LossConfig;
use fairwind_path::pie::PieConfig;
use fairwind_path::pipe::Aqm;
use fairwind_path::policer::PolicerConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::red::RedConfig;
use fairwind_path::units::{Bandwidth, Bytes, Duration, Time};

use super::decode::Findings;
use super::flow::{Application, Control};
use super::link::Scheduler;
use super::{ExperimentFile, Record, Stack, read, schema, value};
use crate::Experiment;
use crate::diagnostic::Sources;

/// A typical file.
const SHAPE: &str = r#"
title    = "SACK against SF-SACK, 15 Mbit/s, 20 ms RTT"
duration = "300s"
warmup   = "0s"            # left out of the summary
seeds    = [1, 2, 3]
stack    = "linux"         # or "2005"

[[link]]                   # hosts and routers come into being by being named
between   = ["server1", "router"]
bandwidth = "100Mbit/s"
delay     = "0ms"          # one way

[[link]]
name      = "bottleneck"
between   = ["router", "client"]
bandwidth = "15Mbit/s"     # or { trace = "file.csv" }
delay     = "10ms"
queue     = "50pkt"        # or "75kB"
aqm       = { kind = "red", w_q = 0.002, min_th = 5, max_th = 15, max_p = 0.1 }
scheduler = { kind = "wf2q+", weights = { server1 = 40, server2 = 20 } }
loss      = 0.005          # or { kind = "gilbert-elliott", … }
reverse   = { bandwidth = "384kbit/s" }   # symmetric where it says nothing

[[flow]]
name   = "one"
from   = "server1"
to     = "client"
congestion_control = "sfsack"
parameters = { tau = "50ms" }
bytes  = "500MB"           # or nothing: until the end
start  = "0s"
receive_buffer = "1MB"     # or nothing: autotuned
count  = 1                 # copies, `every = "1s"` apart

[[flow]]
name = "web"
from = "server1"
to   = "client"
application = { kind = "web", sessions = 20 }
"#;

/// Every kind of table, each with every field.
const EVERYTHING: &str = r#"
title = "everything"
duration = "1min"
warmup = "5s"
seeds = [7]
stack = "2005"
accounting = "ethernet"
mss = 1460
time_scale = 10
tcp_rmem = [4096, 87380, 174760]
tcp_wmem = [4096, 16384, 131072]

[record]
series = false
interval = "10ms"
every_ack = true

[[link]]
name = "one"
between = ["a", "b"]
bandwidth = "10Mbit/s"
delay = "1ms"
jitter = { amount = "2ms", distribution = "normal", correlation = "25%", overtake = true }
policer = { rate = "8Mbit/s", burst = "30kB" }
queue = "75kB"
aqm = { kind = "red", w_q = 0.5, min_th = 3e3, max_th = 9e3, max_p = 1, gentle = true, mean_packet = "1kB" }
scheduler = { kind = "wf2q+", weights = { a = 40, two = 20 } }
loss = { kind = "gilbert-elliott", p = 0.01, r = 0.2, h = 0.1, k = "99.9%" }
duplicate = 0.001
reorder = { probability = "1%", delay = "3ms" }
accounting = "ethernet-wire"
aggregation = { interval = "4ms", packets = 32 }

[link.reverse]
bandwidth = "unlimited"
delay = "2ms"
jitter = "1ms"
queue = "unlimited"
aqm = { kind = "codel", target = "2ms", interval = "50ms" }
scheduler = { kind = "priority", order = ["two", "a"] }
policer = "none"
loss = 0
duplicate = 0
reorder = { probability = 0.5 }
accounting = "ip"
aggregation = "none"

[[link]]
between = ["b", "c"]
capture = true
aqm = { kind = "drop-tail" }
scheduler = { kind = "fifo" }

[link.reverse]
aqm = { kind = "pie", target = "20ms", tupdate = "30ms", alpha = 0.25, beta = 2.5, max_burst = "100ms", ecn = true, mark_ecnth = "20%" }

[[link]]
name = "unused"
between = ["c", "d"]
aqm = { kind = "fq-codel", flows = 32, quantum = "300B", target = "2ms", interval = "50ms", ecn = false }

[link.reverse]
aqm = { kind = "dualpi2", target = "20ms", tupdate = "30ms", alpha = 0.2, beta = 3, coupling = 1.5, step = "2ms" }

[[flow]]
name = "one"
from = "a"
to = "c"
congestion_control = "reno"
parameters = {}
application = { kind = "bulk" }
bytes = "1MB"
start = "1s"
receive_buffer = "64KiB"
send_buffer = "128KiB"
count = 3
every = "500ms"
stack = "linux"
mss = 536
pacing = true
switch = [
    { at = "10s", congestion_control = "sfsack", parameters = { tau = "60ms" } },
    { at = "20s", congestion_control = "vegas" },
]

[[flow]]
name = "two"
from = "a"
to = "c"
application = { kind = "web", sessions = 2, object_mean = "30kB", object_shape = 1.5, think_mean = "2s" }

[[flow]]
from = "c"
to = "a"
application = { kind = "constant", rate = "1Mbit/s", packet = "200B" }

[[flow]]
from = "c"
to = "a"
application = { kind = "on-off", on = "2s", off = "1s", random = false }
advised_start = { rate = "40Mbit/s", rtt = "50ms", until = "30s" }

[[flow]]
name = "iperf"
from = "a"
to = "b"
congestion_control = "kernel:bbr3"
application = { kind = "command", client = "iperf3 -c {to} -t 50", server = "iperf3 -s" }
"#;

fn parsed(text: &str, set: &[&str]) -> ExperimentFile {
    let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
    match Experiment::parse(text, "x.toml", Path::new(""), &set) {
        Ok(experiment) => experiment.file().clone(),
        Err(diagnostic) => panic!("{diagnostic}"),
    }
}

fn own(control: &Control) -> &Parameters {
    match control {
        Control::Own(parameters) => parameters,
        Control::Kernel(name) => panic!("{name} is the kernel's"),
    }
}

#[test]
fn the_agreed_shape_is_read() {
    let file = parsed(SHAPE, &[]);
    assert_eq!(file.title, "SACK against SF-SACK, 15 Mbit/s, 20 ms RTT");
    assert_eq!(file.duration, Duration::from_secs(300));
    assert_eq!(file.seeds, [1, 2, 3]);
    assert_eq!(file.stack, Stack::Linux);
    let bottleneck = &file.link[1];
    assert_eq!(bottleneck.name.value, "bottleneck");
    assert_eq!(
        bottleneck.forward.aqm,
        Aqm::Red(RedConfig {
            w_q: 0.002,
            min_th: 5.0,
            max_th: 15.0,
            max_p: 0.1,
            gentle: false,
            mean_packet: Bytes(500),
            ecn: false,
        })
    );
    assert_eq!(bottleneck.forward.loss, LossConfig::Bernoulli(0.005));
    let one = &file.flow[0];
    assert_eq!(one.bytes, Some(Bytes(500_000_000)));
    assert_eq!(one.receive_buffer, Some(Bytes(1_000_000)));
    assert_eq!(own(&one.control).control().name(), "sfsack");
    assert_eq!(own(&one.control).get("tau"), Ok(50_000));
    assert_eq!(
        file.flow[1].application,
        Application::Web {
            sessions: 20,
            object_mean: Bytes(12_000),
            object_shape: 1.2,
            think_mean: Duration::from_secs(1),
        }
    );
}

#[test]
fn the_reverse_direction_is_as_the_forward_one_where_it_says_nothing() {
    let link = &parsed(SHAPE, &[]).link[1];
    assert_eq!(
        link.reverse.bandwidth,
        Rate::Constant(Bandwidth::from_bps(384_000))
    );
    assert_eq!(link.reverse.delay, link.forward.delay);
    assert_eq!(link.reverse.queue, link.forward.queue);
    assert_eq!(link.reverse.loss, link.forward.loss);
    assert!(link.reverse_written);
}

#[test]
fn what_a_file_does_not_say_has_its_documented_default() {
    let file = parsed(
        "duration = \"1s\"\n[[link]]\nbetween = [\"a\", \"b\"]\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n\
         congestion_control = \"reno\"\n",
        &[],
    );
    assert_eq!(file.title, "x");
    assert_eq!(file.warmup, Duration::ZERO);
    assert_eq!(file.seeds, [1]);
    assert_eq!(file.stack, Stack::Linux);
    assert_eq!(file.accounting, Accounting::Ip);
    assert_eq!(file.mss, 1448);
    assert_eq!(file.tcp_rmem, [4_096, 131_072, 6_291_456]);
    assert_eq!(file.tcp_wmem, [4_096, 16_384, 4_194_304]);
    assert_eq!(file.record, Record::default());
    let link = &file.link[0];
    assert_eq!(link.name.value, "a-b");
    assert_eq!(link.forward.bandwidth, Rate::Unlimited);
    assert_eq!(link.forward.delay, Delay::Constant(Duration::ZERO));
    assert_eq!(link.forward.queue_or_default(), Capacity::Unlimited);
    assert_eq!(link.forward.scheduler, Scheduler::Fifo);
    assert_eq!(link.forward.loss, LossConfig::None);
    let flow = &file.flow[0];
    assert_eq!(flow.name.value, "flow-1");
    assert_eq!(flow.application, Application::Bulk);
    assert_eq!((flow.bytes, flow.count, flow.pacing), (None, 1, false));
}

#[test]
fn a_link_of_limited_bandwidth_has_a_queue_of_fifty_packets() {
    let link = &parsed(SHAPE, &[]).link[0];
    assert_eq!(link.forward.queue_or_default(), Capacity::Packets(50));
}

#[test]
fn a_flow_of_2005_is_reno_unless_it_says_otherwise() {
    let text = SHAPE.replace(
        "congestion_control = \"sfsack\"\nparameters = { tau = \"50ms\" }\n",
        "",
    );
    let file = parsed(&text, &["stack=2005"]);
    assert_eq!(file.flow[0].congestion_control.value, "reno");
}

#[test]
fn every_field_means_what_it_says() {
    let file = parsed(EVERYTHING, &[]);
    let link = &file.link[0];
    assert_eq!(
        link.forward.jitter,
        Some(Jitter {
            amount: Duration::from_millis(2),
            distribution: JitterDistribution::Normal,
            correlation: 0.25,
            overtake: true,
        })
    );
    assert_eq!(link.forward.queue, Some(Capacity::Bytes(75_000)));
    assert_eq!(
        link.forward.loss,
        LossConfig::GilbertElliott {
            p: 0.01,
            r: 0.2,
            h: 0.1,
            k: 0.999,
        }
    );
    assert_eq!(
        link.forward.reorder,
        Some(ReorderConfig {
            probability: 0.01,
            displacement: Displacement::Late(Duration::from_millis(3)),
        })
    );
    assert_eq!(link.forward.accounting, Accounting::EthernetWire);
    let policer = PolicerConfig {
        rate: Bandwidth::from_mbps(8),
        burst: Bytes(30_000),
    };
    assert_eq!(link.forward.policer, Some(policer));
    let aggregation = AggregationConfig {
        interval: Duration::from_millis(4),
        packets: Some(32),
    };
    assert_eq!(link.forward.aggregation, Some(aggregation));
    assert_eq!(link.reverse.bandwidth, Rate::Unlimited);
    assert_eq!(link.reverse.queue, Some(Capacity::Unlimited));
    assert_eq!(link.reverse.loss, LossConfig::None);
    assert_eq!(
        (link.reverse.policer, link.reverse.aggregation),
        (None, None)
    );
    let reorder = link.reverse.reorder.map(|reorder| reorder.displacement);
    assert_eq!(reorder, Some(Displacement::SkipsDelay));
    assert_eq!(
        link.reverse.aqm,
        Aqm::CoDel(CoDelConfig {
            target: Duration::from_millis(2),
            interval: Duration::from_millis(50),
            ecn: false,
        })
    );
    assert_eq!(
        file.link[2].reverse.aqm,
        Aqm::DualPi2(DualPi2Config {
            target: Duration::from_millis(20),
            tupdate: Duration::from_millis(30),
            alpha: 0.2,
            beta: 3.0,
            coupling: 1.5,
            step: Duration::from_millis(2),
        })
    );
    assert_eq!(
        file.link[2].forward.aqm,
        Aqm::FqCoDel(FqCoDelConfig {
            flows: 32,
            quantum: Bytes(300),
            target: Duration::from_millis(2),
            interval: Duration::from_millis(50),
            ecn: false,
        })
    );
    assert_eq!(
        file.link[1].reverse.aqm,
        Aqm::Pie(PieConfig {
            target: Duration::from_millis(20),
            tupdate: Duration::from_millis(30),
            alpha: 0.25,
            beta: 2.5,
            max_burst: Duration::from_millis(100),
            ecn: true,
            mark_ecnth: 0.2,
        })
    );
    assert_eq!(file.link[1].forward.accounting, Accounting::Ethernet);
    assert_eq!(
        file.flow[2].application,
        Application::Constant {
            rate: Bandwidth::from_bps(1_000_000),
            packet: 200,
        }
    );
    assert_eq!(
        file.flow[4].application,
        Application::Command {
            client: "iperf3 -c {to} -t 50".to_owned(),
            server: Some("iperf3 -s".to_owned()),
        }
    );
    assert_eq!(file.flow[4].control, Control::Kernel("bbr3".to_owned()));
    assert_eq!(file.time_scale, 10.0);
    assert_eq!((file.link[0].capture, file.link[1].capture), (false, true));
    assert_eq!(file.flow[1].mss, 1460);
    assert_eq!(file.flow[0].mss, 536);
}

#[test]
fn parameters_are_taken_in_the_units_that_people_write() {
    let with = |control: &str, parameters: &str| {
        let set = [
            format!("flow.one.congestion_control={control}"),
            format!("flow.one.parameters={parameters}"),
        ];
        own(&parsed(SHAPE, &[&set[0], &set[1]]).flow[0].control).clone()
    };
    assert_eq!(with("sfsack", "{ tau = 70000 }").get("tau"), Ok(70_000));
    assert_eq!(with("sfsack", "{ tau = \"0.07s\" }").get("tau"), Ok(70_000));
    let cubic = with(
        "cubic",
        "{ beta = 0.5, hystart = false, hystart_low_window = \"20pkt\" }",
    );
    assert_eq!(cubic.get("beta"), Ok(512));
    assert_eq!(cubic.get("hystart"), Ok(0));
    assert_eq!(cubic.get("hystart_low_window"), Ok(20));
    let file = parsed(SHAPE, &["flow.one.parameters.tau=60ms"]);
    assert_eq!(own(&file.flow[0].control).get("tau"), Ok(60_000));
}

#[test]
fn a_switch_names_a_time_a_control_and_its_parameters() {
    let [first, second] = &parsed(EVERYTHING, &[]).flow[0].switch[..] else {
        panic!("two switches")
    };
    assert_eq!(first.at, Duration::from_secs(10));
    assert_eq!(first.congestion_control.value, "sfsack");
    assert_eq!(own(&first.control).get("tau"), Ok(60_000));
    assert!(first.control.is_tuned());
    assert_eq!(second.at, Duration::from_secs(20));
    assert_eq!(second.control, Control::Kernel("vegas".to_owned()));
}

#[test]
fn advice_is_in_the_units_of_controls() {
    let file = parsed(EVERYTHING, &[]);
    let advised = file
        .flow
        .iter()
        .find_map(|flow| flow.advised_start)
        .unwrap();
    let start = advised.for_control(7).unwrap();
    assert_eq!((start.rate(), start.rtt_us()), (5_000_000, 50_000));
    assert_eq!(start.until_ns(), Some(30_000_000_007));
}

#[test]
fn a_control_at_its_defaults_is_not_tuned() {
    let file = parsed(SHAPE, &["flow.one.parameters={ tau = \"70ms\" }"]);
    let default = own(&file.flow[0].control).control().default_parameters();
    assert_eq!(
        file.flow[0].control.is_tuned(),
        own(&file.flow[0].control) != &default
    );
    assert!(!file.flow[1].control.is_tuned());
}

#[test]
fn copies_are_numbered_and_start_one_after_the_other() {
    let file = parsed(EVERYTHING, &[]);
    let copies: Vec<(String, Duration)> = file.flow[0].copies().collect();
    assert_eq!(
        copies,
        [
            ("one-1".to_owned(), Duration::from_millis(1000)),
            ("one-2".to_owned(), Duration::from_millis(1500)),
            ("one-3".to_owned(), Duration::from_millis(2000)),
        ]
    );
}

#[test]
fn overrides_reach_every_place() {
    let file = parsed(
        SHAPE,
        &[
            "duration=10s",
            "title=2005",
            "seeds=[4, 5]",
            "record.interval=1s",
            "link.bottleneck.bandwidth=20Mbit/s",
            "link.bottleneck.reverse.delay=1ms",
            "link.server1-router.queue=7pkt",
            "link.1.delay=3ms",
            "flow.web.application.sessions=3",
            "flow.one.bytes=\"1MB\"",
            "flow.one.bytes=2MB",
        ],
    );
    assert_eq!(file.duration, Duration::from_secs(10));
    assert_eq!(file.title, "2005");
    assert_eq!(file.seeds, [4, 5]);
    assert_eq!(file.record.interval, Duration::from_secs(1));
    assert_eq!(
        file.link[1].forward.bandwidth,
        Rate::Constant(Bandwidth::from_bps(20_000_000))
    );
    assert_eq!(
        file.link[1].reverse.delay,
        Delay::Constant(Duration::from_millis(1))
    );
    assert_eq!(file.link[0].forward.queue, Some(Capacity::Packets(7)));
    assert_eq!(
        file.link[0].forward.delay,
        Delay::Constant(Duration::from_millis(3))
    );
    assert!(matches!(
        file.flow[1].application,
        Application::Web { sessions: 3, .. }
    ));
    assert_eq!(file.flow[0].bytes, Some(Bytes(2_000_000)));
}

/// A sweep over the number of flows begins with one.
#[test]
fn the_time_between_copies_may_stand_beside_a_single_one() {
    let file = parsed(SHAPE, &["flow.one.every=100ms", "flow.one.count=1"]);
    assert_eq!(file.flow[0].copies().count(), 1);
}

#[test]
fn a_name_with_dots_stands_in_quotes() {
    let text = SHAPE.replace("name   = \"one\"", "name   = \"v1.0\"");
    let file = parsed(&text, &["flow.\"v1.0\".bytes=3MB"]);
    assert_eq!(file.flow[0].bytes, Some(Bytes(3_000_000)));
}

#[test]
fn time_scale_makes_recordings_faster_and_leaves_their_values() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rate.csv"), "0,1\n10,5\n").unwrap();
    let text = SHAPE.replace("\"15Mbit/s\" ", "{ trace = \"rate.csv\" } ");
    let rate_at = |set: &[String], millis| {
        let experiment = Experiment::parse(&text, "x.toml", folder.path(), set).unwrap();
        match &experiment.file().link[1].forward.bandwidth {
            Rate::Steps(trace) => trace.at(Time::from_millis(millis)).as_bps() / 1_000_000,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([rate_at(&[], 9_999), rate_at(&[], 10_000)], [1, 5]);
    let faster = ["time_scale=4".to_owned()];
    assert_eq!([rate_at(&faster, 2_499), rate_at(&faster, 2_500)], [1, 5]);
}

/// The names of the fields that are read from every kind of table, by the table's name in messages.
fn fields_read() -> BTreeMap<String, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rate.csv"), "0,1\n").unwrap();
    let trace = "{ trace = \"rate.csv\", repeat = true }";
    let text = EVERYTHING.replace("\"10Mbit/s\"", trace);
    let mut findings = Findings::new(Sources::new("x.toml", &text));
    let table = value::parse_document(&text).unwrap();
    read(table, "x.toml", folder.path(), &[], &mut findings).unwrap();
    findings
        .asked
        .into_iter()
        .map(|(what, fields)| {
            let mut fields: Vec<String> = fields.iter().map(|f| f.to_string()).collect();
            fields.sort();
            fields.dedup();
            (what, fields)
        })
        .collect()
}

/// The part of the schema that describes the table that messages call `what`.
fn schema_of<'a>(schema: &'a serde_json::Value, what: &str) -> &'a serde_json::Value {
    let definitions = &schema["definitions"];
    if let Some((table, kind)) = what.split_once(" of kind ") {
        let definition = match table {
            "aqm" => "Aqm",
            "scheduler" => "SchedulerTable",
            "application" => "Application",
            "loss" => "LossModel",
            other => panic!("no definition for {other}"),
        };
        let kinds = definitions[definition]["oneOf"].as_array().unwrap();
        return kinds
            .iter()
            .find(|alternative| alternative["properties"]["kind"]["const"] == kind)
            .unwrap();
    }
    match what {
        "file" => schema,
        "record" => &definitions["Record"],
        "link" => &definitions["Link"],
        "reverse" => &definitions["Direction"],
        "jitter" => &definitions["Jitter"],
        "policer" => &definitions["Policer"],
        "aggregation" => &definitions["Aggregation"],
        "reorder" => &definitions["Reorder"],
        "trace" => &definitions["TraceTable"],
        "flow" => &definitions["Flow"],
        "advised_start" => &definitions["AdvisedStart"],
        "switch" => &definitions["Switch"],
        other => panic!("no definition for {other}"),
    }
}

#[test]
fn the_schema_tells_of_exactly_the_fields_that_are_read() {
    let schema: serde_json::Value = serde_json::from_str(&schema::json()).unwrap();
    let read = fields_read();
    assert_eq!(read.len(), 27, "{:?}", read.keys());
    for (what, fields) in read {
        let part = schema_of(&schema, &what);
        let told: Vec<&String> = part["properties"].as_object().unwrap().keys().collect();
        assert_eq!(told, fields.iter().collect::<Vec<_>>(), "{what}");
        assert_eq!(part["additionalProperties"], false, "{what}");
        for (name, field) in part["properties"].as_object().unwrap() {
            let described = field["description"].is_string();
            assert!(
                described || name == "kind",
                "{what}: {name} is not described"
            );
        }
    }
}

#[test]
fn the_schema_that_ships_is_current() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/experiment.schema.json"
    );
    let shipped = std::fs::read_to_string(path).unwrap();
    assert!(
        shipped == schema::json(),
        "run: cargo run -p fairwind -- schema > docs/reference/experiment.schema.json"
    );
}

#[test]
fn the_documentations_example_is_right() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/experiment-file.md"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let example = text.split("```toml\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let file = parsed(example, &[]);
    assert_eq!((file.link.len(), file.flow.len()), (1, 2));
}

mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged_text};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_damaged_file_is_read_or_its_faults_are_told_with_their_lines(
            text in damaged_text(&[SHAPE, EVERYTHING])
        ) {
            if let Err(diagnostic) = Experiment::parse(&text, "x.toml", Path::new(""), &[]) {
                prop_assert!(!diagnostic.problems.is_empty());
                for problem in diagnostic.problems {
                    prop_assert!(problem.line <= text.split('\n').count());
                    prop_assert!(!problem.message.is_empty());
                }
            }
        }

        #[test]
        fn no_override_is_a_panic(argument in prop_oneof![
            "[a-z0-9\"\\[\\]{}=., -]{0,30}",
            damaged_text(&["duration=2s", "link.one.delay=5ms", "seeds=[1, 2]"]),
        ]) {
            let _ = Experiment::parse(EVERYTHING, "x.toml", Path::new(""), &[argument]);
        }
    }
}
