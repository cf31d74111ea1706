//! The experiment file: TOML whose quantities have units, checked completely before anything runs.
//!
//! [`read`] turns text into an [`ExperimentFile`] in four steps: it parses the TOML into a tree that records
//! places, applies `--set`, decodes the tree into typed fields, and checks the fields against each other.
//! Each step records the problems it finds and continues where it can.

use std::path::Path;

use fairwind_path::accounting::Accounting;
use fairwind_path::units::Duration;
use schemars::JsonSchema;

use crate::diagnostic::Span;
use crate::topology::{DirectedLink, Topology};

pub mod arguments;
mod check;
pub mod decode;
mod overrides;
pub mod value;

pub mod flow;
pub mod link;
mod record;
pub mod schema;
mod stack;
mod trace;

pub use flow::Flow;
pub use link::Link;
pub use record::Record;
pub use stack::Stack;

use decode::{Fields, Findings, choice};
use trace::Recordings;
use value::{Node, Table};

/// Default of `mss`: an Ethernet packet without the headers of IP and TCP, timestamps included.
const DEFAULT_MSS: u32 = 1448;
/// Choices of `hz`: those of `kernel/Kconfig.hz` for which a jiffy is a whole number of microseconds.
const HZ: [u32; 3] = [100, 250, 1000];
/// Default of `hz`, as in most distributions.
const DEFAULT_HZ: u32 = 250;
/// Default of `tcp_rmem`, the kernel's.
const DEFAULT_RMEM: [u64; 3] = [4_096, 131_072, 6_291_456];
/// Default of `tcp_wmem`, the kernel's.
const DEFAULT_WMEM: [u64; 3] = [4_096, 16_384, 4_194_304];
/// Range of `time_scale`: from a second in a quarter of an hour to a day in a minute and a half.
const TIME_SCALE_RANGE: (f64, f64) = (0.001, 1000.0);

/// An experiment: links, flows over them, and how long and how often it runs.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ExperimentFile {
    /// What the experiment shows; the title of its reports. Default: the file's name.
    #[schemars(with = "Option<String>")]
    pub title: String,
    /// Length of a run, above 0.
    pub duration: Duration,
    /// Time at the beginning that totals leave out, below `duration`; time series include it.
    #[schemars(with = "Option<Duration>", extend("default" = "0s"))]
    pub warmup: Duration,
    /// Seeds of the random choices, one run each: all different, 0 to 2^63 - 1.
    #[schemars(with = "Option<Vec<u64>>", length(min = 1), extend("default" = [1], "uniqueItems" = true))]
    pub seeds: Vec<u64>,
    /// TCP of the hosts.
    #[schemars(with = "Option<Stack>", extend("default" = "linux"))]
    pub stack: Stack,
    /// Which bytes a bandwidth counts.
    #[schemars(with = "Option<Accounting>", extend("default" = "ip"))]
    pub accounting: Accounting,
    /// Payload of a full segment, bytes; headers add 52 bytes.
    #[schemars(
        with = "Option<u32>",
        range(min = flow::MSS_RANGE.0, max = flow::MSS_RANGE.1),
        extend("default" = DEFAULT_MSS)
    )]
    pub mss: u32,
    /// Jiffies per second; timers and cubic's clock count in jiffies. For the simulator's `linux` stack
    /// only: the lab's kernel has its own.
    #[schemars(with = "Option<u32>", extend("enum" = HZ, "default" = DEFAULT_HZ))]
    pub hz: u32,
    /// Minimum, default and maximum receive buffer, bytes, as `net.ipv4.tcp_rmem`; none smaller than
    /// the one before.
    #[schemars(with = "Option<[u64; 3]>", extend("default" = DEFAULT_RMEM))]
    pub tcp_rmem: [u64; 3],
    /// Minimum, default and maximum send buffer, bytes, as `net.ipv4.tcp_wmem`; none smaller than the
    /// one before.
    #[schemars(with = "Option<[u64; 3]>", extend("default" = DEFAULT_WMEM))]
    pub tcp_wmem: [u64; 3],
    /// Factor by which recordings are played back faster than they were recorded.
    #[schemars(
        with = "Option<f64>",
        range(min = TIME_SCALE_RANGE.0, max = TIME_SCALE_RANGE.1),
        extend("default" = 1)
    )]
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
    /// Reads the whole document, which messages call `name`; traces are looked up in `folder`. Returns none
    /// only if too little is left to check further.
    fn read(
        table: &Table,
        name: &str,
        folder: &Path,
        findings: &mut Findings,
    ) -> Option<ExperimentFile> {
        let mut fields = Fields::new("file", table, Span::default(), findings);
        let title = fields.optional("title", decode::text);
        let duration = fields.required("duration", "\"60s\"", decode::positive_duration);
        let warmup = |node: &Node, findings: &mut Findings| warmup(node, duration, findings);
        let warmup = fields.get_or("warmup", Duration::ZERO, warmup);
        let seeds = fields.get_or("seeds", vec![1], seeds);
        let stack = fields.get_or("stack", Stack::Linux, choice(Stack::WORDS));
        let accounting = choice(link::ACCOUNTING);
        let accounting = fields.get_or("accounting", Accounting::Ip, accounting);
        let mss = fields.get_or("mss", DEFAULT_MSS, flow::segment_payload());
        let hz = fields.get_or("hz", DEFAULT_HZ, hz);
        let tcp_rmem = fields.get_or("tcp_rmem", DEFAULT_RMEM, three_sizes);
        let tcp_wmem = fields.get_or("tcp_wmem", DEFAULT_WMEM, three_sizes);
        let time_scale = decode::number(TIME_SCALE_RANGE.0, TIME_SCALE_RANGE.1);
        let time_scale = fields.get_or("time_scale", 1.0, time_scale);
        let recordings = Recordings { folder, time_scale };
        let file = ExperimentFile {
            title: title.unwrap_or_else(|| {
                let stem = Path::new(name).file_stem();
                stem.map_or(name.to_owned(), |stem| stem.to_string_lossy().into_owned())
            }),
            duration,
            warmup,
            seeds,
            stack,
            accounting,
            mss,
            hz,
            tcp_rmem,
            tcp_wmem,
            time_scale,
            record: fields.get_or("record", Record::default(), Record::read),
            // With a link or flow missing, the others cannot be checked against each other.
            link: fields.tables("link", |node, _, findings| {
                Link::read(node, accounting, recordings, findings)
            }),
            flow: fields.tables("flow", |node, position, findings| {
                Flow::read(node, position, stack, mss, findings)
            }),
        };
        fields.finish(file)
    }

    /// Whether a bandwidth, delay or loss follows a recording.
    pub fn follows_traces(&self) -> bool {
        let mut directions = self.directions();
        directions.any(|(way, link)| way.of(link).follows_traces())
    }

    /// Both directions of each link, in the order of [`DirectedLink::index`], each with its link.
    pub fn directions(&self) -> impl Iterator<Item = (DirectedLink, &Link)> {
        self.link.iter().enumerate().flat_map(|(index, link)| {
            [DirectedLink::forward(index), DirectedLink::reverse(index)].map(|way| (way, link))
        })
    }
}

