//! The folder that a run of an experiment leaves: `result.json`, `summary.json` over several seeds, and the
//! [`series`].
//!
//! Fields are written in the order of the structs here, and fractions as in [`round`], so that the
//! same experiment and seed give the same bytes. Everything that depends on the machine and the
//! moment is in `performance`, which comes last. `docs/reference/result-files.md` describes the
//! files.

pub mod compare;
pub mod record;
pub mod round;
pub mod series;
pub mod statistic;

mod store;

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

pub use statistic::Statistic;
pub use store::{ResultError, Stored, write_text};

/// Version of the result folder's layout; increased when readers of the older one would be misled.
pub const FORMAT_VERSION: u32 = 1;
/// The run's result, in the folder of a run.
pub const RESULT_FILE: &str = "result.json";
/// The summary over several seeds, in the folder above the runs.
pub const SUMMARY_FILE: &str = "summary.json";
/// The experiment file as it was run, in the requested folder.
pub const EXPERIMENT_FILE: &str = "experiment.toml";
/// Instruments of the flows over time, in the folder of a run.
pub const FLOWS_FILE: &str = "flows.parquet";
/// Queues and counters of the links over time, in the folder of a run.
pub const LINKS_FILE: &str = "links.parquet";
/// The HTML report, in the folder of a run and in the one above several runs.
pub const REPORT_FILE: &str = "report.html";
/// The folder of the SVG plots.
pub const PLOTS_FOLDER: &str = "plots";

/// The folder of the lab's captures, in the folder of a run.
pub const CAPTURES_FOLDER: &str = "captures";
/// The folder of the output of the lab's programs, in the folder of a run.
pub const PROGRAMS_FOLDER: &str = "programs";

/// Name of the sub-folder that holds the run with this seed.
pub fn seed_folder(seed: u64) -> String {
    format!("seed-{seed}")
}

/// Formats seeds in words: `seed 3`, `seeds 1, 5`, `seeds 1 to 10`.
pub fn seeds_text(seeds: &[u64]) -> String {
    let in_a_row = seeds
        .windows(2)
        .all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    match seeds {
        [seed] => format!("seed {seed}"),
        [first, _, .., last] if in_a_row => format!("seeds {first} to {last}"),
        _ => {
            let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
            format!("seeds {}", seeds.join(", "))
        }
    }
}

/// One run with one seed: the content of `result.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// Title of the experiment.
    pub title: String,
    /// The engine: `sim` or `lab`.
    pub engine: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// Versions by component: `fairwind`, and whatever else affects the numbers.
    pub versions: BTreeMap<String, String>,
    /// What rates count, in words: IP bytes, Ethernet frames, ….
    pub accounting: String,
    /// The TCP stack of the hosts: `linux` or `2005` in the simulator; in the lab the kernel and
    /// how it was configured.
    pub stack: String,
    /// Duration of the run, seconds; of an incomplete one, how far it came.
    #[serde(with = "round")]
    pub duration_s: f64,
    /// Time at the beginning that the totals leave out, seconds.
    #[serde(with = "round")]
    pub warmup_s: f64,
    /// Values of the experiment file that were replaced on the command line, `path=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// Why the run ended early; the totals then cover the time until it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// Reasons to doubt the numbers, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// In the order of the experiment file.
    pub flows: Vec<FlowResult>,
    /// In the order of the experiment file.
    pub links: Vec<LinkResult>,
    /// How well the emulator kept time; only in the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<EmulatorResult>,
    /// What the run cost; differs from run to run.
    pub performance: Performance,
}

/// The totals of a flow after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// The flow's name, unique in the result.
    pub name: String,
    /// Name of its congestion control; `None` where there is none.
    pub congestion_control: Option<String>,
    /// Payload delivered in order to the receiving application, bytes.
    pub bytes: u64,
    /// `bytes` over the time the flow was active, 10^6 bit/s.
    #[serde(with = "round")]
    pub goodput_mbps: f64,
    /// Standard deviation (n - 1) of the goodput in whole seconds, 10^6 bit/s; `None` for fewer
    /// than two whole seconds.
    #[serde(with = "round::option")]
    pub goodput_sd_mbps: Option<f64>,
    /// From the flow's start to its last byte, seconds; `None` if it did not end.
    #[serde(with = "round::option")]
    pub completion_s: Option<f64>,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Segments delivered while the receiver echoed a mark; `None` for flows without ECN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn_signals: Option<u64>,
    /// Smallest round-trip time measured, milliseconds.
    #[serde(with = "round::option")]
    pub rtt_min_ms: Option<f64>,
    /// Mean of the round-trip times measured, milliseconds.
    #[serde(with = "round::option")]
    pub rtt_mean_ms: Option<f64>,
    /// What the flow carries: `bulk`, `web`, `constant`, `on-off` or `command`.
    #[serde(default)]
    pub application: String,
    /// When the flow starts, seconds.
    #[serde(with = "round", default)]
    pub start_s: f64,
    /// Data packets sent, retransmissions included.
    #[serde(default)]
    pub packets_sent: u64,
    /// Data packets that a link dropped or lost.
    #[serde(default)]
    pub packets_lost: u64,
    /// Web objects delivered completely; `None` for other applications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Median of the times from the opening of an object's connection to the delivery of its last byte,
    /// seconds; `None` for other applications, and where no object was delivered.
    #[serde(
        with = "round::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub object_p50_s: Option<f64>,
    /// Their 99th percentile, seconds.
    #[serde(
        with = "round::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub object_p99_s: Option<f64>,
    /// The kernel's names of the flow's congestion controls, in the order of their use; only in the
    /// lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_controls: Vec<String>,
}

