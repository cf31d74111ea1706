//! `fairwind demo` as its users meet it: in the simulator, and with all its programs on the running
//! kernel.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use fairwind_testing::permitted;
use tempfile::TempDir;

use crate::turn::in_the_lab;

/// The ways of the table, in their order.
const WAYS: [&str; 4] = ["standard TCP", "NOCC throughout", "advised", "background"];

fn demo(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairwind"))
        .current_dir(folder)
        .args(["demo", "--quick"])
        .args(arguments)
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The words of the row of a way, without its name.
fn row<'a>(text: &'a str, way: &str) -> Vec<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(way));
    line.unwrap_or_else(|| panic!("no {way}: {text}"))
        .split_whitespace()
        .collect()
}

#[test]
fn in_the_simulator_the_same_seed_tells_the_same_story() {
    let folder = TempDir::new().unwrap();
    let first = out(&demo(folder.path(), &["--sim", "--seed", "3"]));
    for way in WAYS {
        let row = row(&first, way);
        assert_eq!((row.len(), row[7]), (8, "simulated"), "{row:?}");
    }
    let heads = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("transfer "));
        let words = line.unwrap().split_whitespace().map(str::to_owned);
        words.collect::<Vec<_>>()
    };
    let tutorial = include_str!("../../../docs/tutorials/first-run.md");
    assert_eq!(heads(tutorial), heads(&first));
    // With advice, congestion control is switched on in the course of the morning.
    assert_ne!(row(&first, "advised")[6], "0");
    assert!(
        first.ends_with("report: demo.result/report.html\n"),
        "{first}"
    );
    let again = out(&demo(folder.path(), &["--sim", "--seed", "3", "--force"]));
    assert_eq!(first, again);
}

#[test]
fn the_report_refers_to_nothing_outside_and_tells_every_change() {
    let folder = TempDir::new().unwrap();
    out(&demo(folder.path(), &["--sim"]));
    let report = fs::read_to_string(folder.path().join("demo.result/report.html")).unwrap();
    for part in [
        "Available bandwidth",
        "threshold",
        "Congestion window",
        "Smoothed round-trip time",
    ] {
        assert!(report.contains(part), "{part}");
    }
    assert!(report.contains("no congestion control: every hop has at least the threshold"));
    for outside in ["src=", "href=", "url(", "@import"] {
        assert!(!report.contains(outside), "{outside}");
    }
}

#[test]
fn a_result_is_not_overwritten_without_force() {
    let folder = TempDir::new().unwrap();
    out(&demo(folder.path(), &["--sim"]));
    let refused = demo(folder.path(), &["--sim"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--force"));
}

/// The real server, client and advisor, on the running kernel.
#[test]
fn on_the_kernel_every_file_arrives_as_it_was_sent() {
    let Some(_turn) = in_the_lab() else { return };
    if !permitted(fairwind_trace::kernel::check_requirements())
        || !permitted(fairwind_cc::kernel::check_requirements())
    {
        return;
    }
    let folder = TempDir::new().unwrap();
    let text = out(&demo(folder.path(), &[]));
    for way in WAYS {
        let outcome = *row(&text, way).last().unwrap();
        // What is in the background has no time by which it is there, and beside other tests others are busy.
        let may_be_late = way == "background" && outcome == "way";
        assert!(outcome == "identical" || may_be_late, "{way}: {text}");
    }
    assert_ne!(row(&text, "advised")[6], "0", "{text}");
    // The advisor's path has that mode, and the server takes its congestion control.
    // If it is under way when the run ends, the advisor goes before the server, which then takes the control back.
    let background = row(&text, "background");
    let is_late = *background.last().unwrap() == "way";
    let changes = background[6];
    assert!(changes == "1" || is_late && changes == "2", "{text}");
    let advice = fs::read_to_string(folder.path().join("demo.result/background.advice.jsonl"));
    assert!(advice.unwrap().contains(r#""what":"start","from":"plain""#));
    if fairwind_study::demo::lab::has_curl() {
        let outcome = *row(&text, "curl in background").last().unwrap();
        assert!(["identical", "way"].contains(&outcome), "{text}");
    }
    // The large files and those that the programs needed are gone.
    assert!(!folder.path().join("demo.result/site").exists());
}
