//! Runs that are ended before their time.

use std::path::Path;
use std::sync::Mutex;

use fairwind_experiment::Engine;
use fairwind_experiment::engine::Run;
use fairwind_experiment::engine::lab::Lab;
use fairwind_result::record::{FlowSample, LinkSample, Recorder};
use fairwind_scenario::Experiment;
use fairwind_testing::permitted;

/// The intervals of recording are longer than what is run of it.
const BULK: &str = r#"
duration = "8s"
record = { interval = "4s" }

[[link]]
name = "path"
between = ["a", "b"]
bandwidth = "20Mbit/s"
delay = "5ms"

[[flow]]
name = "one"
from = "a"
to = "b"
"#;

/// The times of a flow's samples, nanoseconds.
#[derive(Debug, Default)]
struct Times(Vec<u64>);

impl Recorder for Times {
    fn flow(&mut self, _flow: usize, sample: &FlowSample) {
        self.0.push(sample.time_ns);
    }
    fn link(&mut self, _link: usize, _sample: &LinkSample) {}
}

#[test]
fn its_last_moments_are_recorded() {
    if !permitted(fairwind_lab::privilege::check()) {
        return;
    }
    let experiment = Experiment::parse(BULK, "x.toml", Path::new(""), &[]).unwrap();
    let run = Run {
        experiment: &experiment,
        seed: 1,
        folder: Path::new(""),
    };
    let mut times_ns = Times::default();
    let stopped_at = Mutex::new(0.0);
    let goes_on = |share: f64| {
        *stopped_at.lock().unwrap() = share;
        share < 0.25
    };
    let result = Lab::default().run(run, &mut times_ns, &goes_on).unwrap();
    assert!(result.incomplete.is_some());
    let stopped_ns = (stopped_at.into_inner().unwrap() * 8e9) as u64;
    let last_ns = *times_ns.0.last().unwrap();
    assert!(last_ns >= stopped_ns, "{times_ns:?}");
}
