//! The curves of the flows.

use std::collections::HashMap;
use std::path::Path;

use super::{FlowCurves, columns};
use crate::ResultError;
use crate::series::columns::FLOW;
use crate::series::decimate::{Decimator, Point};
use crate::series::reader::scan;
use crate::{FlowResult, RunResult};

/// Reads the curves of these flows of `run` from `flows.parquet`.
pub(super) fn read(
    path: &Path,
    flows: &[FlowResult],
    run: &RunResult,
    interval_s: f64,
) -> Result<Vec<FlowCurves>, ResultError> {
    let names: Vec<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
    let thin = Decimator::new(run.duration_s, columns(flows.len()));
    let mut gathering: Vec<FlowGathering> = flows
        .iter()
        .map(|flow| FlowGathering::new(flow, run.warmup_s, interval_s, &thin))
        .collect();
    let wanted = [
        "connection",
        "BytesReceived",
        "CurCwnd",
        "CurSsthresh",
        "SmoothedRTT",
        "CurRTO",
    ];
    scan(path, FLOW, &names, &wanted, |row| {
        gathering[row.name].push(row.time_s, row.values);
    })?;
    Ok(gathering
        .into_iter()
        .zip(flows)
        .map(|(gathering, flow)| gathering.finish(flow, run.duration_s))
        .collect())
}

/// The curves of a flow while its rows are read.
struct FlowGathering {
    /// When the last byte was delivered; later samples of the idle sender are not drawn.
    end_s: f64,
    /// Payload delivered by each connection, bytes.
    delivered_by: HashMap<i64, i64>,
    delivered: Delivered,
    /// Congestion window, slow-start threshold, round-trip time, retransmission timeout.
    sampled: [Decimator; 4],
}

impl FlowGathering {
    fn new(flow: &FlowResult, warmup_s: f64, interval_s: f64, thin: &Decimator) -> FlowGathering {
        FlowGathering {
            end_s: flow
                .completion_s
                .map_or(f64::INFINITY, |completion_s| flow.start_s + completion_s),
            delivered_by: HashMap::new(),
            delivered: Delivered::new(flow.start_s, warmup_s, interval_s, thin),
            sampled: std::array::from_fn(|_| thin.clone()),
        }
    }

    fn push(&mut self, time_s: f64, values: &[Option<i64>]) {
        let &[connection, received, ref sampled @ ..] = values else {
            return;
        };
        let connection = connection.unwrap_or_default();
        let received = received.unwrap_or_default();
        let before = self.delivered_by.insert(connection, received).unwrap_or(0);
        // A counter that decreased belongs to a new connection in the place of an old one.
        let more = if received >= before {
            received - before
        } else {
            received
        };
        if time_s > self.end_s && more == 0 {
            return;
        }
        self.delivered.push(time_s.min(self.end_s), more as f64);
        if time_s > self.end_s || connection != 0 {
            return;
        }
        for (curve, value) in self.sampled.iter_mut().zip(sampled) {
            if let Some(value) = value {
                // Bytes to kB, microseconds to milliseconds.
                curve.push(time_s, *value as f64 / 1e3);
            }
        }
    }

    fn finish(self, flow: &FlowResult, duration_s: f64) -> FlowCurves {
        let connections = self.delivered_by.len();
        let mut curves = FlowCurves {
            name: flow.name.clone(),
            connections,
            covered: self.delivered.covers(flow.bytes as f64),
            ..FlowCurves::default()
        };
        if curves.covered {
            (curves.throughput, curves.average, curves.delivered) =
                self.delivered.finish(duration_s);
        }
        // One line cannot show the windows of several connections, and datagrams have none.
        if connections <= 1 && flow.congestion_control.is_some() {
            [curves.cwnd, curves.ssthresh, curves.rtt, curves.rto] =
                self.sampled.map(Decimator::finish);
        }
        curves
    }
}

