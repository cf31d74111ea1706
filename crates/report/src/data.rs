//! The curves as the report's script reads them: JSON, with six significant digits.

use fairwind_result::RunResult;
use fairwind_result::series::curves::Curves;
use fairwind_result::series::decimate::Point;
use serde_json::{Value, json};

/// The JSON of these curves.
pub(crate) fn json(run: &RunResult, curves: &Curves) -> String {
    let flows = curves.flows.iter().zip(&run.flows).map(|(of, flow)| {
        json!({
            "name": of.name,
            "control": flow.congestion_control.as_deref().unwrap_or(""),
            "throughput": curve(&of.throughput),
            "average": curve(&of.average),
            "delivered": curve(&of.delivered),
            "cwnd": curve(&of.cwnd),
            "ssthresh": curve(&of.ssthresh),
            "rtt": curve(&of.rtt),
            "rto": curve(&of.rto),
        })
    });
    let links = curves.links.iter().map(|of| {
        let drops: Vec<Point> = of.drops.iter().map(|drops| drops.at).collect();
        json!({
            "name": of.name,
            "shown": curves.worth_drawing(of),
            "queue": curve(&of.queue),
            "drops": curve(&drops),
            "dropped": of.drops.iter().map(|drops| drops.packets).collect::<Vec<_>>(),
        })
    });
    let data = json!({
        "duration": run.duration_s,
        "warmup": run.warmup_s,
        "interval": curves.interval_s,
        "flows": flows.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
    });
    data.to_string()
}

fn curve(points: &[Point]) -> Value {
    json!({
        "x": points.iter().map(|p| significant(p.time_s)).collect::<Vec<_>>(),
        "y": points.iter().map(|p| significant(p.value)).collect::<Vec<_>>(),
    })
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
