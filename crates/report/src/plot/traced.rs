//! The plots of traced connections: the figures of a run, for connections of the real kernel.

use fairwind_result::series::decimate::Point;

use super::figure::{Across, Figure, Line, Panel};
use super::style::Stroke;

/// The curves of a traced connection.
#[derive(Clone, Debug, Default)]
pub struct TracedCurves {
    /// Name in the legend.
    pub name: String,
    /// Mbit/s in each interval.
    pub throughput: Vec<Point>,
    /// Mbit/s since the connection's beginning.
    pub average: Vec<Point>,
    /// kB.
    pub cwnd: Vec<Point>,
    /// kB.
    pub ssthresh: Vec<Point>,
    /// kB.
    pub in_flight: Vec<Point>,
    /// Milliseconds.
    pub srtt: Vec<Point>,
    /// Milliseconds.
    pub rto: Vec<Point>,
}

/// A family of curves: which, how they are drawn, and their name in the legend of a single connection.
type Family = (fn(&TracedCurves) -> &[Point], Stroke, &'static str);

/// The plots: file name and content. Times go from 0 to `duration_s`; throughput is that of intervals of
/// `interval_s`.
pub fn svgs(
    title: &str,
    duration_s: f64,
    interval_s: f64,
    connections: &[TracedCurves],
) -> Vec<(&'static str, String)> {
    let throughput = match interval_s < 1.0 {
        true => "Throughput in intervals of 100 ms",
        false => "Throughput in intervals of 1 s",
    };
    let figure = |what, unit, families: &[Family]| {
        let figure = Figure {
            title,
            what,
            across: Across::time(duration_s),
            panels: vec![Panel {
                unit,
                lines: lines(connections, families),
                ..Panel::default()
            }],
        };
        figure.svg()
    };
    vec![
        (
            "throughput.svg",
            figure(
                throughput,
                "Mbit/s",
                &[(|c| &c.throughput, Stroke::SOLID, "")],
            ),
        ),
        (
            "average_throughput.svg",
            figure(
                "Average throughput since the connection’s beginning",
                "Mbit/s",
                &[(|c| &c.average, Stroke::SOLID, "")],
            ),
        ),
        (
            "cwnd.svg",
            figure(
                "Congestion window and slow-start threshold (dashed)",
                "kB",
                &[
                    (|c| &c.cwnd, Stroke::SOLID, ""),
                    (|c| &c.ssthresh, Stroke::DASHED, "ssthresh"),
                ],
            ),
        ),
        (
            "rtt.svg",
            figure(
                "Smoothed round-trip time and retransmission timeout (dashed)",
                "ms",
                &[
                    (|c| &c.srtt, Stroke::SOLID, ""),
                    (|c| &c.rto, Stroke::DASHED, "timeout"),
                ],
            ),
        ),
        (
            "in_flight.svg",
            figure(
                "Data in flight",
                "kB",
                &[(|c| &c.in_flight, Stroke::SOLID, "")],
            ),
        ),
    ]
}

/// Colours distinguish the curves of a single connection, or else the connections.
fn lines<'a>(connections: &'a [TracedCurves], families: &[Family]) -> Vec<Line<'a>> {
    let single = connections.len() == 1;
    let mut lines = Vec::new();
    for (at, (of, stroke, name)) in families.iter().enumerate() {
        for (number, connection) in connections.iter().enumerate() {
            let (name, colour) = match (single, name.is_empty()) {
                (_, true) => (connection.name.clone(), number),
                (true, false) => ((*name).to_owned(), at),
                (false, false) => (String::new(), number),
            };
            lines.push(Line {
                name,
                colour: Some(colour),
                stroke: *stroke,
                points: of(connection),
            });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_names_the_connections() {
        let point = |time_s, value| Point { time_s, value };
        let connection = TracedCurves {
            name: "10.0.0.1:5 → 10.0.0.2:80".to_owned(),
            cwnd: vec![point(0.0, 14.48), point(1.0, 28.96)],
            ssthresh: vec![point(0.5, 20.0), point(1.0, 20.0)],
            ..TracedCurves::default()
        };
        let plots = svgs("a trace", 1.0, 0.1, &[connection.clone(), connection]);
        let names: Vec<&str> = plots.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            [
                "throughput.svg",
                "average_throughput.svg",
                "cwnd.svg",
                "rtt.svg",
                "in_flight.svg"
            ]
        );
        for (_, svg) in &plots {
            assert!(svg.contains("10.0.0.1:5 → 10.0.0.2:80"), "{svg}");
        }
        assert!(plots[2].1.contains("stroke-dasharray"), "{}", plots[2].1);
    }
}
