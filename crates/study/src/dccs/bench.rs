//! Runs the transfers of the thesis' size: the inputs of each, the losses of its path, and its result.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fairwind_experiment::engine::sim::scenario;
use fairwind_path::units::Time;
use fairwind_scenario::Experiment;
use fairwind_sim::outcome::{FlowOutcome, Instruments, Observer, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::case::{Case, Setting};
use super::following::{self, Input};
use super::relation::{Relation, Trace, scaled};
use super::results::Transfer;
use super::series::{Series, available};
use super::thesis::Level;
use crate::Error;
use crate::cache::{Cache, digest, program, write_whole};
use crate::demo::story::Way;

/// The file, in bytes: throughput times transfer time of the thesis' tables, within 0.1 %.
const FILE_BYTES: f64 = 16.384e9;
/// The longest duration of a transfer.
const SPAN: Duration = Duration::from_secs(8 * 3600);
/// Round-trip time of the path, milliseconds: 25 ms each way (appendix B.2).
const RTT_MS: f64 = 50.0;
/// Receive buffer of a transfer in the background that is alone: on Linux 6 its window allows 70 Mbit/s, as the
/// thesis' server does.
const BUFFER_OF_BACKGROUND: &str = "709kB";

/// Parameters of `fairwind` for [`Setting::Strict`].
const STRICT: &str = "delay = 0, noise = 0, equal = 0";

/// Where the experiments are and how large the transfers.
pub(crate) struct Bench<'a> {
    pub experiments: PathBuf,
    pub results: PathBuf,
    /// Transfers with the same inputs are the same, and share a record.
    pub cache: Cache,
    /// Size of the file and length of everything, as a share of the thesis'.
    pub scale: f64,
    pub relation: Relation,
    /// Levels of congestion.
    pub levels: &'a [Level; 3],
}

impl Bench<'_> {
    /// Runs one transfer over the series, and counts its timeouts; none if it has no record and is not to be run.
    pub(crate) fn run(
        &self,
        series: &Series,
        case: Case,
    ) -> Result<Option<(Transfer, u64)>, Error> {
        let level = &self.levels[case.level];
        let samples = series.with_less(level.less_mbps)?;
        let start = series.start(case.time)?;
        let inputs = match case.way {
            Way::Advised => {
                let settings = following::settings(level.threshold_mbps, case.history);
                following::inputs(&samples, &settings, start, SPAN)
            }
            _ => Vec::new(),
        };
        let trace = Trace {
            relation: self.relation,
            losses: case.losses,
            rtt_ms: RTT_MS,
            scale: self.scale,
            share: 1.0,
        };
        let trace = trace.csv(&available(&samples, start, SPAN));
        let trace_file = write_losses(&self.results, &trace)?;
        let file = self.experiments.join(file_of(case.others));
        let set = self.settings(case, &inputs, &trace_file);
        let experiment = Experiment::load(&file, &set)?;
        let mut asked = json!({ "experiment": experiment.text(), "set": set, "trace": trace });
        let name = format!("{:016x}", digest(asked.to_string().as_bytes()));
        asked["program"] = program().into();
        let sent = self.cache.kept_or_run(&name, &asked, || {
            let outcome = run_until_sent(&experiment)?;
            let took = outcome.flows[0].completion.map(|took| took.as_secs_f64());
            // Beside others who fill the path, a transfer in the background may wait for ever.
            let waits = (case.way == Way::Background).then(|| scaled(SPAN, self.scale));
            let seconds = took.or(waits).ok_or_else(|| {
                Error::work(format!("{case:?}: not sent within {} s", SPAN.as_secs()))
            })?;
            Ok(Sent::in_seconds(&outcome, seconds))
        })?;
        Ok(sent.map(|sent| {
            let is_told = |input: &Input| scaled(input.after, self.scale) < sent.seconds;
            let transfer = Transfer {
                case,
                mbps: sent.mbps,
                seconds: sent.seconds / self.scale,
                others_mbps: sent.others_mbps,
                inputs: following::text(&inputs[..inputs.partition_point(is_told)]),
            };
            (transfer, sent.timeouts)
        }))
    }

    /// The overrides of the experiment file.
    fn settings(&self, case: Case, inputs: &[Input], trace: &Path) -> Vec<String> {
        let first = following::first_control(case.way, inputs);
        // Strings are the same in JSON and TOML.
        let trace = Value::from(trace.display().to_string());
        let mut settings = vec![
            format!("duration={:.6}s", scaled(SPAN, self.scale)),
            format!("flow.ftp.bytes={:.0}B", FILE_BYTES * self.scale),
            format!("link.server.loss={{ trace = {trace} }}"),
            format!("flow.ftp.congestion_control={first}"),
            format!(
                "flow.ftp.switch={}",
                following::switches(inputs, self.scale)
            ),
        ];
        if case.way == Way::Background {
            // The kernel takes this control from Linux 6 on.
            settings.push("flow.ftp.stack=linux".to_owned());
            if case.setting == Setting::Strict {
                settings.push(format!("flow.ftp.parameters={{ {STRICT} }}"));
            }
            if case.others == 0 {
                settings.push(format!("flow.ftp.receive_buffer={BUFFER_OF_BACKGROUND}"));
            }
        }
        settings
    }

    /// The throughput of so many other connections without the transfer, all together, Mbit/s.
    pub(crate) fn others_alone(&self, others: usize) -> Result<f64, Error> {
        let file = self.experiments.join(file_of(others));
        let set = ["duration=120s", "flow.ftp.start=119s"].map(str::to_owned);
        let outcome = fairwind_sim::run(
            &scenario(&Experiment::load(&file, &set)?, 1, false)?,
            &mut (),
        );
        let others = outcome.flows[1..].iter();
        Ok(others.map(|other| mean_mbps(other, 118.0)).sum())
    }

    /// The throughput at each loss of Table 1 with this delay and this stack, Mbit/s: the mean of all seeds.
    pub(crate) fn table_1(
        experiments: &Path,
        delay_ms: f64,
        stack: &str,
    ) -> Result<[f64; 4], Error> {
        let file = experiments.join("table-1.toml");
        let mut observed = [0.0; 4];
        for (percent, mbps) in (1..).zip(&mut observed) {
            let set = [
                format!("link.path.delay={}ms", delay_ms / 2.0),
                format!("link.path.reverse.delay={}ms", delay_ms / 2.0),
                format!("link.path.loss={percent}%"),
                format!("stack={stack}"),
            ];
            let experiment = Experiment::load(&file, &set)?;
            let seconds = experiment.file().duration.as_secs_f64();
            for &seed in experiment.seeds() {
                let outcome = fairwind_sim::run(&scenario(&experiment, seed, false)?, &mut ());
                *mbps += outcome.flows[0].bytes as f64 * 8.0 / 1e6 / seconds;
            }
            *mbps /= experiment.seeds().len() as f64;
        }
        Ok(observed)
    }
}

