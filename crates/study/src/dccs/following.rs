//! The inputs of a transfer: the advice at its start and at every next advice time.

use std::time::Duration;

use fairwind_advice::{
    Controls, History, HistorySet, Hop, Mode, ModelKind, Request, Samples, Settings, advise,
};
use jiff::Timestamp;

use super::relation::scaled;
use super::series::time_zone;
use crate::demo::story::Way;

/// One answer of the advisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    /// Time after the start of the transfer, on the advisor's clock.
    pub after: Duration,
    pub mode: Mode,
}

/// The settings of the thesis' advisor for these tests. What the thesis leaves open stays at its default: an
/// hour of history after the time of the request, 5 % of change. Tests may be two hours old: in the thesis
/// their age bounds no next advice time, so it bounds none here.
pub(crate) fn settings(threshold_mbps: f64, history_set: HistorySet) -> Settings {
    Settings {
        model: ModelKind::Linear,
        threshold_mbps: Some(threshold_mbps),
        history_set,
        time_zone: time_zone(),
        controls: Controls {
            on: Some("reno".to_owned()),
            ..Controls::default()
        },
        own_path: true,
        stale_after: Duration::from_secs(7_200),
        ..Settings::default()
    }
}

/// The inputs of a transfer that starts at `start` and lasts at most `span`. The advisor knows the samples up
/// to each request, and takes its forecasts from earlier days.
pub(crate) fn inputs(
    samples: &Samples,
    settings: &Settings,
    start: Timestamp,
    span: Duration,
) -> Vec<Input> {
    let history = History {
        hops: vec![Hop::new("", samples.clone())],
        rtt: None,
    };
    let end = start.checked_add(span).unwrap_or(Timestamp::MAX);
    let mut inputs = Vec::new();
    let mut now = start;
    while now < end {
        let advice = advise(&history, &Request::default(), now, settings);
        inputs.push(Input {
            after: now.duration_since(start).unsigned_abs(),
            mode: advice.mode,
        });
        now = advice.next_advice;
    }
    inputs
}

/// The inputs in the thesis' notation: 1 is congestion control, 0 is none, and 0(3) is three times 0.
pub(crate) fn text(inputs: &[Input]) -> String {
    let runs = inputs.chunk_by(|a, b| a.mode == b.mode);
    let words = runs.map(|run| match run.len() {
        1 => digit(run[0].mode).to_owned(),
        times => format!("{}({times})", digit(run[0].mode)),
    });
    words.collect::<Vec<_>>().join(",")
}

fn digit(mode: Mode) -> &'static str {
    if mode.has_congestion_control() {
        "1"
    } else {
        "0"
    }
}

/// The congestion control of a mode.
fn control(mode: Mode) -> &'static str {
    if mode.has_congestion_control() {
        "reno"
    } else {
        "nocc"
    }
}

/// The congestion control with which a transfer begins.
pub(crate) fn first_control(way: Way, inputs: &[Input]) -> &'static str {
    match (way, inputs.first()) {
        (Way::Nocc, _) => "nocc",
        (Way::Advised, Some(input)) => control(input.mode),
        (Way::Background, _) => "fairwind",
        _ => "reno",
    }
}

/// The changes of congestion control after the first input, as the value of a flow's `switch`, in a run whose
/// length is scaled by `scale`.
pub(crate) fn switches(inputs: &[Input], scale: f64) -> String {
    let changes = inputs
        .windows(2)
        .filter(|pair| pair[0].mode != pair[1].mode);
    let entries = changes.map(|pair| {
        let at = scaled(pair[1].after, scale);
        let control = control(pair[1].mode);
        format!("{{ at = \"{at:.6}s\", congestion_control = \"{control}\" }}")
    });
    format!("[{}]", entries.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(modes: &[(u64, Mode)]) -> Vec<Input> {
        let input = |&(seconds, mode): &(u64, Mode)| Input {
            after: Duration::from_secs(seconds),
            mode,
        };
        modes.iter().map(input).collect()
    }

    const ON: Mode = Mode::CongestionControl;
    const OFF: Mode = Mode::NoCongestionControl;

    #[test]
    fn inputs_are_written_as_in_the_thesis() {
        let inputs = told(&[(0, OFF), (60, ON), (120, ON), (180, OFF)]);
        assert_eq!(text(&inputs), "0,1(2),0");
    }

    #[test]
    fn a_flow_switches_where_the_mode_changes_and_nowhere_else() {
        let inputs = told(&[(0, OFF), (60, ON), (120, ON), (180, OFF)]);
        let expected = "[{ at = \"6.000000s\", congestion_control = \"reno\" }, \
                        { at = \"18.000000s\", congestion_control = \"nocc\" }]";
        assert_eq!(switches(&inputs, 0.1), expected);
        assert_eq!(switches(&inputs[..1], 1.0), "[]");
    }
}
