//! The curves as the report's script reads them: JSON, with six significant digits.

use fairwind_result::RunResult;
use fairwind_result::series::curves::{Curves, FlowCurves, LinkCurves};
use fairwind_result::series::decimate::Point;
use serde::Serialize;

#[derive(Serialize)]
struct Data<'a> {
    duration: f64,
    warmup: f64,
    interval: f64,
    flows: Vec<Flow<'a>>,
    links: Vec<Link<'a>>,
}

#[derive(Serialize)]
struct Flow<'a> {
    name: &'a str,
    control: &'a str,
    throughput: Curve,
    average: Curve,
    delivered: Curve,
    cwnd: Curve,
    ssthresh: Curve,
    rtt: Curve,
    rto: Curve,
}

#[derive(Serialize)]
struct Link<'a> {
    name: &'a str,
    /// Whether it is drawn at first, by `Curves::worth_drawing`.
    shown: bool,
    queue: Curve,
    drops: Curve,
    dropped: Vec<u64>,
}

#[derive(Serialize)]
struct Curve {
    x: Vec<f64>,
    y: Vec<f64>,
}

/// The JSON of these curves.
pub fn json(run: &RunResult, curves: &Curves) -> String {
    let data = Data {
        duration: run.duration_s,
        warmup: run.warmup_s,
        interval: curves.interval_s,
        flows: curves
            .flows
            .iter()
            .zip(&run.flows)
            .map(|(curves, flow)| {
                self::flow(curves, flow.congestion_control.as_deref().unwrap_or(""))
            })
            .collect(),
        links: curves
            .links
            .iter()
            .map(|l| link(l, curves.worth_drawing(l)))
            .collect(),
    };
    serde_json::to_string(&data).expect("curves are finite")
}

fn flow<'a>(curves: &'a FlowCurves, control: &'a str) -> Flow<'a> {
    Flow {
        name: &curves.name,
        control,
        throughput: curve(&curves.throughput),
        average: curve(&curves.average),
        delivered: curve(&curves.delivered),
        cwnd: curve(&curves.cwnd),
        ssthresh: curve(&curves.ssthresh),
        rtt: curve(&curves.rtt),
        rto: curve(&curves.rto),
    }
}

fn link(curves: &LinkCurves, shown: bool) -> Link<'_> {
    let drops: Vec<Point> = curves.drops.iter().map(|drops| drops.at).collect();
    Link {
        name: &curves.name,
        shown,
        queue: curve(&curves.queue),
        drops: curve(&drops),
        dropped: curves.drops.iter().map(|drops| drops.packets).collect(),
    }
}

fn curve(points: &[Point]) -> Curve {
    Curve {
        x: points.iter().map(|p| significant(p.time_s)).collect(),
        y: points.iter().map(|p| significant(p.value)).collect(),
    }
}

/// `value` with six significant digits, by way of its decimal text, which is the same on every platform.
fn significant(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::significant;

    #[test]
    fn six_digits_are_kept() {
        assert_eq!(significant(123_456.789), 123_457.0);
        assert_eq!(significant(0.001_234_567_8), 0.001_234_57);
        assert_eq!(significant(0.0), 0.0);
    }
}
