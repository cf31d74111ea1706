//! The command as its users meet it: a process with arguments, two streams and an exit code.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const SHORT: &str = r#"
title    = "One flow"
duration = "2s"
seeds    = [1]

[[link]]
name      = "bottleneck"
between   = ["server", "client"]
bandwidth = "10Mbit/s"
delay     = "5ms"
queue     = "50pkt"

[[flow]]
name = "one"
from = "server"
to   = "client"
congestion_control = "reno"
"#;

/// A folder with an experiment file in it.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new(experiment: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("short.toml"), experiment).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairwind"));
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Names in the folder, including hidden ones.
    fn names(&self) -> Vec<String> {
        names(self.folder.path())
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn a_run_prints_a_table_and_names_its_report() {
    let bench = Bench::new(SHORT);
    let output = bench.run(&["sim", "run", "short.toml"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    let text = out(&output);
    assert!(
        text.starts_with("One flow\nsim, stack linux, seed 1, 2 s\n"),
        "{text}"
    );
    assert!(text.contains("goodput Mbit/s"), "{text}");
    assert!(
        text.ends_with("report: short.result/report.html\n"),
        "{text}"
    );
    assert_eq!(bench.names(), ["short.result", "short.toml"]);
    for file in ["result.json", "report.html", "experiment.toml"] {
        assert!(bench.path("short.result").join(file).is_file(), "{file}");
    }
}

#[test]
fn a_pipe_sees_no_progress_bar() {
    let bench = Bench::new(SHORT);
    let output = bench.run(&["sim", "run", "short.toml"]);
    assert_eq!(err(&output), "");
}

#[test]
fn json_is_all_that_json_prints_and_is_what_the_folder_holds() {
    let bench = Bench::new(SHORT);
    let output = bench.run(&["sim", "run", "short.toml", "--json"]);
    let stored = fs::read_to_string(bench.path("short.result/result.json")).unwrap();
    assert_eq!(out(&output), stored);
    let result: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(result["flows"][0]["name"], "one");
    assert_eq!(result["seed"], 1);
    // 10 Mbit/s of 1500-byte packets carry at most 10 * 1448 / 1500 = 9.653 Mbit/s of payload.
    let goodput = result["flows"][0]["goodput_mbps"].as_f64().unwrap();
    assert!((8.0..=9.654).contains(&goodput), "{goodput}");
}

#[test]
fn several_seeds_print_a_summary() {
    let bench = Bench::new(SHORT);
    let output = bench.run(&[
        "sim",
        "run",
        "short.toml",
        "--json",
        "--seed",
        "4",
        "--seed",
        "2",
    ]);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["seeds"], serde_json::json!([4, 2]));
    assert!(bench.path("short.result/summary.json").is_file());
    assert!(bench.path("short.result/seed-2/result.json").is_file());
}

#[test]
fn a_set_value_replaces_the_files() {
    let bench = Bench::new(SHORT);
    let set = "link.bottleneck.bandwidth=1Mbit/s";
    let output = bench.run(&["sim", "run", "short.toml", "--json", "--set", set]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let goodput = result["flows"][0]["goodput_mbps"].as_f64().unwrap();
    assert!(goodput <= 0.9654, "{goodput}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_but_for_the_performance() {
    let bench = Bench::new(SHORT);
    let mut results = Vec::new();
    for name in ["a", "b"] {
        let output = bench.run(&["sim", "run", "short.toml", "--json", "--out", name]);
        let text = out(&output);
        let cut = text.find("\"performance\"").unwrap();
        results.push(text[..cut].to_owned());
    }
    assert_eq!(results[0], results[1]);
}

#[test]
fn a_result_is_not_overwritten_without_force() {
    let bench = Bench::new(SHORT);
    assert_eq!(code(&bench.run(&["sim", "run", "short.toml"])), Some(0));
    let before = fs::read(bench.path("short.result/result.json")).unwrap();

    let refused = bench.run(&["sim", "run", "short.toml"]);
    assert_eq!(code(&refused), Some(2));
    assert!(err(&refused).contains("short.result"), "{}", err(&refused));
    assert!(err(&refused).contains("--force"), "{}", err(&refused));
    assert_eq!(
        fs::read(bench.path("short.result/result.json")).unwrap(),
        before
    );

    let forced = bench.run(&["sim", "run", "short.toml", "--force"]);
    assert_eq!(code(&forced), Some(0), "{}", err(&forced));
}

#[test]
fn a_wrong_file_is_told_with_its_line_and_nothing_is_written() {
    let bench = Bench::new(&SHORT.replace("bandwidth", "bandwith"));
    for arguments in [&["sim", "run", "short.toml"][..], &["check", "short.toml"]] {
        let output = bench.run(arguments);
        assert_eq!(code(&output), Some(2));
        assert_eq!(out(&output), "");
        assert!(
            err(&output).starts_with("short.toml:9:1: "),
            "{}",
            err(&output)
        );
        assert!(
            err(&output).contains("did you mean `bandwidth`?"),
            "{}",
            err(&output)
        );
        assert_eq!(bench.names(), ["short.toml"]);
    }
}

#[test]
fn a_missing_file_is_wrong_input() {
    let bench = Bench::new(SHORT);
    let output = bench.run(&["sim", "run", "long.toml"]);
    assert_eq!(code(&output), Some(2));
    assert!(err(&output).contains("long.toml"), "{}", err(&output));
}

#[test]
fn wrong_usage_is_told_with_exit_code_2() {
    let bench = Bench::new(SHORT);
    let output = bench.run(&["sim", "run", "short.toml", "--jobs", "0"]);
    assert_eq!(code(&output), Some(2));
    assert!(err(&output).contains("--jobs"), "{}", err(&output));
    assert_eq!(code(&bench.run(&["fly"])), Some(2));
}

#[test]
fn an_interrupted_run_leaves_nothing_and_exits_with_130() {
    let bench = Bench::new(&SHORT.replace("\"2s\"", "\"100000s\""));
    let mut child = bench
        .command(&["sim", "run", "short.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The run is under way once its working folder exists.
    let begun = Instant::now();
    while bench.names().len() < 2 && begun.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(bench.names().len(), 2, "no working folder after 20 s");
    // SAFETY: the signal goes to the child just started, which has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let status = child.wait().unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(status.code(), Some(130), "{said}");
    assert_eq!(said, "interrupted: no result was kept\n");
    assert_eq!(bench.names(), ["short.toml"]);
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let bench = Bench::new(SHORT);
    for arguments in [
        &["completions", "bash"][..],
        &["sim", "run", "short.toml", "--json"],
    ] {
        let mut child = bench
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        let status = child.wait().unwrap();
        assert_eq!(said, "");
        assert_eq!(status.code(), Some(0));
    }
}

#[test]
fn check_describes_the_network_and_writes_nothing() {
    let bench = Bench::new(SHORT);
    let output = bench.run(&["check", "short.toml"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    for word in ["server", "client", "bottleneck", "10"] {
        assert!(out(&output).contains(word), "{word}: {}", out(&output));
    }
    assert_eq!(bench.names(), ["short.toml"]);
}

#[test]
fn compare_sets_two_results_side_by_side() {
    let bench = Bench::new(SHORT);
    let set = "flow.one.congestion_control=cubic";
    bench.run(&["sim", "run", "short.toml", "--out", "a"]);
    bench.run(&["sim", "run", "short.toml", "--out", "b", "--set", set]);
    let table = bench.run(&["compare", "a", "b"]);
    assert_eq!(code(&table), Some(0), "{}", err(&table));
    assert!(out(&table).contains("one"), "{}", out(&table));
    let json = bench.run(&["compare", "a", "b", "--json"]);
    let _: Value = serde_json::from_slice(&json.stdout).unwrap();
}

#[test]
fn compare_lays_figures_of_two_results_over_each_other() {
    let bench = Bench::new(SHORT);
    bench.run(&["sim", "run", "short.toml", "--out", "a"]);
    bench.run(&["sim", "run", "short.toml", "--out", "b", "--seed", "2"]);
    let text = bench.run(&["compare", "a", "b", "--out", "both"]);
    assert_eq!(code(&text), Some(0), "{}", err(&text));
    assert!(
        out(&text).ends_with("figures: both/compare.html\n"),
        "{}",
        out(&text)
    );
    for file in ["compare.html", "cwnd.svg", "queue_distribution.svg"] {
        assert!(bench.path("both").join(file).is_file(), "{file}");
    }
    let json = bench.run(&["compare", "a", "b", "--out", "both", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["distributions"][0]["quantity"], "throughput_mbps");
    let over_a_result = bench.run(&["compare", "a", "b", "--out", "a"]);
    assert_eq!(code(&over_a_result), Some(2));
}

#[test]
fn comparing_what_is_no_result_is_wrong_input() {
    let bench = Bench::new(SHORT);
    let output = bench.run(&["compare", "nothing", "nowhere"]);
    assert_eq!(code(&output), Some(2));
    assert!(err(&output).contains("nothing"), "{}", err(&output));
}

#[test]
fn a_report_is_written_again() {
    let bench = Bench::new(SHORT);
    bench.run(&["sim", "run", "short.toml"]);
    let page = bench.path("short.result/report.html");
    fs::remove_file(&page).unwrap();
    let output = bench.run(&["report", "short.result"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    assert_eq!(out(&output), "short.result/report.html\n");
    assert!(page.is_file());
}

#[test]
fn the_controls_are_listed_with_their_parameters() {
    let bench = Bench::new(SHORT);
    let output = bench.run(&["cc", "list", "--json"]);
    let controls: Value = serde_json::from_slice(&output.stdout).unwrap();
    let named = |name: &str| {
        let controls = controls["controls"].as_array().unwrap();
        controls.iter().find(|c| c["name"] == name).unwrap().clone()
    };
    for name in ["reno", "cubic", "nocc"] {
        assert_ne!(named(name)["description"], "");
    }
    assert_eq!(named("sfsack")["parameters"][0]["name"], "tau");
    let table = out(&bench.run(&["cc", "list"]));
    assert!(table.starts_with("control"), "{table}");
    assert!(table.contains("sfsack"), "{table}");
}

#[test]
fn the_schema_is_json_that_knows_links_and_flows() {
    let bench = Bench::new(SHORT);
    let output = bench.run(&["schema"]);
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(schema["properties"]["link"].is_object(), "{schema}");
    assert!(schema["properties"]["flow"].is_object(), "{schema}");
}

#[test]
fn every_command_has_a_manual_page() {
    let bench = Bench::new(SHORT);
    let output = bench.run(&["man", "pages"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    let pages = names(&bench.path("pages"));
    for page in ["fairwind.1", "fairwind-sim-run.1", "fairwind-compare.1"] {
        assert!(
            pages.iter().any(|p| p == page),
            "{page} is not in {pages:?}"
        );
    }
}

#[test]
fn help_fits_a_terminal_of_100_columns() {
    let bench = Bench::new(SHORT);
    for arguments in [
        &["--help"][..],
        &["sim", "run", "--help"],
        &["cc", "list", "--help"],
    ] {
        let output = bench
            .command(arguments)
            .env("COLUMNS", "100")
            .output()
            .unwrap();
        for line in BufReader::new(&output.stdout[..]).lines() {
            let line = line.unwrap();
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn every_experiment_of_the_repository_is_right() {
    let bench = Bench::new(SHORT);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut checked = 0;
    for study in fs::read_dir(root.join("experiments")).unwrap() {
        let study = study.unwrap().path();
        // The index of the papers.
        if study.is_file() {
            continue;
        }
        for file in fs::read_dir(study).unwrap() {
            let file = file.unwrap().path();
            let is_plan = file.ends_with("plan.toml");
            if file.extension().is_some_and(|e| e == "toml") && !is_plan {
                let output = bench.run(&["check", file.to_str().unwrap()]);
                assert_eq!(code(&output), Some(0), "{}", err(&output));
                checked += 1;
            }
        }
    }
    assert!(checked >= 15, "{checked}");
}

#[test]
fn the_readmes_experiment_is_right() {
    let readme = include_str!("../../../README.md");
    let (_, rest) = readme.split_once("```toml\n").unwrap();
    let (experiment, _) = rest.split_once("```").unwrap();
    let bench = Bench::new(experiment);
    let output = bench.run(&["check", "short.toml"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
}
