//! Downloads with an advised start and without, in both engines. The tables of
//! `docs/measurements/advised-start.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use fairwind_experiment::engine::lab::Lab;
use fairwind_experiment::engine::sim::Sim;
use fairwind_result::RunResult;
use fairwind_result::record::{FlowSample, LinkSample, Recorder};
use fairwind_trace::control_state::{ControlState, StateField};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cache::Policy;
use crate::experiments::{self, Configured};
use crate::plan::{Parameter, Run, Values};
use crate::statistics::quantile;
use crate::table::Table;
use crate::{Error, Made, Study, Task, page};

const PARAMETERS: &[Parameter] = &[
    Parameter::new("size_mb", Values::Whole(1, 1000)),
    Parameter::new("mbps", Values::Whole(1, 1000)),
    Parameter::new("rtt_ms", Values::Whole(1, 1000)),
    Parameter::new("promised_mbps", Values::Whole(1, 10_000)),
    Parameter::new("queue_percent", Values::Whole(1, 1000)),
    Parameter::new("others", Values::Whole(0, 100)),
];

/// Its runs are paths, with what is promised of them and who else is there.
pub(crate) const STUDY: Study = Study::new(PARAMETERS, carry_out);

/// `[data]` of the plan.
#[derive(Clone, Debug, Deserialize)]
struct Data {
    pairs: u64,
    /// When a download starts beside others.
    start_s: f64,
    /// How long the others are watched from then on.
    window_s: f64,
}

/// A download and its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    others: u64,
    promised_mbps: u64,
    mbps: u64,
    /// In percent of the bandwidth-delay product.
    queue_percent: u64,
    rtt_ms: u64,
    size_mb: u64,
}

/// How a download starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Plain,
    Advised,
}

impl Cell {
    fn of(run: &Run) -> Cell {
        let number = |name: &str| run.get(name).parse().unwrap_or(1);
        Cell {
            others: number("others"),
            promised_mbps: number("promised_mbps"),
            mbps: number("mbps"),
            queue_percent: number("queue_percent"),
            rtt_ms: number("rtt_ms"),
            size_mb: number("size_mb"),
        }
    }

    fn name(&self) -> String {
        format!(
            "{}mb-{}mbit-{}promised-{}queue-{}others",
            self.size_mb, self.mbps, self.promised_mbps, self.queue_percent, self.others
        )
    }

    /// The experiment, in which run `number` of the same cell starts at another time.
    fn text(&self, data: &Data, start: Start, number: u64) -> String {
        let bdp_pkts = self.mbps * self.rtt_ms * 1000 / 8 / 1500;
        let (start_s, duration_s) = if self.others == 0 {
            (0.0, data.window_s + self.size_mb as f64 / 16.0)
        } else {
            let start_s = data.start_s + 0.37 * number as f64;
            (start_s, start_s + data.window_s)
        };
        let mut text = format!(
            "title = \"Advised start, {}\"\nduration = \"{duration_s:.2}s\"\nwarmup = \"{start_s:.2}s\"\n\
             tcp_rmem = [4096, 131072, 67108864]\ntcp_wmem = [4096, 16384, 67108864]\n\
             record = {{ every_ack = true }}\n\n\
             [[link]]\nname = \"bottleneck\"\nbetween = [\"server\", \"client\"]\n\
             bandwidth = \"{}Mbit/s\"\ndelay = \"{}ms\"\nqueue = \"{}pkt\"\n\
             reverse = {{ bandwidth = \"unlimited\", queue = \"unlimited\" }}\n\n\
             [[flow]]\nname = \"download\"\nfrom = \"server\"\nto = \"client\"\nbytes = \"{}MB\"\n\
             start = \"{start_s:.2}s\"\nreceive_buffer = \"64MB\"\n",
            self.name(),
            self.mbps,
            self.rtt_ms as f64 / 2.0,
            bdp_pkts * self.queue_percent / 100,
            self.size_mb,
        );
        if start == Start::Advised {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "advised_start = {{ rate = \"{}Mbit/s\", rtt = \"{}ms\" }}",
                self.promised_mbps, self.rtt_ms
            );
        }
        if self.others > 0 {
            let _ = write!(
                text,
                "\n[[flow]]\nname = \"others\"\nfrom = \"server\"\nto = \"client\"\n\
                 receive_buffer = \"64MB\"\ncount = {}\nevery = \"0.7s\"\n",
                self.others
            );
        }
        text
    }
}