/// Bytes delivered over time, divided into intervals. Delivery between two samples is assumed to be
/// uniform.
struct Delivered {
    start_s: f64,
    warmup_s: f64,
    /// Bytes delivered up to the end of the warm-up.
    in_warmup: f64,
    interval_s: f64,
    /// Number of the interval being filled.
    interval: u64,
    /// Bytes delivered before that interval.
    before: f64,
    /// Time of the latest sample, and bytes delivered up to it.
    time_s: f64,
    total: f64,
    throughput: Decimator,
    average: Decimator,
    delivered: Decimator,
}

impl Delivered {
    fn new(start_s: f64, warmup_s: f64, interval_s: f64, thin: &Decimator) -> Delivered {
        let mut delivered = thin.clone();
        delivered.push(start_s, 0.0);
        Delivered {
            start_s,
            warmup_s,
            in_warmup: 0.0,
            interval_s,
            interval: (start_s / interval_s) as u64,
            before: 0.0,
            time_s: start_s,
            total: 0.0,
            throughput: thin.clone(),
            average: thin.clone(),
            delivered,
        }
    }

    fn push(&mut self, time_s: f64, bytes: f64) {
        let time_s = time_s.max(self.time_s);
        let passed = time_s - self.time_s;
        let share_until = |end: f64, since: f64| {
            if passed > 0.0 {
                ((end - since) / passed).clamp(0.0, 1.0)
            } else {
                1.0
            }
        };
        if self.time_s < self.warmup_s {
            self.in_warmup = self.total + share_until(self.warmup_s, self.time_s) * bytes;
        }
        loop {
            let end = (self.interval + 1) as f64 * self.interval_s;
            // A sample on a boundary belongs to the interval that ends there.
            if end > time_s + 1e-9 {
                break;
            }
            let share = share_until(end, self.time_s);
            self.close_interval(end, self.total + share * bytes);
        }
        self.time_s = time_s;
        self.total += bytes;
        self.delivered.push(time_s, self.total / 1e6);
    }

    fn close_interval(&mut self, end: f64, total: f64) {
        let megabits = 8.0 / 1e6;
        self.throughput
            .push(end, (total - self.before) * megabits / self.interval_s);
        if end > self.start_s {
            self.average
                .push(end, total * megabits / (end - self.start_s));
        }
        self.before = total;
        self.interval += 1;
    }

    /// Whether this matches the flow's total after the warm-up within a tenth.
    fn covers(&self, bytes: f64) -> bool {
        (self.total - self.in_warmup - bytes).abs() <= 0.1 * bytes
    }

