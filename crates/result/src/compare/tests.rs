use std::collections::BTreeMap;

use super::*;
use crate::{FORMAT_VERSION, FlowResult, LinkResult, Performance, RunResult};

fn run(seed: u64, flow: &str, goodput_mbps: f64) -> RunResult {
    RunResult {
        format_version: FORMAT_VERSION,
        title: "one link".into(),
        engine: "sim".into(),
        seed,
        versions: BTreeMap::new(),
        accounting: "Rates count IP bytes.".into(),
        stack: "linux".into(),
        duration_s: 10.0,
        warmup_s: 0.0,
        overrides: Vec::new(),
        incomplete: None,
        warnings: Vec::new(),
        flows: vec![FlowResult {
            name: flow.into(),
            congestion_control: Some("reno".into()),
            bytes: (goodput_mbps * 1_250_000.0) as u64,
            goodput_mbps,
            retransmits: 4,
            rtt_min_ms: Some(20.0),
            ..FlowResult::default()
        }],
        links: vec![LinkResult {
            name: "bottleneck".into(),
            utilization: Some(0.5),
            ..LinkResult::default()
        }],
        emulator: None,
        performance: Performance::default(),
    }
}

/// The comparison, with the folders named as the test names them.
fn compared(write: impl Fn(&Path, &Path)) -> Comparison {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    std::fs::create_dir(&a).unwrap();
    std::fs::create_dir(&b).unwrap();
    write(&a, &b);
    let mut comparison = compare(&a, &b).unwrap();
    comparison.a.path = "a".into();
    comparison.b.path = "b".into();
    comparison
}

fn metric<'a>(item: &'a Item, name: &str) -> &'a Difference {
    item.metrics.iter().find(|m| m.metric == name).unwrap()
}

#[test]
fn differences_are_second_less_first_and_relative_to_the_first() {
    let comparison = compared(|a, b| {
        run(1, "one", 8.0).write(a).unwrap();
        run(1, "one", 10.0).write(b).unwrap();
    });
    let goodput = metric(&comparison.flows[0], "goodput_mbps");
    assert_eq!(goodput.absolute, Some(2.0));
    assert_eq!(goodput.relative, Some(0.25));
    assert_eq!(goodput.overlap, None);
    let drops = metric(&comparison.links[0], "drops");
    assert_eq!((drops.absolute, drops.relative), (Some(0.0), None));
}

#[test]
fn two_runs_give_an_aligned_table() {
    let comparison = compared(|a, b| {
        run(1, "one", 8.0).write(a).unwrap();
        let mut second = run(2, "one", 10.0);
        second.flows[0].congestion_control = Some("sfsack".into());
        second.flows[0].completion_s = Some(7.5);
        second.write(b).unwrap();
    });
    let expected = "\
A: a (one link, sim, seed 1)
B: b (one link, sim, seed 2)

flow one (reno against sfsack)
                          A         B     B - A  relative
  goodput_mbps        8.000    10.000    +2.000  +25.00 %
  bytes            10000000  12500000  +2500000  +25.00 %
  completion_s            -     7.500
  retransmits             4         4       0.0    0.00 %
  timeouts                0         0       0.0
  rtt_min_ms         20.000    20.000     0.000    0.00 %

link bottleneck
                          A         B     B - A  relative
  utilization        0.5000    0.5000    0.0000    0.00 %
  queue_mean_pkts     0.000     0.000     0.000
  queue_p99_pkts      0.000     0.000     0.000
  drops                   0         0       0.0
";
    assert_eq!(comparison.to_string(), expected);
}

#[test]
fn flows_and_links_of_one_side_are_named() {
    let comparison = compared(|a, b| {
        run(1, "one", 8.0).write(a).unwrap();
        let mut second = run(1, "two", 8.0);
        second.links.clear();
        second.write(b).unwrap();
    });
    assert_eq!(comparison.only_in_a.flows, ["one"]);
    assert_eq!(comparison.only_in_a.links, ["bottleneck"]);
    assert_eq!(comparison.only_in_b.flows, ["two"]);
    assert!(comparison.flows.is_empty() && comparison.links.is_empty());
    let table = comparison.to_string();
    assert!(table.contains("Only in A, flows: one\n"), "{table}");
    assert!(table.contains("Only in A, links: bottleneck\n"), "{table}");
    assert!(table.contains("Only in B, flows: two\n"), "{table}");
}

