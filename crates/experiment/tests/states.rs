//! The private states of congestion controls, which both engines give to a recorder that wants them.

use std::path::Path;

use fairwind_experiment::Engine;
use fairwind_experiment::engine::Run;
use fairwind_experiment::engine::lab::Lab;
use fairwind_experiment::engine::sim::Sim;
use fairwind_result::record::{FlowSample, LinkSample, Recorder};
use fairwind_scenario::Experiment;
use fairwind_testing::permitted;

/// One connection that measures its path, and one whose control has no state.
const PATH: &str = r#"
duration = "2s"

[record]
interval = "20ms"

[[link]]
between = ["a", "b"]
bandwidth = "20Mbit/s"
delay = "10ms"
queue = "50pkt"

[[flow]]
name = "measures"
from = "a"
to = "b"
congestion_control = "imtcp"

[[flow]]
name = "other"
from = "a"
to = "b"
congestion_control = "nocc"
receive_buffer = "4608B"
"#;

#[derive(Default)]
struct States {
    are_wanted: bool,
    latest: Option<(usize, FlowSample)>,
    samples: usize,
    /// Of the first flow.
    states: Vec<Vec<u8>>,
}

impl Recorder for States {
    fn records_states(&self) -> bool {
        self.are_wanted
    }

    fn flow(&mut self, flow: usize, sample: &FlowSample) {
        self.samples += usize::from(flow == 0);
        self.latest = Some((flow, *sample));
    }

    fn state(&mut self, flow: usize, sample: &FlowSample, state: &[u8]) {
        assert_eq!(
            self.latest.map(|(flow, latest)| (flow, latest.time_ns)),
            Some((flow, sample.time_ns)),
            "it follows the sample"
        );
        if flow == 0 {
            self.states.push(state.to_vec());
        }
    }

    fn link(&mut self, _link: usize, _sample: &LinkSample) {}
}

fn states(engine: &dyn Engine, are_wanted: bool) -> States {
    let experiment = Experiment::parse(PATH, "x.toml", Path::new(""), &[]).unwrap();
    let mut states = States {
        are_wanted,
        ..States::default()
    };
    let run = Run {
        experiment: &experiment,
        seed: 1,
        folder: Path::new(""),
    };
    let result = engine.run(run, &mut states, &|_| true).unwrap();
    assert_eq!(result.incomplete, None);
    states
}

/// Asserts that nearly every sample has a state of 104 bytes, in whose sixth word imtcp has a result in the end.
fn check(engine: &dyn Engine) {
    let recorded = states(engine, true);
    let all = recorded.states.len();
    assert!(all > 50 && all + 5 > recorded.samples, "{all} states");
    assert!(recorded.states.iter().all(|state| state.len() == 104));
    let last = recorded.states.last().unwrap();
    let kbps = u32::from_ne_bytes(last[20..24].try_into().unwrap());
    assert!((5_000..25_000).contains(&kbps), "{kbps} kbit/s");
    assert!(states(engine, false).states.is_empty());
}

#[test]
fn the_simulator_gives_states_to_a_recorder_that_wants_them() {
    check(&Sim);
}

#[test]
fn the_lab_gives_states_to_a_recorder_that_wants_them() {
    if permitted(fairwind_lab::privilege::check()) {
        check(&Lab::default());
    }
}
