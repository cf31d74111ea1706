use super::*;

fn run(seed: u64, goodput_mbps: f64) -> RunResult {
    RunResult {
        format_version: FORMAT_VERSION,
        title: "one flow".into(),
        engine: "sim".into(),
        seed,
        versions: BTreeMap::from([("fairwind".into(), "0.1.0".into())]),
        accounting: "Rates count IP bytes.".into(),
        stack: "linux".into(),
        duration_s: 10.0,
        warmup_s: 0.0,
        overrides: Vec::new(),
        incomplete: None,
        warnings: Vec::new(),
        flows: vec![FlowResult {
            name: "one".into(),
            congestion_control: Some("reno".into()),
            bytes: 12_500_000,
            goodput_mbps,
            goodput_sd_mbps: Some(1.0 / 3.0),
            completion_s: None,
            retransmits: 3,
            timeouts: 0,
            ecn_signals: None,
            rtt_min_ms: Some(20.0),
            rtt_mean_ms: Some(f64::NAN),
            application: "bulk".into(),
            start_s: 0.1,
            packets_sent: 8_640,
            packets_lost: 3,
            objects: None,
            object_p50_s: None,
            object_p99_s: None,
            kernel_controls: Vec::new(),
        }],
        links: vec![LinkResult {
            name: "bottleneck".into(),
            utilization: Some(0.987_654_321),
            queue_mean_pkts: 12.5,
            queue_p99_pkts: 50.0,
            drops: 3,
            marks: 0,
            random_losses: 0,
            policed: 0,
            packets: 8_640,
            bytes: 12_960_000,
        }],
        emulator: None,
        performance: Performance {
            data_packets: 8_637,
            events: 20_000,
            cpu_s: 0.01,
            wall_s: 0.02,
            peak_rss_mb: 12.0,
            machine: None,
        },
    }
}

#[test]
fn a_result_has_its_fields_in_the_documented_order() {
    let expected = r#"{
  "format_version": 1,
  "title": "one flow",
  "engine": "sim",
  "seed": 7,
  "versions": {
    "fairwind": "0.1.0"
  },
  "accounting": "Rates count IP bytes.",
  "stack": "linux",
  "duration_s": 10.0,
  "warmup_s": 0.0,
  "flows": [
    {
      "name": "one",
      "congestion_control": "reno",
      "bytes": 12500000,
      "goodput_mbps": 10.0,
      "goodput_sd_mbps": 0.333333,
      "completion_s": null,
      "retransmits": 3,
      "timeouts": 0,
      "rtt_min_ms": 20.0,
      "rtt_mean_ms": null,
      "application": "bulk",
      "start_s": 0.1,
      "packets_sent": 8640,
      "packets_lost": 3
    }
  ],
  "links": [
    {
      "name": "bottleneck",
      "utilization": 0.987654,
      "queue_mean_pkts": 12.5,
      "queue_p99_pkts": 50.0,
      "drops": 3,
      "marks": 0,
      "random_losses": 0,
      "packets": 8640,
      "bytes": 12960000
    }
  ],
  "performance": {
    "data_packets": 8637,
    "events": 20000,
    "cpu_s": 0.01,
    "wall_s": 0.02,
    "peak_rss_mb": 12.0
  }
}
"#;
    assert_eq!(run(7, 10.0).to_json(), expected);
}

#[test]
fn what_is_written_reads_back_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    run(7, 10.0).write(folder.path()).unwrap();
    let read = RunResult::read(folder.path()).unwrap();
    assert_eq!(read.to_json(), run(7, 10.0).to_json());
}

#[test]
fn a_summary_gives_mean_and_interval_over_the_seeds() {
    let summary = Summary::of(&[run(1, 9.0), run(2, 10.0), run(3, 11.0)]).unwrap();
    assert_eq!(summary.seeds, [1, 2, 3]);
    let goodput = summary.flows[0].goodput_mbps.unwrap();
    assert_eq!((goodput.mean, goodput.n), (10.0, 3));
    assert!((goodput.interval95.unwrap() - 2.484_138).abs() < 1e-6);
    assert_eq!(summary.flows[0].completion_s, None);
    assert_eq!(summary.links[0].drops.unwrap().interval95, Some(0.0));
}

#[test]
fn no_runs_have_no_summary() {
    assert_eq!(Summary::of(&[]), None);
}

#[test]
fn a_folder_without_a_result_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let error = Stored::read(folder.path()).unwrap_err().to_string();
    assert!(
        error.ends_with("no result here; a result folder holds result.json or summary.json"),
        "{error}"
    );
}

#[test]
fn a_later_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(RESULT_FILE), r#"{"format_version": 2}"#).unwrap();
    let error = Stored::read(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("result format 2, but this fairwind reads up to 1"),
        "{error}"
    );
}

#[test]
fn a_damaged_result_names_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join(RESULT_FILE),
        "{\"format_version\": 1,\n\"title\": 3}",
    )
    .unwrap();
    let error = Stored::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("result.json"), "{error}");
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn seeds_in_a_row_are_said_by_their_ends() {
    assert_eq!(seeds_text(&[3]), "seed 3");
    assert_eq!(seeds_text(&[1, 2]), "seeds 1, 2");
    assert_eq!(seeds_text(&[1, 2, 3]), "seeds 1 to 3");
    assert_eq!(seeds_text(&[3, 2, 1]), "seeds 3, 2, 1");
    assert_eq!(seeds_text(&[1, 2, 4]), "seeds 1, 2, 4");
}
