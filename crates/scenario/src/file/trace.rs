//! Reads the recordings that bandwidths, delays and losses follow, from the files that `trace` names.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use fairwind_path::rate::Rate;
use fairwind_path::trace::{Steps, TraceError, Traced, parse_opportunities, parse_steps};
use fairwind_path::units::Bandwidth;
use schemars::JsonSchema;

use super::decode::{self, Fields, Findings};
use super::value::{Node, Table};
use crate::diagnostic::{Located, Span};

/// A value that follows a recording.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct TraceTable {
    /// The recording, relative to the experiment file; a name that ends in `.gz` is unpacked. A CSV
    /// file of times and values or, for a bandwidth, mahimahi's packet opportunities.
    #[schemars(with = "String")]
    trace: Located<String>,
    /// Start again at the end; otherwise the last value stays. Packet opportunities always repeat.
    #[schemars(with = "Option<bool>", extend("default" = false))]
    repeat: bool,
}

/// Where recordings are looked up, and how fast they are played back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recordings<'a> {
    /// The experiment file's folder.
    pub folder: &'a Path,
    /// Speed of playback, as a multiple of the recorded speed.
    pub time_scale: f64,
}

/// A recording as text.
struct Source {
    table: TraceTable,
    /// The file's path as messages show it.
    shown: String,
    text: String,
}

/// Reads a bandwidth trace: packet opportunities if the file has one column, or a second one called
/// `packets…`; otherwise steps, in Mbit/s if the header names no unit.
pub(crate) fn rate(
    node: &Node,
    table: &Table,
    recordings: Recordings<'_>,
    findings: &mut Findings,
) -> Option<Rate> {
    let source = source(node, table, recordings.folder, findings)?;
    if holds_opportunities(&source.text) {
        let trace = source.parsed(parse_opportunities(&source.text), findings)?;
        let trace = trace.faster(recordings.time_scale).named(source.name());
        return Some(Rate::Opportunities(Arc::new(trace)));
    }
    let steps: Arc<Steps<Bandwidth>> = source.steps("mbps", recordings, findings)?;
    if steps.values().iter().all(|rate| rate.as_bps() == 0) {
        let shown = &source.shown;
        let message = format!("nothing passes at the bandwidth of trace `{shown}`: it is always 0");
        let help = "name a trace with a bandwidth above 0";
        return findings.refuse(source.table.trace.span, message, help);
    }
    Some(Rate::Steps(steps))
}

/// Reads a recorded delay or loss; `unit` is that of values without a header.
pub(crate) fn steps<V: Traced>(
    node: &Node,
    table: &Table,
    recordings: Recordings<'_>,
    unit: &str,
    findings: &mut Findings,
) -> Option<Arc<Steps<V>>> {
    source(node, table, recordings.folder, findings)?.steps(unit, recordings, findings)
}

impl Source {
    /// The file as the experiment file names it.
    fn name(&self) -> &str {
        &self.table.trace.value
    }

    fn steps<V: Traced>(
        &self,
        unit: &str,
        recordings: Recordings<'_>,
        findings: &mut Findings,
    ) -> Option<Arc<Steps<V>>> {
        let mut steps: Steps<V> = self.parsed(parse_steps(&self.text, unit), findings)?;
        if self.table.repeat {
            steps = steps.repeated();
        }
        let steps = steps.faster(recordings.time_scale).named(self.name());
        Some(Arc::new(steps))
    }

    /// What was parsed; an error is reported at the line of the trace file where it is.
    fn parsed<T>(&self, parsed: Result<T, TraceError>, findings: &mut Findings) -> Option<T> {
        let TraceError { line, reason } = match parsed {
            Ok(trace) => return Some(trace),
            Err(error) => error,
        };
        let (message, help) = reason.split_once("; ").unwrap_or((&reason, ""));
        let lines = self.text.split_inclusive('\n');
        let start: usize = lines.take(line - 1).map(str::len).sum();
        let length = self.text[start..].lines().next().map_or(0, str::len);
        let source = findings.sources.add(&self.shown, &self.text);
        findings.refuse(Span::new(source, start..start + length), message, help)
    }
}

/// Reads `{ trace = "file.csv", repeat = true }`; the file is looked up in `folder`.
fn source(node: &Node, table: &Table, folder: &Path, findings: &mut Findings) -> Option<Source> {
    let mut fields = Fields::new("trace", table, node.span, findings);
    let table = TraceTable {
        trace: fields.required("trace", "\"file.csv\"", decode::located_text),
        repeat: fields.or_default("repeat", decode::boolean),
    };
    let table = fields.finish(table)?;
    let path = folder.join(&table.trace.value);
    let shown = path.display().to_string();
    match read(&path) {
        Ok(text) => Some(Source { table, shown, text }),
        Err(error) => {
            let message = format!("trace `{shown}` cannot be read: {error}");
            let help = "name a text file; a path is relative to the experiment file";
            findings.refuse(table.trace.span, message, help)
        }
    }
}

/// The text of a file, unpacked if its name ends in `.gz`.
fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let mut file = std::fs::File::open(path)?;
    if path.extension().is_some_and(|extension| extension == "gz") {
        flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text)?;
    } else {
        file.read_to_string(&mut text)?;
    }
    Ok(text)
}

fn holds_opportunities(text: &str) -> bool {
    let first = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    // An empty trace is reported as steps.
    first.is_some_and(|row| {
        let second = row.split_once(',').map(|(_, second)| second.trim());
        second.is_none_or(|second| second.starts_with("packets"))
    })
}

#[cfg(test)]
mod tests {
    use super::holds_opportunities;

    #[test]
    fn one_column_or_a_column_of_packets_are_opportunities() {
        assert!(holds_opportunities("0\n1\n1\n"));
        assert!(holds_opportunities("# mahimahi\n\n5\n"));
        assert!(holds_opportunities("time_ms,packets_1500B\n0,3\n"));
        assert!(!holds_opportunities("time_ms,capacity_mbps\n0,3\n"));
        assert!(!holds_opportunities("0,3\n"));
        assert!(!holds_opportunities(""));
    }
}
