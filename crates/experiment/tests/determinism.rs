//! The same file and seed give the same bytes: in every run, on every machine, in debug and in release
//! builds. `make test` runs this in both.
//!
//! After an intended change of behaviour, `UPDATE_EXPECT=1 cargo test --test experiment determinism` writes
//! the new snapshots; their diff shows the change.

use std::path::Path;

use expect_test::{ExpectFile, expect_file};
use fairwind_experiment::engine::sim::Sim;
use fairwind_experiment::{ExecuteOptions, execute};
use fairwind_result::{Performance, RunResult};
use fairwind_scenario::Experiment;

fn check(text: &str, expected: ExpectFile) {
    let experiment = Experiment::parse(text, "x.toml", Path::new(""), &[])
        .unwrap_or_else(|diagnostic| panic!("{diagnostic}"));
    let folder = tempfile::tempdir().unwrap();
    let options = ExecuteOptions {
        series: false,
        ..ExecuteOptions::new(folder.path().join("result"))
    };
    let completed = execute(&experiment, &Sim, &options, &()).unwrap();
    let result = RunResult {
        performance: Performance::default(),
        ..completed.runs[0].clone()
    };
    expected.assert_eq(&result.to_json());
}

#[test]
fn every_control_queue_and_chance_of_the_linux_stack() {
    check(
        include_str!("determinism/linux.toml"),
        expect_file!["determinism/linux.json"],
    );
}

#[test]
fn the_stack_of_the_papers_days() {
    check(
        include_str!("determinism/classic.toml"),
        expect_file!["determinism/classic.json"],
    );
}