/// The totals of one direction of a link after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// The link's name, with its direction where both are reported; unique in the result.
    pub name: String,
    /// Share of the time in which it was sending, 0 to 1; `None` for unlimited bandwidth.
    #[serde(with = "round::option")]
    pub utilization: Option<f64>,
    /// Mean length of the queue over time, packets.
    #[serde(with = "round")]
    pub queue_mean_pkts: f64,
    /// Length that the queue did not exceed for 99 % of the time, packets.
    #[serde(with = "round")]
    pub queue_p99_pkts: f64,
    /// Packets dropped by the queue: overflow or its AQM.
    pub drops: u64,
    /// Packets that the queue marked instead of dropping them (ECN).
    #[serde(default)]
    pub marks: u64,
    /// Packets lost at random.
    #[serde(default)]
    pub random_losses: u64,
    /// Packets dropped by the link's policer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub policed: u64,
    /// Packets that left.
    #[serde(default)]
    pub packets: u64,
    /// IP bytes that left.
    #[serde(default)]
    pub bytes: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How well the lab's emulator kept time, and the packets that it lost itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EmulatorResult {
    /// Packets delivered to their destination hosts.
    pub packets: u64,
    /// Median of the lateness of their delivery, microseconds.
    #[serde(with = "round")]
    pub lateness_p50_us: f64,
    /// Its 99th percentile, microseconds.
    #[serde(with = "round")]
    pub lateness_p99_us: f64,
    /// Its maximum, microseconds.
    #[serde(with = "round")]
    pub lateness_max_us: f64,
    /// Packets by lateness, in increasing order; empty buckets are left out.
    pub histogram: Vec<Late>,
    /// Packets that a host's device dropped because the emulator did not read them in time.
    pub device_drops: u64,
    /// Packets dropped because more were in flight than the emulator has memory for.
    pub no_memory: u64,
    /// Packets for an address that no host has or no pipe leads to, not IPv4, or malformed.
    pub unroutable: u64,
    /// Packets refused by their destination host's device.
    pub undelivered: u64,
}

/// A bucket of the histogram: packets with a lateness above that of the previous entry, and at most
/// `us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Late {
    /// Greatest lateness, microseconds.
    #[serde(with = "round")]
    pub us: f64,
    /// Number of packets.
    pub packets: u64,
}

/// The cost of a run, which differs each time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Performance {
    /// Data packets that arrived, retransmissions included.
    pub data_packets: u64,
    /// Events processed by the simulator; in the lab, packets delivered.
    pub events: u64,
    /// Processor time, seconds.
    #[serde(with = "round")]
    pub cpu_s: f64,
    /// Wall-clock time, seconds.
    #[serde(with = "round")]
    pub wall_s: f64,
    /// Largest resident memory of the process, 10^6 bytes.
    #[serde(with = "round")]
    pub peak_rss_mb: f64,
    /// The machine, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}

/// The machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Processors available to the process.
    pub cores: u64,
    /// Operating system and kernel release.
    pub system: String,
}

impl Machine {
    /// This machine; fields that the system does not report are empty.
    pub fn here() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map_or_else(String::new, |(_, model)| model.trim().to_owned());
        Machine {
            cpu,
            cores: std::thread::available_parallelism().map_or(0, |n| n.get() as u64),
            system: format!("{} {}", std::env::consts::OS, fairwind_kernel::release())
                .trim()
                .to_owned(),
        }
    }
}

/// Several runs of the same experiment: the content of `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// Title of the experiment.
    pub title: String,
    /// Which engine ran it.
    pub engine: String,
    /// The seeds, in the order of the runs.
    pub seeds: Vec<u64>,
    /// As in [`RunResult::versions`].
    pub versions: BTreeMap<String, String>,
    /// As in [`RunResult::accounting`].
    pub accounting: String,
    /// As in [`RunResult::stack`].
    pub stack: String,
    /// Duration of a run, seconds.
    #[serde(with = "round")]
    pub duration_s: f64,
    /// Time at the beginning that the totals leave out, seconds.
    #[serde(with = "round")]
    pub warmup_s: f64,
    /// As in [`RunResult::overrides`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// Why not all seeds ran to their end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// The warnings of all runs, each with its seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// In the order of the experiment file.
    pub flows: Vec<FlowSummary>,
    /// In the order of the experiment file.
    pub links: Vec<LinkSummary>,
}

