//! Flows that switch to another congestion control during a run, in the simulator.

use std::path::Path;

use fairwind_experiment::engine::Run;
use fairwind_experiment::engine::sim::Sim;
use fairwind_experiment::{Engine, EngineError};
use fairwind_result::record::{FlowSample, LinkSample, Recorder};
use fairwind_scenario::Experiment;

/// One packet in a hundred is lost: reno takes that for congestion; nocc, from 5 s on, does not and is
/// limited only by the receiver's window.
const RENO_THEN_NOCC: &str = r#"
duration = "10s"

[[link]]
name = "path"
between = ["a", "b"]
bandwidth = "20Mbit/s"
delay = "25ms"
queue = "400pkt"
loss = "1%"

[[flow]]
name = "one"
from = "a"
to = "b"
congestion_control = "reno"
receive_buffer = "800kB"
switch = [{ at = "5s", congestion_control = "nocc" }]
"#;

/// The largest window before and after 5 s, and the bytes that had arrived by 5 s and by the end.
#[derive(Default)]
struct Halves {
    windows: [u64; 2],
    received: [u64; 2],
}

impl Recorder for Halves {
    fn flow(&mut self, _flow: usize, sample: &FlowSample) {
        let half = usize::from(sample.time_ns >= 5_000_000_000);
        self.windows[half] = self.windows[half].max(sample.instruments.cur_cwnd);
        self.received[half] = sample.instruments.bytes_received;
    }
    fn link(&mut self, _link: usize, _sample: &LinkSample) {}
}

fn parsed(text: &str) -> Experiment {
    Experiment::parse(text, "x.toml", Path::new(""), &[]).unwrap()
}

fn run(text: &str, recorder: &mut dyn Recorder) -> Result<(), EngineError> {
    let experiment = parsed(text);
    let run = Run {
        experiment: &experiment,
        seed: 1,
        folder: Path::new(""),
    };
    Sim.run(run, recorder, &|_| true).map(|_| ())
}

#[test]
fn reno_gives_way_to_nocc_at_five_seconds() {
    let mut halves = Halves::default();
    run(RENO_THEN_NOCC, &mut halves).unwrap();
    let [reno, nocc] = halves.windows;
    assert!(reno < 1_000_000, "reno's window came to {reno} B");
    assert_eq!(nocc, 100_000 * 1448);
    // The path carries 12 MB of payload in five seconds.
    let [before, by_the_end] = halves.received;
    assert!(before < 4_000_000, "{before} B under reno");
    let after = by_the_end - before;
    assert!(after > 9_000_000, "{after} B under nocc");
}

#[test]
fn the_simulator_refuses_what_only_the_lab_has() {
    let control = RENO_THEN_NOCC.replace("\"nocc\"", "\"vegas\"");
    assert_eq!(
        run(&control, &mut Halves::default())
            .unwrap_err()
            .to_string(),
        "flow `one` runs only in the lab: the simulator has no congestion control `vegas`\n  \
         help: run it on this machine's kernel: fairwind lab run FILE"
    );
    let (links, _) = RENO_THEN_NOCC.split_once("receive_buffer").unwrap();
    let command = "application = { kind = \"command\", client = \"iperf3 -c {to}\" }";
    assert_eq!(
        run(&format!("{links}{command}\n"), &mut Halves::default())
            .unwrap_err()
            .to_string()
            .lines()
            .next(),
        Some("flow `one` runs only in the lab: the simulator has no programs")
    );
}

#[test]
fn check_says_what_may_not_have_been_meant() {
    let text = RENO_THEN_NOCC
        .replace("duration = \"10s\"", "duration = \"4s\"\ntime_scale = 2")
        .replace("loss =", "capture = true\nloss =")
        + "[[flow]]\nname = \"late\"\nfrom = \"a\"\nto = \"b\"\ncongestion_control = \"vegas\"\n\
           start = \"3s\"\ncount = 2\nevery = \"1s\"\n";
    let said = parsed(&text).describe();
    let notes: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("note: "))
        .collect();
    assert_eq!(
        notes,
        [
            "flow `late-2` starts at 4s, but the run ends at 4s",
            "flow `one` takes `nocc` at 5s, but the run ends at 4s",
            "flow `late` runs only in the lab: the simulator has no congestion control `vegas`",
            "link `path` is captured only in the lab",
            "`time_scale` changes nothing: no link follows a trace",
        ]
    );
}
