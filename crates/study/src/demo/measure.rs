//! The results of a run: totals and curves of the transfer and of the others.

use std::collections::BTreeMap;
use std::path::Path;

use fairwind_report::page::Point;
use fairwind_result::series::columns::FLOW;
use fairwind_result::series::reader::scan;
use fairwind_result::{FLOWS_FILE, ResultError, RunResult};

use super::network::{TRANSFER, others};

/// Width of the intervals of throughput, seconds.
const INTERVAL_S: f64 = 0.5;

/// A run in numbers.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The file's connection, if there was one.
    pub transfer: Option<Transfer>,
    /// Payload that the others' receivers had by a time: seconds and bytes.
    pub others: Vec<(f64, f64)>,
    /// Throughput of all others together, Mbit/s.
    pub others_mbps: Vec<Point>,
    /// Whether the run reached its end.
    pub complete: bool,
    /// Reasons to doubt the numbers.
    pub warnings: Vec<String>,
}

/// The connection that carried the file.
#[derive(Clone, Debug, Default)]
pub struct Transfer {
    /// Payload that arrived.
    pub bytes: u64,
    /// When it was to start, seconds from the start of the run.
    pub start_s: f64,
    /// When it opened, seconds from the start of the run.
    pub opened_s: f64,
    /// When its last byte had arrived, seconds from the start of the run.
    pub end_s: f64,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Throughput, Mbit/s.
    pub mbps: Vec<Point>,
    /// Congestion window, kB.
    pub cwnd: Vec<Point>,
    /// Smoothed round-trip time, ms.
    pub rtt: Vec<Point>,
}

impl Transfer {
    /// How long it took, seconds.
    pub fn took_s(&self) -> f64 {
        self.end_s - self.start_s
    }

    /// Mean throughput of payload, Mbit/s.
    pub fn throughput_mbps(&self) -> f64 {
        self.bytes as f64 * 8.0 / 1e6 / self.took_s()
    }
}

impl Measured {
    /// Reads the series of the run in `folder`, whose transfer was to start after `start_s` seconds.
    ///
    /// # Errors
    /// Fails if there are no series or they cannot be read.
    pub fn read(folder: &Path, run: &RunResult, start_s: f64) -> Result<Measured, ResultError> {
        let names = others();
        let mut flows: Vec<&str> = names.iter().map(String::as_str).collect();
        let transfer = flows.len();
        flows.push(TRANSFER);
        let columns = [
            "connection",
            "BytesReceived",
            "SegsRetrans",
            "CurCwnd",
            "SmoothedRTT",
        ];
        let mut series: BTreeMap<(usize, i64), Vec<Row>> = BTreeMap::new();
        scan(&folder.join(FLOWS_FILE), FLOW, &flows, &columns, |row| {
            let value = |at: usize| row.values[at].unwrap_or_default();
            series.entry((row.name, value(0))).or_default().push(Row {
                time_s: row.time_s,
                bytes: value(1) as f64,
                retransmits: value(2) as u64,
                cwnd: value(3) as f64,
                rtt_us: row.values[4].map(|rtt| rtt as f64),
            });
        })?;
        let end_s = run.duration_s;
        let others: Vec<&Vec<Row>> = series
            .iter()
            .filter(|((flow, _), _)| *flow < transfer)
            .map(|(_, rows)| rows)
            .collect();
        let others = sum(&others, end_s);
        // Control connections carry little: the one with the most payload carried the file.
        let main = series
            .iter()
            .filter(|((flow, _), _)| *flow == transfer)
            .map(|(_, rows)| rows)
            .max_by(|a, b| last_bytes(a).total_cmp(&last_bytes(b)));
        let incomplete = run
            .incomplete
            .iter()
            .map(|reason| format!("incomplete: {reason}"));
        Ok(Measured {
            transfer: main.and_then(|rows| connection(rows, start_s)),
            others_mbps: throughput(&others),
            others,
            complete: run.incomplete.is_none(),
            warnings: incomplete.chain(run.warnings.iter().cloned()).collect(),
        })
    }