/// What is measured of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Measures {
    /// How long the download took; none if it did not end.
    download_s: Option<f64>,
    /// Of all others together, in the window.
    others_mbps: f64,
    /// Packets lost in the window: the others', and the download's.
    others_lost: u64,
    own_lost: u64,
    /// Whether it jumped.
    jumped: bool,
    /// Whether it retreated.
    retreated: bool,
}

impl Measures {
    fn of(result: &RunResult, seen: &Seen) -> Measures {
        let (own, others) = result.flows.split_first().expect("a download");
        Measures {
            download_s: own.completion_s,
            // The sum of no numbers is -0.
            others_mbps: others.iter().fold(0.0, |sum, flow| sum + flow.goodput_mbps),
            others_lost: others.iter().map(|flow| flow.packets_lost).sum(),
            own_lost: own.packets_lost,
            // The tracer may miss a phase.
            jumped: seen.phases.iter().any(|phase| *phase >= UNVALIDATED),
            retreated: seen.phases.contains(&SAFE_RETREAT),
        }
    }

    fn lost(&self) -> u64 {
        self.others_lost + self.own_lost
    }
}

/// `enum resume_phase` of `cc/include/fairwind/resume.h`.
const UNVALIDATED: i64 = 2;
const SAFE_RETREAT: i64 = 4;

/// The phases that the download's connection has been in.
struct Seen {
    phase: StateField,
    phases: Vec<i64>,
}

impl Seen {
    fn new() -> Seen {
        let object = fairwind_cc::kernel::object("cubic").expect("cubic is one of ours");
        let state = ControlState::of_object("cubic", object).expect("it is an object");
        let fields = state.fields.into_iter();
        let phase = fields
            .into_iter()
            .find(|field| field.column == "cubic_resume_phase");
        Seen {
            phase: phase.expect("cubic takes advice"),
            phases: Vec::new(),
        }
    }
}

impl Recorder for Seen {
    fn records_states(&self) -> bool {
        true
    }

    fn flow(&mut self, _flow: usize, _sample: &FlowSample) {}

    fn state(&mut self, flow: usize, _sample: &FlowSample, state: &[u8]) {
        if let (0, Ok(state)) = (flow, state.try_into()) {
            let phase = self.phase.value(state);
            if self.phases.last() != Some(&phase) {
                self.phases.push(phase);
            }
        }
    }

    fn link(&mut self, _link: usize, _sample: &LinkSample) {}
}

/// A plain start and an advised one.
type Pair = [Measures; 2];

type Measured = BTreeMap<(Cell, &'static str), Vec<Pair>>;

/// Runs the pairs and makes their tables.
///
/// # Errors
/// If the plan lacks what it needs, or a run fails.
fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let data: Data = task.plan.data()?;
    let most = task
        .options
        .repetitions
        .map_or(data.pairs, |most| most as u64);
    let lab = Lab::default();
    let engines: [(&dyn Configured, bool); 2] = [
        (&Sim, task.engines.has_sim()),
        (&lab, task.engines.has_lab()),
    ];
    let mut measured = Measured::new();
    for cell in task.runs.iter().map(Cell::of) {
        for (engine, is_to_run) in engines {
            for number in 1..=most {
                if let Some(pair) = pair(task, &data, (&cell, number), engine, is_to_run)? {
                    let pairs = measured.entry((cell, engine.name())).or_default();
                    pairs.push(pair);
                }
            }
        }
    }
    let mut made = Made::default();
    for (name, table) in [
        ("downloads", downloads(&measured)),
        ("others", others(&measured)),
    ] {
        if !table.is_empty() {
            made.sections.push(table.section(name));
        }
    }
    made.sections.push(page::made("run"));
    made.runs = Some(runs(&measured));
    Ok(made)
}