#[test]
fn several_seeds_say_whether_their_intervals_overlap() {
    let seeds = |goodputs: [f64; 3]| {
        let runs: Vec<RunResult> = (1..)
            .zip(goodputs)
            .map(|(seed, goodput)| run(seed, "one", goodput))
            .collect();
        Summary::of(&runs).unwrap()
    };
    // Half-widths are 2.484 each.
    let comparison = compared(|a, b| {
        seeds([9.0, 10.0, 11.0]).write(a).unwrap();
        seeds([13.0, 14.0, 15.0]).write(b).unwrap();
    });
    let goodput = metric(&comparison.flows[0], "goodput_mbps");
    assert_eq!(goodput.overlap, Some(true));
    let comparison = compared(|a, b| {
        seeds([9.0, 10.0, 11.0]).write(a).unwrap();
        seeds([14.0, 15.0, 16.0]).write(b).unwrap();
    });
    let goodput = metric(&comparison.flows[0], "goodput_mbps");
    assert_eq!(goodput.overlap, Some(false));
    let table = comparison.to_string();
    assert!(
        table.contains("B: b (one link, sim, seeds 1 to 3)"),
        "{table}"
    );
    assert!(table.contains("10.000 ± 2.484"), "{table}");
    assert!(table.contains("apart"), "{table}");
}

#[test]
fn a_single_run_has_no_interval_to_overlap() {
    let comparison = compared(|a, b| {
        let runs = [9.0, 10.0, 11.0].map(|goodput| run(1, "one", goodput));
        Summary::of(&runs).unwrap().write(a).unwrap();
        run(1, "one", 12.0).write(b).unwrap();
    });
    let goodput = metric(&comparison.flows[0], "goodput_mbps");
    assert_eq!(goodput.overlap, None);
    assert_eq!(goodput.b.unwrap().n, 1);
}

#[test]
fn results_that_count_differently_carry_a_caveat() {
    let comparison = compared(|a, b| {
        run(1, "one", 8.0).write(a).unwrap();
        let mut second = run(1, "one", 8.0);
        second.title = "two links".into();
        second.overrides = vec!["duration=20s".into()];
        second.accounting = "Rates count frames.".into();
        second.stack = "2005".into();
        second.duration_s = 20.0;
        second.warmup_s = 5.0;
        second.write(b).unwrap();
    });
    assert_eq!(
        comparison.caveats,
        [
            "these are different experiments: \"one link\" and \"two links\"",
            "values were overridden with --set. A: nothing. B: duration=20s",
            "rates are counted differently. A: Rates count IP bytes. B: Rates count frames.",
            "the TCP stacks differ: linux and 2005",
            "the runs last 10 s and 20 s",
            "the totals begin at 0 s and at 5 s",
        ]
    );
}

#[test]
fn what_makes_one_of_the_results_doubtful_is_a_caveat() {
    let comparison = compared(|a, b| {
        run(1, "one", 8.0).write(a).unwrap();
        let mut second = run(1, "one", 8.0);
        second.incomplete = Some("flow one: the client ended with 3".into());
        second.warnings = vec!["the emulator fell behind".into()];
        second.write(b).unwrap();
    });
    assert_eq!(
        comparison.caveats,
        [
            "B is incomplete: flow one: the client ended with 3",
            "B: the emulator fell behind",
        ]
    );
}

#[test]
fn json_holds_the_differences() {
    let comparison = compared(|a, b| {
        run(1, "one", 8.0).write(a).unwrap();
        run(1, "one", 10.0).write(b).unwrap();
    });
    let json = serde_json::to_value(&comparison).unwrap();
    assert_eq!(json["a"]["path"], "a");
    assert_eq!(json["flows"][0]["name"], "one");
    assert_eq!(json["flows"][0]["metrics"][0]["metric"], "goodput_mbps");
    assert_eq!(json["flows"][0]["metrics"][0]["absolute"], 2.0);
    assert_eq!(json["flows"][0]["metrics"][0]["a"]["mean"], 8.0);
    assert_eq!(json["only_in_a"]["flows"], serde_json::json!([]));
}

#[test]
fn a_folder_without_a_result_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("nothing");
    let error = compare(&missing, &missing).unwrap_err().to_string();
    assert!(error.contains("nothing: no result here"), "{error}");
}
