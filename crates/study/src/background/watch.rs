//! What a run shows while it goes on, kept in memory.

use fairwind_result::record::{FlowSample, LinkSample, Recorder};

/// Bytes received so far, over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Curve {
    /// Seconds and bytes; neither decreases.
    points: Vec<(f64, f64)>,
    /// Bytes of each connection.
    connections: Vec<u64>,
    total: u64,
}

impl Curve {
    /// A curve through these points, seconds and bytes.
    #[cfg(test)]
    pub(super) fn through(points: &[(f64, f64)]) -> Curve {
        Curve {
            points: points.to_vec(),
            ..Curve::default()
        }
    }

    fn add(&mut self, seconds: f64, connection: usize, bytes: u64) {
        if self.connections.len() <= connection {
            self.connections.resize(connection + 1, 0);
        }
        let before = std::mem::replace(&mut self.connections[connection], bytes);
        self.total = self.total + bytes - before.min(bytes);
        match self.points.last_mut() {
            // The flows of a foreground share a curve; the lab samples them one after another.
            Some(last) if last.0 >= seconds => last.1 = self.total as f64,
            _ => self.points.push((seconds, self.total as f64)),
        }
    }

    /// Bytes at this time, on a straight line between samples.
    pub(super) fn at(&self, seconds: f64) -> f64 {
        let behind = self.points.partition_point(|(time, _)| *time <= seconds);
        let Some(before) = behind.checked_sub(1).map(|at| self.points[at]) else {
            return 0.0;
        };
        let Some(next) = self.points.get(behind) else {
            return before.1;
        };
        before.1 + (next.1 - before.1) * (seconds - before.0) / (next.0 - before.0)
    }

    /// Bytes from one time to another.
    pub(super) fn between(&self, from: f64, to: f64) -> f64 {
        self.at(to) - self.at(from)
    }
}

/// A run as it went.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    /// Flows of the foreground, which come first.
    pub foreground_flows: usize,
    pub foreground: Curve,
    pub background: Vec<Curve>,
    /// Flows of the background, which come next; what comes behind them is not watched.
    pub background_flows: usize,
    /// Queue of the bottleneck: seconds and bytes.
    pub queue: Vec<(f64, f64)>,
}

impl Watch {
    /// Nothing yet, of a run whose foreground and background have so many flows.
    pub(super) fn new(foreground_flows: usize, background_flows: usize) -> Watch {
        Watch {
            foreground_flows,
            background_flows,
            ..Watch::default()
        }
    }
}

impl Recorder for Watch {
    fn flow(&mut self, flow: usize, sample: &FlowSample) {
        let seconds = sample.time_ns as f64 / 1e9;
        let bytes = sample.instruments.bytes_received;
        let connection = sample.connection as usize;
        match flow.checked_sub(self.foreground_flows) {
            None if self.foreground_flows == 1 => self.foreground.add(seconds, connection, bytes),
            None => self.foreground.add(seconds, flow, bytes),
            Some(flow) if flow < self.background_flows => {
                if self.background.len() <= flow {
                    self.background.resize(flow + 1, Curve::default());
                }
                self.background[flow].add(seconds, connection, bytes);
            }
            Some(_) => {}
        }
    }

    fn link(&mut self, link: usize, sample: &LinkSample) {
        // The bottleneck is the first link.
        if link == 0 {
            let seconds = sample.time_ns as f64 / 1e9;
            self.queue.push((seconds, sample.queue_bytes as f64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64, connection: u32, bytes_received: u64) -> FlowSample {
        let mut sample = FlowSample {
            time_ns: seconds * 1_000_000_000,
            connection,
            ..FlowSample::default()
        };
        sample.instruments.bytes_received = bytes_received;
        sample
    }

    #[test]
    fn bytes_between_samples_are_on_a_straight_line() {
        let curve = Curve::through(&[(1.0, 0.0), (3.0, 100.0)]);
        assert_eq!(
            [0.0, 1.0, 2.5, 3.0, 9.0].map(|at| curve.at(at)),
            [0.0, 0.0, 75.0, 100.0, 100.0]
        );
        assert_eq!(curve.between(2.0, 2.5), 25.0);
    }

    #[test]
    fn the_flows_of_a_foreground_are_one_and_those_of_a_background_are_told_apart() {
        let mut watch = Watch::new(2, 2);
        for (flow, bytes) in [(0, 10), (1, 20), (2, 5), (3, 7)] {
            watch.flow(flow, &sample(1, 0, bytes));
        }
        watch.flow(1, &sample(2, 0, 50));
        assert_eq!([1.0, 2.0].map(|at| watch.foreground.at(at)), [30.0, 60.0]);
        assert_eq!(
            watch
                .background
                .iter()
                .map(|flow| flow.at(1.0))
                .collect::<Vec<_>>(),
            [5.0, 7.0]
        );
    }

    #[test]
    fn the_connections_of_a_web_flow_add_up() {
        let mut watch = Watch::new(1, 0);
        for (connection, bytes) in [(0, 10), (1, 20), (7, 30)] {
            watch.flow(0, &sample(1, connection, bytes));
        }
        assert_eq!(watch.foreground.at(1.0), 60.0);
    }

    #[test]
    fn only_the_bottleneck_has_a_queue() {
        let mut watch = Watch::new(0, 0);
        let sample = LinkSample {
            time_ns: 2_000_000_000,
            queue_bytes: 3000,
            ..LinkSample::default()
        };
        watch.link(0, &sample);
        watch.link(1, &sample);
        assert_eq!(watch.queue, [(2.0, 3000.0)]);
    }
}