/// Reads an experiment file and finds the routes of its flows. Messages call it `name`; traces are looked up
/// in `folder`; `set` holds the arguments of `--set`, applied in order. None if too much of it is wrong.
pub fn read(
    mut table: Table,
    name: &str,
    folder: &Path,
    set: &[String],
    findings: &mut Findings,
) -> Option<(ExperimentFile, Topology)> {
    for argument in set {
        let source = findings.sources.add("--set", argument);
        overrides::apply(&mut table, argument, source, findings);
    }
    let file = ExperimentFile::read(&table, name, folder, findings)?;
    let topology = check::check(&file.link, &file.flow, findings)?;
    Some((file, topology))
}

/// A warm-up, which is shorter than the run; that is 0 if it is not known.
fn warmup(node: &Node, run: Duration, findings: &mut Findings) -> Option<Duration> {
    let warmup = decode::duration(node, findings)?;
    if run > Duration::ZERO && warmup >= run {
        let message = format!("a warm-up of {warmup} in a run of {run} leaves nothing");
        let help = "write a warm-up shorter than the duration";
        return findings.refuse(node.span, message, help);
    }
    Some(warmup)
}

fn seeds(node: &Node, findings: &mut Findings) -> Option<Vec<u64>> {
    let items = decode::list(node, findings, "[1, 2, 3]")?;
    if items.is_empty() {
        return findings.refuse(node.span, "no seed", "write at least one: [1]");
    }
    let mut seeds: Vec<u64> = Vec::new();
    for item in items {
        let seed = decode::whole(0, i64::MAX as u64)(item, findings)?;
        if seeds.contains(&seed) {
            let help = "the same seed gives the same run: write each once";
            return findings.refuse(item.span, format!("seed {seed} is listed twice"), help);
        }
        seeds.push(seed);
    }
    Some(seeds)
}

/// Three sizes in bytes, each at least as large as the one before.
fn three_sizes(node: &Node, findings: &mut Findings) -> Option<[u64; 3]> {
    let example = "[4096, 131072, 6291456]";
    let items = decode::list(node, findings, example)?;
    let size = decode::whole(1, i32::MAX as u64);
    let sizes: Option<Vec<u64>> = items.iter().map(|item| size(item, findings)).collect();
    match <[u64; 3]>::try_from(sizes?) {
        Ok(sizes) if sizes.is_sorted() => Some(sizes),
        _ => {
            let help = format!("write three sizes in bytes that do not fall: {example}");
            findings.refuse(node.span, "not least, default and greatest size", help)
        }
    }
}

/// Jiffies per second.
fn hz(node: &Node, findings: &mut Findings) -> Option<u32> {
    let hz = decode::whole(1, u32::MAX)(node, findings)?;
    if HZ.contains(&hz) {
        return Some(hz);
    }
    let help = "write 100, 250 or 1000, which kernels are built with";
    findings.refuse(node.span, format!("{hz} jiffies a second"), help)
}

#[cfg(test)]
mod tests;
