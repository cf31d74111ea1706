//! Decodes the file's top-level fields and the lists of links and flows.

use std::path::Path;

use fairwind_path::accounting::Accounting;
use fairwind_path::units::Duration;

use super::decode::{self, Fields, Findings};
use super::flow::read::{MSS_RANGE, flow};
use super::link::read::{ACCOUNTING, link};
use super::stack::Stack;
use super::trace::Recordings;
use super::value::{Node, Table, Value};
use super::{ExperimentFile, Record};
use crate::diagnostic::Span;

/// Range of `time_scale`: from a second in a quarter of an hour to a day in a minute and a half.
const TIME_SCALE_RANGE: (f64, f64) = (0.001, 1000.0);

/// Reads the whole document; returns none only if too little is left to check further.
pub fn experiment(
    table: &Table,
    name: &str,
    folder: &Path,
    findings: &mut Findings,
) -> Option<ExperimentFile> {
    let whole_file = Span::default();
    let mut fields = Fields::new("file", table, whole_file);
    let title = fields.optional(findings, "title", decode::text);
    let duration = fields.required(findings, "duration", "\"60s\"", decode::positive_duration);
    let warmup_node = fields.node("warmup");
    let warmup = warmup_node.and_then(|node| decode::duration(node, findings));
    let seeds = fields.optional(findings, "seeds", seeds);
    let stack = fields
        .optional(findings, "stack", decode::choice(Stack::WORDS))
        .unwrap_or(Stack::Linux);
    let accounting = fields
        .optional(findings, "accounting", decode::choice(ACCOUNTING))
        .unwrap_or(Accounting::Ip);
    let mss = fields
        .optional(findings, "mss", decode::whole(MSS_RANGE.0, MSS_RANGE.1))
        .map_or(1448, |mss| mss as u32);
    let hz = fields.optional(findings, "hz", hz);
    let tcp_rmem = fields.optional(findings, "tcp_rmem", three_sizes);
    let tcp_wmem = fields.optional(findings, "tcp_wmem", three_sizes);
    let time_scale = decode::number(TIME_SCALE_RANGE.0, TIME_SCALE_RANGE.1);
    let time_scale = fields.optional(findings, "time_scale", time_scale);
    let record = fields.optional(findings, "record", record);
    let links = tables(&mut fields, "link", findings);
    let flows = tables(&mut fields, "flow", findings);
    fields.finish(findings);

    if let (Some(node), Some(warmup), Some(duration)) = (warmup_node, warmup, duration)
        && warmup >= duration
    {
        findings.add(
            node.span,
            format!("a warm-up of {warmup} in a run of {duration} leaves nothing"),
            "write a warm-up shorter than the duration",
        );
    }
    let time_scale = time_scale.unwrap_or(1.0);
    let recordings = Recordings { folder, time_scale };
    let read_link = |node: &Node| link(node, accounting, recordings, findings);
    let link: Vec<_> = links.iter().map(read_link).collect();
    let flow: Vec<_> = flows
        .iter()
        .enumerate()
        .map(|(index, node)| flow(node, index + 1, stack, mss, findings))
        .collect();
    Some(ExperimentFile {
        title: title.unwrap_or_else(|| {
            let stem = Path::new(name).file_stem();
            stem.map_or(name.to_owned(), |stem| stem.to_string_lossy().into_owned())
        }),
        duration: duration?,
        warmup: warmup.unwrap_or(Duration::ZERO),
        seeds: seeds.unwrap_or_else(|| vec![1]),
        stack,
        accounting,
        mss,
        hz: hz.unwrap_or(250),
        tcp_rmem: tcp_rmem.unwrap_or([4_096, 131_072, 6_291_456]),
        tcp_wmem: tcp_wmem.unwrap_or([4_096, 16_384, 4_194_304]),
        time_scale,
        record: record.unwrap_or_default(),
        // With a link or flow missing, the others cannot be checked against each other.
        link: link.into_iter().collect::<Option<_>>()?,
        flow: flow.into_iter().collect::<Option<_>>()?,
    })
}

/// The elements of `[[link]]` or `[[flow]]`, at least one.
fn tables<'a>(fields: &mut Fields<'a>, name: &'static str, findings: &mut Findings) -> &'a [Node] {
    let add = || format!("add a [[{name}]] table");
    match fields.node(name) {
        Some(Node {
            value: Value::Array(items),
            span,
            ..
        }) => {
            if items.is_empty() {
                findings.add(*span, format!("no {name}"), add());
            }
            items
        }
        Some(node) => {
            findings.add(
                node.span,
                format!("`{name}` is {}, not a list of tables", node.noun()),
                format!("write [[{name}]] with two brackets"),
            );
            &[]
        }
        None => {
            findings.add(fields.span(), format!("no {name}"), add());
            &[]
        }
    }
}

fn seeds(node: &Node, findings: &mut Findings) -> Option<Vec<u64>> {
    let items = decode::list(node, findings, "[1, 2, 3]")?;
    if items.is_empty() {
        findings.add(node.span, "no seed", "write at least one: [1]");
        return None;
    }
    let mut seeds: Vec<u64> = Vec::new();
    for item in items {
        let seed = decode::whole(0, i64::MAX as u64)(item, findings)?;
        if seeds.contains(&seed) {
            findings.add(
                item.span,
                format!("seed {seed} is listed twice"),
                "the same seed gives the same run: write each once",
            );
            return None;
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
    match sizes?.as_slice() {
        [least, default, greatest] if least <= default && default <= greatest => {
            Some([*least, *default, *greatest])
        }
        _ => {
            findings.add(
                node.span,
                "not least, default and greatest size",
                format!("write three sizes in bytes that do not fall: {example}"),
            );
            None
        }
    }
}

/// Jiffies per second: the choices of `kernel/Kconfig.hz` for which a jiffy is a whole number of
/// microseconds.
fn hz(node: &Node, findings: &mut Findings) -> Option<u32> {
    let hz = decode::whole(1, u64::from(u32::MAX))(node, findings)? as u32;
    if [100, 250, 1000].contains(&hz) {
        return Some(hz);
    }
    findings.add(
        node.span,
        format!("{hz} jiffies a second"),
        "write 100, 250 or 1000, which kernels are built with",
    );
    None
}

fn record(node: &Node, findings: &mut Findings) -> Option<Record> {
    let table = decode::table(node, findings, "{ interval = \"100ms\" }")?;
    let mut fields = Fields::new("record", table, node.span);
    let default = Record::default();
    let record = Record {
        series: fields
            .optional(findings, "series", decode::boolean)
            .unwrap_or(default.series),
        interval: fields
            .optional(findings, "interval", decode::positive_duration)
            .unwrap_or(default.interval),
        every_ack: fields
            .optional(findings, "every_ack", decode::boolean)
            .unwrap_or(default.every_ack),
    };
    fields.finish(findings);
    Some(record)
}
