//! The plots of traced connections: the figures of a run, for connections of the real kernel.

use fairwind_result::series::decimate::Point;

use super::chart::{Across, Chart, Curve, Style, throughput_text};

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
type Family = (fn(&TracedCurves) -> &[Point], Style, &'static str);

/// The plots: file name and content. Times go from 0 to `duration_s`; throughput is that of intervals of
/// `interval_s`.
pub fn svgs(
    title: &str,
    duration_s: f64,
    interval_s: f64,
    connections: &[TracedCurves],
) -> Vec<(&'static str, String)> {
    let plots: [(_, _, _, &[Family]); 5] = [
        (
            "throughput.svg",
            throughput_text(interval_s),
            "Mbit/s",
            &[(|c| &c.throughput, Style::Solid, "")],
        ),
        (
            "average_throughput.svg",
            "Average throughput since the connection’s beginning",
            "Mbit/s",
            &[(|c| &c.average, Style::Solid, "")],
        ),
        (
            "cwnd.svg",
            "Congestion window and slow-start threshold (dashed)",
            "kB",
            &[
                (|c| &c.cwnd, Style::Solid, ""),
                (|c| &c.ssthresh, Style::Dashed, "ssthresh"),
            ],
        ),
        (
            "rtt.svg",
            "Smoothed round-trip time and retransmission timeout (dashed)",
            "ms",
            &[
                (|c| &c.srtt, Style::Solid, ""),
                (|c| &c.rto, Style::Dashed, "timeout"),
            ],
        ),
        (
            "in_flight.svg",
            "Data in flight",
            "kB",
            &[(|c| &c.in_flight, Style::Solid, "")],
        ),
    ];
    let plots = plots.map(|(file, what, unit, families)| {
        let curves = curves(connections, families);
        let chart = Chart::new(title, what, Across::time(duration_s), unit, curves);
        (file, chart.svg())
    });
    plots.into()
}

/// Colours distinguish the curves of a single connection, or else the connections.
fn curves(connections: &[TracedCurves], families: &[Family]) -> Vec<Curve> {
    let single = connections.len() == 1;
    let mut curves = Vec::new();
    for (at, &(of, style, name)) in families.iter().enumerate() {
        for (number, connection) in connections.iter().enumerate() {
            let (name, colour) = match (single, name) {
                (_, "") => (connection.name.as_str(), number),
                (true, name) => (name, at),
                (false, _) => ("", number),
            };
            curves.push(Curve {
                name: name.to_owned(),
                colour: Some(colour),
                style,
                points: of(connection).to_vec(),
            });
        }
    }
    curves
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
