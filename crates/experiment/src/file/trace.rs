//! Reads the recordings that bandwidths, delays and losses follow, from the files that `trace` names.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use fairwind_path::trace::{
    Opportunities, Steps, TraceError, Traced, parse_opportunities, parse_steps,
};
use fairwind_path::units::Bandwidth;

use super::decode::{self, Fields, Findings};
use super::value::{Node, Table};
use crate::diagnostic::{Located, Span};

/// A recording and the file it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording<T> {
    /// The file as the experiment file names it.
    pub file: String,
    /// The recorded values.
    pub values: Arc<T>,
}

/// A bandwidth trace.
#[derive(Clone, Debug, PartialEq)]
pub enum RateTrace {
    /// Bandwidths over time.
    Steps(Recording<Steps<Bandwidth>>),
    /// Times at which packets may pass.
    Opportunities(Recording<Opportunities>),
}

impl RateTrace {
    /// The file as the experiment file names it.
    pub fn file(&self) -> &str {
        match self {
            RateTrace::Steps(recording) => &recording.file,
            RateTrace::Opportunities(recording) => &recording.file,
        }
    }
}

/// Where recordings are looked up, and how fast they are played back.
#[derive(Clone, Copy, Debug)]
pub struct Recordings<'a> {
    /// The experiment file's folder.
    pub folder: &'a Path,
    /// Speed of playback, as a multiple of the recorded speed.
    pub time_scale: f64,
}

/// The fields of a `{ trace = … }` table, and the text of the file.
struct Source {
    file: Located<String>,
    /// The file's path as messages show it.
    shown: String,
    text: String,
    repeat: bool,
}

/// Reads a bandwidth trace: packet opportunities if the file has one column, or a second one called
/// `packets…`; otherwise steps, in Mbit/s if the header names no unit.
pub fn rate(
    node: &Node,
    table: &Table,
    recordings: Recordings<'_>,
    findings: &mut Findings,
) -> Option<RateTrace> {
    let source = source(node, table, recordings.folder, findings)?;
    if holds_opportunities(&source.text) {
        let parsed = parse_opportunities(&source.text).map(|o| o.faster(recordings.time_scale));
        return recording(source, parsed, findings).map(RateTrace::Opportunities);
    }
    let (file, shown) = (source.file.clone(), source.shown.clone());
    let steps: Recording<Steps<Bandwidth>> = steps_of(source, "mbps", recordings, findings)?;
    if steps.values.values().iter().all(|rate| rate.as_bps() == 0) {
        findings.add(
            file.span,
            format!("nothing passes at the bandwidth of trace `{shown}`: it is always 0"),
            "name a trace with a bandwidth above 0",
        );
        return None;
    }
    Some(RateTrace::Steps(steps))
}

/// Reads a recorded delay or loss; `unit` is that of values without a header.
pub fn steps<V: Traced>(
    node: &Node,
    table: &Table,
    recordings: Recordings<'_>,
    unit: &str,
    findings: &mut Findings,
) -> Option<Recording<Steps<V>>> {
    let source = source(node, table, recordings.folder, findings)?;
    steps_of(source, unit, recordings, findings)
}

fn steps_of<V: Traced>(
    source: Source,
    unit: &str,
    recordings: Recordings<'_>,
    findings: &mut Findings,
) -> Option<Recording<Steps<V>>> {
    let repeat = source.repeat;
    let parsed = parse_steps::<V>(&source.text, unit);
    let parsed = parsed.map(|steps| if repeat { steps.repeated() } else { steps });
    let parsed = parsed.map(|steps| steps.faster(recordings.time_scale));
    recording(source, parsed, findings)
}

/// Reports an error at the line of the trace file where it is.
fn recording<T>(
    source: Source,
    parsed: Result<T, TraceError>,
    findings: &mut Findings,
) -> Option<Recording<T>> {
    match parsed {
        Ok(values) => Some(Recording {
            file: source.file.value,
            values: Arc::new(values),
        }),
        Err(TraceError { line, reason }) => {
            let (message, help) = reason.split_once("; ").unwrap_or((&reason, ""));
            let start: usize = source
                .text
                .split_inclusive('\n')
                .take(line - 1)
                .map(str::len)
                .sum();
            let length = source.text[start..].lines().next().map_or(0, str::len);
            let span = Span {
                source: findings.sources.add(&source.shown, &source.text),
                start,
                end: start + length,
            };
            findings.add(span, message, help);
            None
        }
    }
}

/// Reads `{ trace = "file.csv", repeat = true }`; the file is looked up in `folder`.
fn source(node: &Node, table: &Table, folder: &Path, findings: &mut Findings) -> Option<Source> {
    let mut fields = Fields::new("trace", table, node.span);
    let file = fields.required(findings, "trace", "\"file.csv\"", decode::located_text);
    let repeat = fields.optional(findings, "repeat", decode::boolean);
    fields.finish(findings);
    let file = file?;
    let path = folder.join(&file.value);
    match read(&path) {
        Ok(text) => Some(Source {
            file,
            shown: path.display().to_string(),
            text,
            repeat: repeat.unwrap_or(false),
        }),
        Err(error) => {
            findings.add(
                file.span,
                format!("trace `{}` cannot be read: {error}", path.display()),
                "name a text file; a path is relative to the experiment file",
            );
            None
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
    first.is_some_and(|row| match row.split_once(',') {
        Some((_, second)) => second.trim().starts_with("packets"),
        None => true,
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
