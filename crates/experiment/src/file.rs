//! The experiment file: TOML whose quantities have units, checked completely before anything runs.
//!
//! [`read`] turns text into an [`ExperimentFile`] in four steps: it parses the TOML into a tree that records
//! places, applies `--set`, decodes the tree into typed fields, and checks the fields against each other.
//! Each step records the problems it finds and continues where it can.

use std::path::Path;

use fairwind_path::accounting::Accounting;
use fairwind_path::units::Duration;
use schemars::JsonSchema;

use crate::diagnostic::{Diagnostic, Sources};
use crate::topology::Topology;

pub mod arguments;
mod check;
pub mod decode;
mod overrides;
mod top;
pub mod value;

pub mod flow;
pub mod link;
pub mod schema;
pub mod stack;
pub mod trace;

pub use flow::Flow;
pub use link::Link;
pub use stack::Stack;

use schema::{AccountingWord, DurationText};

/// An experiment: links, flows over them, and how long and how often it runs.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ExperimentFile {
    /// What the experiment shows; the title of its reports. Default: the file's name.
    #[schemars(with = "Option<String>")]
    pub title: String,
    /// Length of a run, above 0.
    #[schemars(with = "DurationText")]
    pub duration: Duration,
    /// Time at the beginning that totals leave out, below `duration`; time series include it.
    #[schemars(with = "Option<DurationText>", extend("default" = "0s"))]
    pub warmup: Duration,
    /// Seeds of the random choices, one run each: all different, 0 to 2^63 - 1.
    #[schemars(with = "Option<Vec<u64>>", length(min = 1), extend("default" = [1], "uniqueItems" = true))]
    pub seeds: Vec<u64>,
    /// TCP of the hosts.
    #[schemars(with = "Option<Stack>", extend("default" = "linux"))]
    pub stack: Stack,
    /// Which bytes a bandwidth counts.
    #[schemars(with = "Option<AccountingWord>", extend("default" = "ip"))]
    pub accounting: Accounting,
    /// Payload of a full segment, bytes; headers add 52 bytes.
    #[schemars(with = "Option<u32>", range(min = 48, max = 65_483), extend("default" = 1448))]
    pub mss: u32,
    /// Jiffies per second; timers and cubic's clock count in jiffies. For the simulator's `linux` stack
    /// only: the lab's kernel has its own.
    #[schemars(with = "Option<u32>", extend("enum" = [100, 250, 1000], "default" = 250))]
    pub hz: u32,
    /// Minimum, default and maximum receive buffer, bytes, as `net.ipv4.tcp_rmem`; none smaller than
    /// the one before.
    #[schemars(with = "Option<[u64; 3]>", extend("default" = [4096, 131_072, 6_291_456]))]
    pub tcp_rmem: [u64; 3],
    /// Minimum, default and maximum send buffer, bytes, as `net.ipv4.tcp_wmem`; none smaller than the
    /// one before.
    #[schemars(with = "Option<[u64; 3]>", extend("default" = [4096, 16_384, 4_194_304]))]
    pub tcp_wmem: [u64; 3],
    /// Factor by which recordings are played back faster than they were recorded.
    #[schemars(with = "Option<f64>", range(min = 0.001, max = 1000.0), extend("default" = 1))]
    pub time_scale: f64,
    /// Which time series are written.
    #[schemars(with = "Option<Record>")]
    pub record: Record,
    /// Links. Hosts and routers exist because a link names them.
    #[schemars(length(min = 1))]
    pub link: Vec<Link>,
    /// Flows.
    #[schemars(length(min = 1))]
    pub flow: Vec<Flow>,
}

impl ExperimentFile {
    /// Whether a bandwidth, delay or loss follows a recording.
    pub fn follows_traces(&self) -> bool {
        self.link
            .iter()
            .flat_map(|link| [&link.forward, &link.reverse])
            .any(link::Direction::follows_traces)
    }
}

/// Which time series are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Record {
    /// Whether time series are written.
    #[schemars(with = "Option<bool>", extend("default" = true))]
    pub series: bool,
    /// Time between two samples of each flow and link, above 0.
    #[schemars(with = "Option<DurationText>", extend("default" = "100ms"))]
    pub interval: Duration,
    /// Sample each flow after every acknowledgement that it processes, instead of at the interval;
    /// links are still sampled at the interval.
    #[schemars(with = "Option<bool>", extend("default" = false))]
    pub every_ack: bool,
}

impl Default for Record {
    fn default() -> Record {
        Record {
            series: true,
            interval: Duration::from_millis(100),
            every_ack: false,
        }
    }
}

/// Reads an experiment file and finds the routes of its flows. Messages call it `name`; traces are looked up
/// in `folder`; `set` holds the arguments of `--set`, applied in order.
pub fn read(
    text: &str,
    name: &str,
    folder: &Path,
    set: &[String],
) -> Result<(ExperimentFile, Topology), Diagnostic> {
    let mut findings = decode::Findings::new(Sources::new(name, text));
    let read = read_noting(text, name, folder, set, &mut findings);
    match read {
        Some(read) if findings.list.is_empty() => Ok(read),
        _ => Err(Diagnostic::new(&findings.sources, &findings.list)),
    }
}

fn read_noting(
    text: &str,
    name: &str,
    folder: &Path,
    set: &[String],
    findings: &mut decode::Findings,
) -> Option<(ExperimentFile, Topology)> {
    let mut table = match value::parse_document(text) {
        Ok(table) => table,
        Err(finding) => {
            findings.list.push(finding);
            return None;
        }
    };
    for argument in set {
        let source = findings.sources.add("--set", argument);
        overrides::apply(&mut table, argument, source, findings);
    }
    let file = top::experiment(&table, name, folder, findings)?;
    let topology = check::check(&file, findings)?;
    Some((file, topology))
}

#[cfg(test)]
mod tests;
