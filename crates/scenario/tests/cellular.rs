//! Real recordings as a link's bandwidth.

use std::path::{Path, PathBuf};

use fairwind_path::rate::Rate;
use fairwind_path::units::{Bandwidth, Time};
use fairwind_scenario::Experiment;

/// The recordings' folder; none if it is not there.
fn cellular() -> Option<PathBuf> {
    fairwind_testing::or_skip(fairwind_testing::recording("cellular"))
}

/// The bandwidth of a link that follows this recording.
fn bandwidth(folder: &Path, file: &str) -> Rate {
    let text = format!(
        "duration = \"60s\"\n\
         [[link]]\nbetween = [\"a\", \"b\"]\nbandwidth = {{ trace = \"{file}\", repeat = true }}\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\ncongestion_control = \"reno\"\n"
    );
    let experiment = Experiment::parse(&text, "x.toml", folder, &[]).unwrap();
    experiment.file().link[0].forward.bandwidth.clone()
}

#[test]
fn a_capacity_in_steps_of_100_ms_is_read_from_a_packed_file() {
    let Some(folder) = cellular() else { return };
    let rate = bandwidth(&folder, "Verizon-LTE-short_down_100ms.csv.gz");
    let Rate::Steps(trace) = rate else {
        panic!("steps expected");
    };
    let seconds = trace.period().unwrap().as_secs_f64();
    assert!((139.0..141.0).contains(&seconds), "{seconds}");
    assert!(trace.at(Time::from_secs(60)) > Bandwidth::from_bps(0));
}

#[test]
fn opportunities_of_1500_bytes_are_read_from_a_packed_file() {
    let Some(folder) = cellular() else { return };
    let rate = bandwidth(&folder, "TMobile-LTE-driving_down_opportunities.csv.gz");
    let Rate::Opportunities(trace) = rate else {
        panic!("opportunities expected");
    };
    let seconds = trace.period().as_secs_f64();
    assert!((474.0..476.0).contains(&seconds), "{seconds}");
}

#[test]
fn both_forms_of_a_recording_carry_the_same_bytes() {
    let Some(folder) = cellular() else { return };
    for name in ["Verizon-LTE-short_down", "TMobile-LTE-driving_down"] {
        let steps = bandwidth(&folder, &format!("{name}_100ms.csv.gz"));
        let opportunities = bandwidth(&folder, &format!("{name}_opportunities.csv.gz"));
        let (Rate::Steps(steps), Rate::Opportunities(moments)) = (steps, opportunities) else {
            panic!("steps and opportunities expected");
        };
        let values = steps.values();
        let mean = values.iter().map(|v| v.as_bps() as f64).sum::<f64>() / values.len() as f64;
        let ratio = mean / moments.mean_bps();
        assert!((0.99..1.01).contains(&ratio), "{name}: {ratio}");
    }
}