    fn finish(mut self, duration_s: f64) -> (Vec<Point>, Vec<Point>, Vec<Point>) {
        // The remaining bytes of a flow that ended belong to its last, unfinished interval.
        let end = (self.interval + 1) as f64 * self.interval_s;
        if self.total > self.before && end <= duration_s {
            let megabits = (self.total - self.before) * 8.0 / 1e6;
            self.throughput.push(end, megabits / self.interval_s);
        }
        (
            self.throughput.finish(),
            self.average.finish(),
            self.delivered.finish(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(points: &[Point]) -> Vec<(f64, f64)> {
        points.iter().map(|p| (p.time_s, p.value)).collect()
    }

    #[test]
    fn throughput_counts_the_bytes_of_each_interval() {
        let mut delivered = Delivered::new(0.5, 0.0, 1.0, &Decimator::new(4.0, 100));
        // 125,000 bytes per second are 1 Mbit/s.
        delivered.push(1.0, 62_500.0);
        delivered.push(3.0, 500_000.0);
        delivered.push(4.0, 0.0);
        let (throughput, average, total) = delivered.finish(4.0);
        assert_eq!(
            values(&throughput),
            [(1.0, 0.5), (2.0, 2.0), (3.0, 2.0), (4.0, 0.0)]
        );
        assert_eq!(
            average[0],
            Point {
                time_s: 1.0,
                value: 1.0
            }
        );
        assert_eq!(
            average[2],
            Point {
                time_s: 3.0,
                value: 1.8
            }
        );
        assert_eq!(
            values(&total),
            [(0.5, 0.0), (1.0, 0.0625), (3.0, 0.5625), (4.0, 0.5625)]
        );
    }

    #[test]
    fn the_last_interval_of_a_flow_that_ended_is_shown() {
        let mut delivered = Delivered::new(0.0, 0.0, 1.0, &Decimator::new(10.0, 100));
        delivered.push(1.5, 187_500.0);
        let (throughput, ..) = delivered.finish(10.0);
        assert_eq!(values(&throughput), [(1.0, 1.0), (2.0, 0.5)]);
    }

    #[test]
    fn windows_of_several_connections_are_not_mixed() {
        let flow = FlowResult {
            congestion_control: Some("reno".into()),
            bytes: 375_000,
            ..FlowResult::default()
        };
        let mut gathering = FlowGathering::new(&flow, 0.0, 1.0, &Decimator::new(4.0, 100));
        gathering.push(
            1.0,
            &[Some(0), Some(125_000), Some(3_000), None, None, Some(1)],
        );
        gathering.push(
            2.0,
            &[Some(1), Some(250_000), Some(6_000), None, None, Some(1)],
        );
        let curves = gathering.finish(&flow, 4.0);
        assert_eq!(curves.connections, 2);
        assert_eq!(values(&curves.throughput), [(1.0, 1.0), (2.0, 2.0)]);
        assert_eq!(curves.cwnd, []);
    }

    #[test]
    fn a_new_connection_in_the_place_of_an_old_one_counts_from_nothing() {
        let flow = FlowResult {
            bytes: 375_000,
            ..FlowResult::default()
        };
        let mut gathering = FlowGathering::new(&flow, 0.0, 1.0, &Decimator::new(4.0, 100));
        let row = |bytes| [Some(0), Some(bytes), None, None, None, None];
        gathering.push(1.0, &row(250_000));
        gathering.push(2.0, &row(125_000));
        let curves = gathering.finish(&flow, 4.0);
        assert_eq!(values(&curves.throughput), [(1.0, 2.0), (2.0, 1.0)]);
    }

    #[test]
    fn curves_of_a_flow_end_with_it() {
        let flow = FlowResult {
            congestion_control: Some("reno".into()),
            completion_s: Some(1.5),
            bytes: 187_500,
            ..FlowResult::default()
        };
        let mut gathering = FlowGathering::new(&flow, 0.0, 1.0, &Decimator::new(4.0, 100));
        let row = |bytes| [Some(0), Some(bytes), Some(3_000), None, None, None];
        gathering.push(1.0, &row(125_000));
        gathering.push(2.0, &row(187_500));
        gathering.push(3.0, &row(187_500));
        let curves = gathering.finish(&flow, 4.0);
        assert_eq!(values(&curves.throughput), [(1.0, 1.0), (2.0, 0.5)]);
        assert_eq!(values(&curves.cwnd), [(1.0, 3.0)]);
        assert_eq!(values(&curves.delivered).last(), Some(&(1.5, 0.1875)));
    }

    #[test]
    fn samples_that_miss_what_was_delivered_give_no_throughput() {
        let flow = FlowResult {
            bytes: 1_000_000,
            ..FlowResult::default()
        };
        let mut gathering = FlowGathering::new(&flow, 0.0, 1.0, &Decimator::new(4.0, 100));
        gathering.push(4.0, &[Some(0), Some(500_000), None, None, None, None]);
        let curves = gathering.finish(&flow, 4.0);
        assert!(!curves.covered);
        assert_eq!(curves.throughput, []);
    }

    #[test]
    fn bytes_of_the_warm_up_do_not_count_to_the_total() {
        let mut delivered = Delivered::new(0.0, 1.0, 1.0, &Decimator::new(4.0, 100));
        delivered.push(2.0, 200_000.0);
        delivered.push(4.0, 200_000.0);
        assert!(delivered.covers(300_000.0));
        assert!(!delivered.covers(400_000.0));
    }
}