/// Writes a recording of losses, under a name of its content, and returns its whole path.
pub(crate) fn write_losses(folder: &Path, losses: &str) -> Result<PathBuf, Error> {
    let file = folder.join(format!("loss-{:016x}.csv", digest(losses.as_bytes())));
    write_whole(&file, losses)?;
    fs::canonicalize(&file).map_err(Error::at(&file))
}

/// The experiment file with this number of other connections.
fn file_of(others: usize) -> String {
    match others {
        0 => "transfer.toml".to_owned(),
        others => format!("background-{others}.toml"),
    }
}

/// Runs until the first flow has sent everything, without waiting for the others.
fn run_until_sent(experiment: &Experiment) -> Result<Outcome, Error> {
    struct UntilSent {
        bytes: u64,
        received: u64,
    }
    impl Observer for UntilSent {
        fn flow(&mut self, flow: usize, _connection: usize, _now: Time, instruments: &Instruments) {
            if flow == 0 {
                self.received = instruments.bytes_received;
            }
        }
        fn progress(&mut self, _now: Time) -> bool {
            self.received < self.bytes
        }
    }
    let bytes = experiment.flows()[0].flow.bytes;
    let mut until = UntilSent {
        bytes: bytes.map_or(u64::MAX, |bytes| bytes.0),
        received: 0,
    };
    let scenario = scenario(experiment, experiment.seeds()[0], true)?;
    Ok(fairwind_sim::run(&scenario, &mut until))
}

/// Mean throughput in the whole seconds until `took`, Mbit/s.
fn mean_mbps(flow: &FlowOutcome, took: f64) -> f64 {
    let seconds = (took.floor() as usize).clamp(1, flow.bytes_per_second.len().max(1));
    let bytes: u64 = flow.bytes_per_second.iter().take(seconds).sum();
    bytes as f64 * 8.0 / 1e6 / seconds as f64
}

/// The result of a run.
#[derive(Serialize, Deserialize)]
struct Sent {
    mbps: f64,
    /// When the file was sent, or else the longest duration of a transfer.
    seconds: f64,
    others_mbps: Vec<f64>,
    retransmits: u64,
    timeouts: u64,
}

impl Sent {
    fn in_seconds(outcome: &Outcome, seconds: f64) -> Sent {
        let (ftp, others) = outcome.flows.split_first().expect("the transfer");
        Sent {
            mbps: ftp.bytes as f64 * 8.0 / 1e6 / seconds,
            seconds,
            others_mbps: others
                .iter()
                .map(|other| mean_mbps(other, seconds))
                .collect(),
            retransmits: ftp.retransmits,
            timeouts: ftp.timeouts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::Losses;
    use super::super::thesis::Thesis;
    use super::*;
    use crate::Plan;
    use crate::cache::Policy;

    /// The morning's row of Tables 3 and 4, at a five-hundredth of the size.
    #[test]
    fn the_advised_transfer_of_a_free_morning_is_as_fast_as_one_without_congestion_control() {
        let results = tempfile::tempdir().unwrap();
        let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let plan = Plan::read(&experiments, "dccs").unwrap();
        let thesis: Thesis = plan.data().unwrap();
        let bench = Bench {
            experiments: plan.folder,
            results: results.path().to_owned(),
            cache: Cache::new(results.path(), Policy::Missing),
            scale: 0.002,
            relation: Relation { constant: 7.0 },
            levels: &thesis.level,
        };
        let series = Series::generated().unwrap();
        let run = |way| {
            let case = Case::at(0, 0, 2, Losses::Rounded);
            bench.run(&series, Case { way, ..case }).unwrap().unwrap().0
        };
        let (standard, nocc) = (run(Way::Standard), run(Way::Nocc));
        let advised = run(Way::Advised);
        assert!(advised.inputs.starts_with('0'), "{}", advised.inputs);
        assert!(!advised.inputs.contains('1'), "{}", advised.inputs);
        assert_eq!(advised.mbps, nocc.mbps);
        assert!(
            nocc.mbps > 1.1 * standard.mbps,
            "{} {}",
            nocc.mbps,
            standard.mbps
        );
        // A recorded result is used again unchanged.
        assert_eq!(run(Way::Nocc), nocc);
    }
}
