//! The paths of the plan, and each control on those that take least time.

use std::path::{Path, PathBuf};

use fairwind_cc::native;
use fairwind_experiment::engine::sim::Sim;
use fairwind_experiment::{Engine, engine};
use fairwind_scenario::Experiment;

use super::file::{self, Role};
use super::path::{FEATURES, RandomPath};
use super::suite::Suite;
use super::watch::Watch;
use crate::Plan;

/// Paths of `every_control_survives_random_paths`, and packets that the link of each carries in a run at most.
const QUICK_PATHS: usize = 40;
const QUICK_PACKETS: f64 = 10_000.0;

fn plan() -> Plan {
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    Plan::read(&experiments, "random-paths").unwrap_or_else(|error| panic!("{error}"))
}

fn suite() -> Suite {
    plan().data().unwrap()
}

fn paths(suite: &Suite) -> impl Iterator<Item = RandomPath> {
    (1..=10 * suite.paths_of_block).map(|number| RandomPath::of(suite, number))
}

/// The experiment of a path, whose recordings are written for it.
fn experiment(folder: &Path, suite: &Suite, path: &RandomPath, role: Role<'_>) -> Experiment {
    let folder: PathBuf = folder.join(path.name());
    std::fs::create_dir_all(&folder).unwrap();
    for (name, content) in file::recordings(path) {
        std::fs::write(folder.join(name), content).unwrap();
    }
    let text = file::text(path, suite.buffers, role);
    let experiment = Experiment::parse(&text, &path.name(), &folder, &[]);
    experiment.unwrap_or_else(|diagnostic| panic!("{}: {diagnostic}\n{text}", path.name()))
}

#[test]
fn the_plan_has_every_control() {
    let plan = plan();
    for control in native::all() {
        let name = control.name();
        assert!(
            plan.runs.iter().any(|run| run.get("control") == name),
            "{name}"
        );
    }
}

#[test]
fn every_path_is_a_valid_experiment_and_all_features_are_common() {
    let suite = suite();
    let folder = tempfile::tempdir().unwrap();
    let mut counts = vec![0; FEATURES.len()];
    for path in paths(&suite) {
        for role in [Role::Control("nice"), Role::Oracle] {
            experiment(folder.path(), &suite, &path, role);
        }
        for feature in path.features() {
            counts[FEATURES.iter().position(|other| *other == feature).unwrap()] += 1;
        }
    }
    let rare = FEATURES.iter().zip(&counts).find(|(_, count)| **count < 40);
    assert_eq!(rare, None, "{counts:?}");
}

#[test]
fn a_path_follows_from_its_number_and_the_seed() {
    let suite = suite();
    assert_eq!(RandomPath::of(&suite, 7), RandomPath::of(&suite, 7));
    let other = Suite {
        seed: 2,
        ..suite.clone()
    };
    assert_ne!(
        RandomPath::of(&suite, 7).mbps,
        RandomPath::of(&other, 7).mbps
    );
    assert_ne!(
        RandomPath::of(&suite, 7).mbps,
        RandomPath::of(&suite, 8).mbps
    );
}

/// Arithmetic that C does not define ends the program, as everywhere in builds for tests.
#[test]
fn every_control_survives_random_paths() {
    let suite = suite();
    let folder = tempfile::tempdir().unwrap();
    let packets = |path: &RandomPath| path.mbps * 1e6 * path.length / 12_000.0;
    let quick = paths(&suite).filter(|path| packets(path) <= QUICK_PACKETS);
    for path in quick.take(QUICK_PATHS) {
        for control in native::all() {
            let name = format!("{} on {}", control.name(), path.name());
            let experiment =
                experiment(folder.path(), &suite, &path, Role::Control(control.name()));
            let mut watch = Watch::new(1448.0);
            let run = engine::Run {
                experiment: &experiment,
                seed: path.seed,
                folder: folder.path(),
            };
            let result = Sim.run(run, &mut watch, &|_| true).unwrap();
            let own = &result.flows[0];
            assert!(own.bytes > 0, "{name}: nothing arrived");
            assert_eq!(result.incomplete, None, "{name}");
            // A window of many times what link and queue hold would be an overflow.
            let held = path.mbps * 1e6 * (path.rtt + 2.0) / 12_000.0 + path.queue.packets as f64;
            let most = 100.0 * held + 1000.0;
            assert!(
                control.name() == "nocc" || watch.largest_window <= most,
                "{name}: a window of {} packets",
                watch.largest_window
            );
        }
    }
}