/// Runs a pair, or reads what is kept.
fn pair(
    task: &Task<'_>,
    data: &Data,
    (cell, number): (&Cell, u64),
    engine: &dyn Configured,
    is_to_run: bool,
) -> Result<Option<Pair>, Error> {
    let starts = [Start::Plain, Start::Advised];
    let texts = starts.map(|start| cell.text(data, start, number));
    let ground = experiments::ground(engine, Some("cubic"));
    let key = json!({ "experiments": texts, "engine": format!("{engine:?}"), "on": ground });
    let cache = task.cache(engine.name());
    let place = format!("{}/pair-{number}", cell.name());
    if let Some(kept) = cache.kept::<Pair>(&place, &key) {
        return Ok(Some(kept));
    }
    if !is_to_run || task.options.policy == Policy::Nothing {
        return Ok(None);
    }
    let mut pair = Pair::default();
    // They take turns at going first.
    let first = usize::from(number.is_multiple_of(2));
    for which in [first, 1 - first] {
        task.host.go_on()?;
        let name = format!("{}/{place}/{:?}", engine.name(), starts[which]);
        task.tell(&name);
        let mut seen = Seen::new();
        let text = (texts[which].as_str(), name.as_str());
        let result = experiments::watch(task, text, engine, number, &mut seen)?;
        if let Some(why) = &result.incomplete {
            task.tell(&format!("{name}: left out, as it ended early: {why}"));
            return Ok(None);
        }
        pair[which] = Measures::of(&result, &seen);
    }
    cache.keep(&place, &key, &pair)?;
    Ok(Some(pair))
}

/// The median, with the range if there is one.
fn middle(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let values: Vec<f64> = values.collect();
    let [least, middle, most] = [0.0, 0.5, 1.0].map(|share| {
        format!(
            "{:.digits$}",
            quantile(values.clone(), share).unwrap_or(f64::NAN)
        )
    });
    if least == most {
        return middle;
    }
    format!("{middle} ({least} to {most})")
}

/// Downloads that nobody disturbs.
fn downloads(measured: &Measured) -> Table {
    let mut table = Table::new(
        "download | engine | pairs | plain, s | advised, s | plain, Mbit/s | advised, Mbit/s | times as fast",
    );
    for ((cell, engine), pairs) in measured.iter().filter(|((cell, _), _)| cell.others == 0) {
        let seconds = |which: usize| {
            let of = move |pair: &Pair| pair[which].download_s.unwrap_or(f64::NAN);
            pairs.iter().map(of)
        };
        let mbps = |which| seconds(which).map(|seconds| 8.0 * cell.size_mb as f64 / seconds);
        table.row([
            format!("{} MB", cell.size_mb),
            (*engine).to_owned(),
            pairs.len().to_string(),
            middle(seconds(0), 2),
            middle(seconds(1), 2),
            middle(mbps(0), 0),
            middle(mbps(1), 0),
            middle(
                seconds(0)
                    .zip(seconds(1))
                    .map(|(plain, advised)| plain / advised),
                2,
            ),
        ]);
    }
    table
}

/// What others lose when the promise is wrong.
fn others(measured: &Measured) -> Table {
    let mut table = Table::new(
        "promised, Mbit/s | link, Mbit/s | queue, BDP | others | engine | pairs | jumps | retreats | others' goodput beside plain, Mbit/s | \
         beside advised | others keep, % | packets lost, plain | advised | of these others', plain | advised",
    );
    for ((cell, engine), pairs) in measured.iter().filter(|((cell, _), _)| cell.others > 0) {
        let of =
            |which: usize, of: fn(&Measures) -> f64| pairs.iter().map(move |pair| of(&pair[which]));
        let count = |of: fn(&Measures) -> bool| pairs.iter().filter(|pair| of(&pair[1])).count();
        let kept = of(0, |run| run.others_mbps).zip(of(1, |run| run.others_mbps));
        table.row([
            cell.promised_mbps.to_string(),
            cell.mbps.to_string(),
            format!("{:.1}", cell.queue_percent as f64 / 100.0),
            format!("{} Cubic", cell.others),
            (*engine).to_owned(),
            pairs.len().to_string(),
            count(|run| run.jumped).to_string(),
            count(|run| run.retreated).to_string(),
            middle(of(0, |run| run.others_mbps), 1),
            middle(of(1, |run| run.others_mbps), 1),
            middle(kept.map(|(plain, advised)| 100.0 * advised / plain), 1),
            middle(of(0, |run| run.lost() as f64), 0),
            middle(of(1, |run| run.lost() as f64), 0),
            middle(of(0, |run| run.others_lost as f64), 0),
            middle(of(1, |run| run.others_lost as f64), 0),
        ]);
    }
    table
}

