//! Flows that switch to another congestion control during a run, in the simulator.

use std::path::Path;

use fairwind_experiment::engine::Run;
use fairwind_experiment::engine::sim::Sim;
use fairwind_experiment::{Engine, EngineError};
use fairwind_result::record::{FlowSample, LinkSample, Recorder};
use fairwind_scenario::Experiment;
use fairwind_testing::fuzz::cases;
use proptest::prelude::*;

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

/// How much arrived in each half second, and whether anything was dropped.
#[derive(Default)]
struct HalfSeconds {
    received: Vec<u64>,
    drops: u64,
}

impl Recorder for HalfSeconds {
    fn flow(&mut self, _flow: usize, sample: &FlowSample) {
        if sample.time_ns.is_multiple_of(500_000_000) {
            self.received.push(sample.instruments.bytes_received);
        }
    }
    fn link(&mut self, _link: usize, sample: &LinkSample) {
        self.drops = self.drops.max(sample.drops);
    }
}

const CONTROLS: [&str; 3] = ["fairwind", "cubic", "nocc"];

proptest! {
    #![proptest_config(cases(24))]

    /// From eight packets in flight on. The receiver's window is three bandwidth-delay products at most, of which the queue holds all but
    /// one. So whatever is dropped was a burst; and a hole is what makes a half second poor.
    #[test]
    fn fairwind_cubic_and_nocc_hand_over_without_a_burst_or_a_hole(
        mbps in prop::sample::select(vec![10u64, 20, 100]),
        rtt_ms in prop::sample::select(vec![10u64, 30, 80]),
        first in 0..2usize,
        steps in prop::collection::vec((1..3usize, 700..2000u64), 1..4),
    ) {
        let product = mbps * rtt_ms * 125;
        let queue = 60 + 2 * product / 1500;
        let (mut control, mut at_ms) = (first, 3000);
        let mut switches = Vec::new();
        for (step, after_ms) in &steps {
            control = (control + step) % CONTROLS.len();
            at_ms += after_ms;
            let name = CONTROLS[control];
            switches.push(format!("{{ at = \"{at_ms}ms\", congestion_control = \"{name}\" }}"));
        }
        let text = format!(
            "duration = \"{}ms\"\n[[link]]\nname = \"path\"\nbetween = [\"a\", \"b\"]\n\
             bandwidth = \"{mbps}Mbit/s\"\ndelay = \"{}us\"\nqueue = \"{queue}pkt\"\n\
             [[flow]]\nname = \"one\"\nfrom = \"a\"\nto = \"b\"\ncongestion_control = \"{}\"\n\
             receive_buffer = \"{}B\"\nswitch = [{}]\n",
            at_ms + 2000,
            rtt_ms * 500,
            CONTROLS[first],
            60_000 + 3 * product,
            switches.join(", "),
        );
        let mut seen = HalfSeconds::default();
        run(&text, &mut seen).unwrap();
        prop_assert_eq!(seen.drops, 0, "{}", text);
        // From 2.5 s on: the start is not the subject.
        for (index, pair) in seen.received.windows(2).enumerate().skip(5) {
            let share = (pair[1] - pair[0]) as f64 / (mbps * 62_500) as f64;
            prop_assert!(share > 0.5, "{share} of the link from {} ms on: {text}", 500 * index);
        }
    }
}