    /// Mean throughput of the transfer after a time, Mbit/s; none if it was over by then.
    pub fn mbps_after(&self, from_s: f64) -> Option<f64> {
        let transfer = self.transfer.as_ref()?;
        let later = transfer.mbps.iter().filter(|point| point.time_s > from_s);
        let values: Vec<f64> = later.map(|point| point.value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Payload that the others received between two times, bytes.
    pub fn others_bytes(&self, from_s: f64, to_s: f64) -> f64 {
        at(&self.others, to_s) - at(&self.others, from_s)
    }
}

/// A sample of a connection.
struct Row {
    time_s: f64,
    bytes: f64,
    retransmits: u64,
    cwnd: f64,
    rtt_us: Option<f64>,
}

fn last_bytes(rows: &[Row]) -> f64 {
    rows.last().map_or(0.0, |row| row.bytes)
}

fn connection(rows: &[Row], start_s: f64) -> Option<Transfer> {
    let (first, last) = (rows.first()?, rows.last()?);
    let end = rows.iter().find(|row| row.bytes >= last.bytes)?;
    let active = || rows.iter().filter(|row| row.time_s <= end.time_s);
    let delivered: Vec<(f64, f64)> = std::iter::once((start_s, 0.0))
        .chain(active().map(|row| (row.time_s, row.bytes)))
        .collect();
    let point = |time_s, value| Point { time_s, value };
    Some(Transfer {
        bytes: last.bytes as u64,
        start_s,
        opened_s: first.time_s,
        end_s: end.time_s,
        retransmits: last.retransmits,
        mbps: throughput(&delivered),
        cwnd: active()
            .map(|row| point(row.time_s, row.cwnd / 1e3))
            .collect(),
        rtt: active()
            .filter_map(|row| Some(point(row.time_s, row.rtt_us? / 1e3)))
            .collect(),
    })
}

/// Payload that these connections have received together, at every interval until `end_s`.
fn sum(connections: &[&Vec<Row>], end_s: f64) -> Vec<(f64, f64)> {
    let curves: Vec<Vec<(f64, f64)>> = connections
        .iter()
        .map(|rows| rows.iter().map(|row| (row.time_s, row.bytes)).collect())
        .collect();
    let steps = (end_s / INTERVAL_S).floor() as usize;
    (0..=steps)
        .map(|step| {
            let time_s = step as f64 * INTERVAL_S;
            // The sum of no numbers is -0.
            let bytes = curves
                .iter()
                .fold(0.0, |sum, curve| sum + at(curve, time_s));
            (time_s, bytes)
        })
        .collect()
}

/// The value of a curve at a time, linearly interpolated; 0 before its start, constant after its end.
fn at(curve: &[(f64, f64)], time_s: f64) -> f64 {
    let after = curve.partition_point(|&(time, _)| time < time_s);
    match (
        after.checked_sub(1).map(|before| curve[before]),
        curve.get(after),
    ) {
        (Some((t0, v0)), Some(&(t1, v1))) => v0 + (v1 - v0) * (time_s - t0) / (t1 - t0),
        (None, Some(&(time, value))) if time == time_s => value,
        (None, _) => 0.0,
        (Some((_, value)), None) => value,
    }
}

/// Mbit/s in each interval, at its end.
fn throughput(delivered: &[(f64, f64)]) -> Vec<Point> {
    let (Some(&(first, _)), Some(&(last, _))) = (delivered.first(), delivered.last()) else {
        return Vec::new();
    };
    let steps = ((last - first) / INTERVAL_S).floor() as usize;
    (1..=steps)
        .map(|step| {
            let to = first + step as f64 * INTERVAL_S;
            let bytes = at(delivered, to) - at(delivered, to - INTERVAL_S);
            Point {
                time_s: to,
                value: bytes * 8.0 / 1e6 / INTERVAL_S,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_straight_between_its_samples() {
        let curve = [(1.0, 0.0), (2.0, 100.0), (4.0, 100.0)];
        assert_eq!(at(&curve, 0.5), 0.0);
        assert_eq!(at(&curve, 1.0), 0.0);
        assert_eq!(at(&curve, 1.5), 50.0);
        assert_eq!(at(&curve, 3.0), 100.0);
        assert_eq!(at(&curve, 9.0), 100.0);
    }

    #[test]
    fn nobody_has_received_nothing() {
        let curve = sum(&[], INTERVAL_S);
        assert_eq!(
            format!("{curve:?}"),
            format!("[(0.0, 0.0), ({INTERVAL_S:?}, 0.0)]")
        );
    }

    #[test]
    fn throughput_is_payload_over_the_interval() {
        // 125,000 bytes in each half second are 2 Mbit/s.
        let points = throughput(&[(0.0, 0.0), (1.0, 250_000.0)]);
        let values: Vec<(f64, f64)> = points.iter().map(|p| (p.time_s, p.value)).collect();
        assert_eq!(values, [(0.5, 2.0), (1.0, 2.0)]);
    }

    #[test]
    fn a_transfer_ends_with_its_last_byte() {
        let row = |time_s, bytes| Row {
            time_s,
            bytes,
            retransmits: 3,
            cwnd: 10_000.0,
            rtt_us: Some(50_000.0),
        };
        let rows = [row(2.1, 0.0), row(4.0, 1e6), row(6.0, 5e6), row(9.0, 5e6)];
        let transfer = connection(&rows, 2.0).unwrap();
        // 5 MB from the start at 2 s until 6 s.
        assert_eq!(transfer.throughput_mbps(), 10.0);
        assert_eq!(transfer.opened_s, 2.1);
        assert_eq!(transfer.rtt.len(), 3);
        assert_eq!(transfer.retransmits, 3);
    }
}