/// A flow over several runs; units as in [`FlowResult`]. A metric is `None` if no run has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of FlowResult")]
pub struct FlowSummary {
    pub name: String,
    pub congestion_control: Option<String>,
    pub bytes: Option<Statistic>,
    pub goodput_mbps: Option<Statistic>,
    pub goodput_sd_mbps: Option<Statistic>,
    pub completion_s: Option<Statistic>,
    pub retransmits: Option<Statistic>,
    pub timeouts: Option<Statistic>,
    pub rtt_min_ms: Option<Statistic>,
    pub rtt_mean_ms: Option<Statistic>,
}

/// A link over several runs; units as in [`LinkResult`]. A metric is `None` if no run has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of LinkResult")]
pub struct LinkSummary {
    pub name: String,
    pub utilization: Option<Statistic>,
    pub queue_mean_pkts: Option<Statistic>,
    pub queue_p99_pkts: Option<Statistic>,
    pub drops: Option<Statistic>,
}

impl RunResult {
    /// Why the run ended early, with its seed.
    pub fn incompleteness(&self) -> Option<String> {
        let reason = self.incomplete.as_deref()?;
        Some(format!("seed {}: {reason}", self.seed))
    }
}

impl Summary {
    /// The summary of runs of one experiment; `None` without runs. Flows and links are those of the
    /// first run, matched by name in the others.
    pub fn of(runs: &[RunResult]) -> Option<Summary> {
        let first = runs.first()?;
        let flow = |of: &FlowResult| {
            let flows = runs.iter().flat_map(|run| &run.flows);
            FlowSummary::of(flows.filter(|flow| flow.name == of.name), of)
        };
        let link = |of: &LinkResult| {
            let links = runs.iter().flat_map(|run| &run.links);
            LinkSummary::of(links.filter(|link| link.name == of.name), of)
        };
        let warnings = runs.iter().flat_map(|run| {
            let warnings = run.warnings.iter();
            warnings.map(|warning| format!("seed {}: {warning}", run.seed))
        });
        Some(Summary {
            format_version: FORMAT_VERSION,
            title: first.title.clone(),
            engine: first.engine.clone(),
            seeds: runs.iter().map(|run| run.seed).collect(),
            versions: first.versions.clone(),
            accounting: first.accounting.clone(),
            stack: first.stack.clone(),
            duration_s: first.duration_s,
            warmup_s: first.warmup_s,
            overrides: first.overrides.clone(),
            incomplete: runs.iter().find_map(RunResult::incompleteness),
            warnings: warnings.collect(),
            flows: first.flows.iter().map(flow).collect(),
            links: first.links.iter().map(link).collect(),
        })
    }
}

impl FlowSummary {
    /// The summary of one flow in several runs, with the name and congestion control of `first`.
    fn of<'a>(
        flows: impl Iterator<Item = &'a FlowResult> + Clone,
        first: &FlowResult,
    ) -> FlowSummary {
        let over = |metric: fn(&FlowResult) -> Option<f64>| {
            Statistic::of(flows.clone().filter_map(metric))
        };
        FlowSummary {
            name: first.name.clone(),
            congestion_control: first.congestion_control.clone(),
            bytes: over(|f| Some(f.bytes as f64)),
            goodput_mbps: over(|f| Some(f.goodput_mbps)),
            goodput_sd_mbps: over(|f| f.goodput_sd_mbps),
            completion_s: over(|f| f.completion_s),
            retransmits: over(|f| Some(f.retransmits as f64)),
            timeouts: over(|f| Some(f.timeouts as f64)),
            rtt_min_ms: over(|f| f.rtt_min_ms),
            rtt_mean_ms: over(|f| f.rtt_mean_ms),
        }
    }
}

impl LinkSummary {
    /// The summary of one link in several runs, with the name of `first`.
    fn of<'a>(
        links: impl Iterator<Item = &'a LinkResult> + Clone,
        first: &LinkResult,
    ) -> LinkSummary {
        let over = |metric: fn(&LinkResult) -> Option<f64>| {
            Statistic::of(links.clone().filter_map(metric))
        };
        LinkSummary {
            name: first.name.clone(),
            utilization: over(|l| l.utilization),
            queue_mean_pkts: over(|l| Some(l.queue_mean_pkts)),
            queue_p99_pkts: over(|l| Some(l.queue_p99_pkts)),
            drops: over(|l| Some(l.drops as f64)),
        }
    }
}

#[cfg(test)]
mod tests;