/// Every run.
fn runs(measured: &Measured) -> Table {
    let mut table = Table::new(
        "size_mb | link_mbps | promised_mbps | queue_percent | others | engine | pair | start | download_s | \
         others_mbps | others_lost | own_lost | jumped | retreated",
    );
    for ((cell, engine), pairs) in measured {
        for (number, pair) in pairs.iter().enumerate() {
            for (start, run) in ["plain", "advised"].iter().zip(pair) {
                let seconds = run.download_s.map(|seconds| format!("{seconds:.4}"));
                table.row([
                    cell.size_mb.to_string(),
                    cell.mbps.to_string(),
                    cell.promised_mbps.to_string(),
                    cell.queue_percent.to_string(),
                    cell.others.to_string(),
                    (*engine).to_owned(),
                    (number + 1).to_string(),
                    (*start).to_owned(),
                    seconds.unwrap_or_default(),
                    format!("{:.3}", run.others_mbps),
                    run.others_lost.to_string(),
                    run.own_lost.to_string(),
                    run.jumped.to_string(),
                    run.retreated.to_string(),
                ]);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fairwind_scenario::Experiment;

    use super::*;

    const DATA: Data = Data {
        pairs: 1,
        start_s: 12.0,
        window_s: 2.0,
    };

    const CELL: Cell = Cell {
        others: 4,
        promised_mbps: 1000,
        mbps: 100,
        queue_percent: 20,
        rtt_ms: 100,
        size_mb: 64,
    };

    #[test]
    fn both_of_a_pair_differ_in_the_advice_alone() {
        let texts = [Start::Plain, Start::Advised].map(|start| CELL.text(&DATA, start, 1));
        let [plain, advised] = &texts;
        for text in &texts {
            let experiment = Experiment::parse(text, "x.toml", Path::new(""), &[]).unwrap();
            assert_eq!(experiment.flows().len(), 5);
        }
        let advice = "advised_start = { rate = \"1000Mbit/s\", rtt = \"100ms\" }\n";
        assert_eq!(&advised.replace(advice, ""), plain);
        // 100 Mbit/s times 100 ms are 833 packets of 1500 bytes.
        assert!(plain.contains("queue = \"166pkt\""), "{plain}");
        assert!(plain.contains("warmup = \"12.37s\""), "{plain}");
    }

    #[test]
    fn a_row_of_downloads_has_the_ratio_of_the_times() {
        let run = |seconds| Measures {
            download_s: Some(seconds),
            ..Measures::default()
        };
        let cell = Cell { others: 0, ..CELL };
        let pairs = vec![
            [run(2.0), run(1.0)],
            [run(2.0), run(1.6)],
            [run(2.0), run(0.8)],
        ];
        let table = downloads(&Measured::from([((cell, "sim"), pairs)])).markdown();
        let row = "| 64 MB | sim | 3 | 2.00 | 1.00 (0.80 to 1.60) | 256 | 512 (320 to 640) | 2.00 (1.25 to 2.50) |\n";
        assert!(table.ends_with(row), "{table}");
    }

    #[test]
    fn a_row_of_others_has_what_they_keep_and_lose() {
        let run = |others_mbps, others_lost, jumped| Measures {
            others_mbps,
            others_lost,
            own_lost: 10,
            jumped,
            ..Measures::default()
        };
        let pairs = vec![[run(80.0, 5, false), run(76.0, 7, true)]];
        let table = others(&Measured::from([((CELL, "lab"), pairs)])).markdown();
        let row = "| 1000 | 100 | 0.2 | 4 Cubic | lab | 1 | 1 | 0 | 80.0 | 76.0 | 95.0 | 15 | 17 | 5 | 7 |\n";
        assert!(table.ends_with(row), "{table}");
    }
}
