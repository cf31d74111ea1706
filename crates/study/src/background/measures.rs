//! What is measured of one run.

use fairwind_result::FlowResult;
use serde::{Deserialize, Serialize};

use crate::experiments::TCP_IP;
use crate::statistics::quantile;

use super::setup::Setup;
use super::watch::{Curve, Watch};

/// What a background has to leave to have yielded, and what it has to have again to have reclaimed: shares of what it
/// had alone.
const YIELDED: f64 = 0.1;
const RECLAIMED: f64 = 0.9;
/// What a background has to have of the link to be back after a step of the round-trip time, and the windows of that,
/// seconds.
const BACK: f64 = 0.9;
const BACK_WINDOW: f64 = 0.5;
/// Rates are means over windows of a round trip, and at least of this time, seconds, and of so many packets.
const LEAST_WINDOW: f64 = 0.01;
const PACKETS_OF_A_WINDOW: f64 = 20.0;

/// The measures of a run. Shares are those of the link, in IP bytes; times are in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Measures {
    /// The foreground while it is there, and in the second half of that.
    pub foreground: f64,
    pub foreground_second_half: f64,
    /// The background at the same times.
    pub background: f64,
    pub background_second_half: f64,
    /// The background before the foreground comes.
    pub alone: f64,
    /// Jain's index of its flows in that time.
    pub jain: Option<f64>,
    /// Time in the queue while the foreground is there, ms.
    pub queue_p50_ms: f64,
    pub queue_p99_ms: f64,
    /// Time in the queue before that, ms.
    pub alone_queue_p50_ms: f64,
    pub alone_queue_p99_ms: f64,
    /// From the foreground's coming until the background has yielded; none if it does not.
    pub yields_s: Option<f64>,
    /// From the foreground's leaving until the background has reclaimed the link; none if it does not.
    pub reclaims_s: Option<f64>,
    /// From each step of the round-trip time until the background has the link again; none if it does not.
    pub back_s: Vec<Option<f64>>,
    /// Completion times of the foreground's objects.
    pub object_p50_s: Option<f64>,
    pub object_p99_s: Option<f64>,
    /// Segments of a video, and those that missed their deadlines.
    pub segments: u64,
    pub missed: u64,
    /// Packets that the background sent and lost, and its timeouts.
    pub sent: u64,
    pub lost: u64,
    pub timeouts: u64,
}

/// The measures of a run with these totals of its flows.
pub(super) fn of(setup: &Setup, watch: &Watch, flows: &[FlowResult]) -> Measures {
    let times = setup.times;
    let half = (times.come + times.leave) / 2.0;
    let share = |bytes: f64, ip: f64, from: f64, to: f64| match to > from {
        true => bytes * ip * 8.0 / (to - from) / setup.bandwidth,
        false => 0.0,
    };
    let foreground = |from, to| share(watch.foreground.between(from, to), TCP_IP, from, to);
    let background = |from, to| {
        let bytes = watch.background.iter().map(|flow| flow.between(from, to));
        share(bytes.sum(), setup.background_ip, from, to)
    };
    let queue_ms = |from: f64, to: f64, part: f64| {
        let samples = watch.queue.iter().filter(|(at, _)| (from..to).contains(at));
        let ms = samples.map(|(_, bytes)| bytes * 8.0 / setup.bandwidth * 1e3);
        quantile(ms.collect(), part).unwrap_or(0.0)
    };
    let (of_foreground, of_background) = flows.split_at(setup.foreground_flows);
    let of_background = &of_background[..setup.background_flows.min(of_background.len())];
    let web = of_foreground.iter().find(|flow| flow.application == "web");
    let segments = if setup.deadline > 0.0 {
        of_foreground
    } else {
        &[]
    };
    let has_missed = |seconds: Option<f64>| seconds.is_none_or(|seconds| seconds > setup.deadline);
    let alone = background(times.settled, times.come);
    let rate = Rate {
        setup,
        flows: &watch.background,
    };
    Measures {
        foreground: foreground(times.come, times.leave),
        foreground_second_half: foreground(half, times.leave),
        background: background(times.come, times.leave),
        background_second_half: background(half, times.leave),
        alone,
        jain: jain(
            watch
                .background
                .iter()
                .map(|flow| flow.between(times.settled, times.come)),
        ),
        queue_p50_ms: queue_ms(times.come, times.leave, 0.5),
        queue_p99_ms: queue_ms(times.come, times.leave, 0.99),
        alone_queue_p50_ms: queue_ms(times.settled, times.come, 0.5),
        alone_queue_p99_ms: queue_ms(times.settled, times.come, 0.99),
        yields_s: rate.first(times.come, times.leave, |rate| rate <= YIELDED * alone),
        reclaims_s: rate.first(times.leave, times.end, |rate| rate >= RECLAIMED * alone),
        back_s: rate.back(),
        object_p50_s: web.and_then(|flow| flow.object_p50_s),
        object_p99_s: web.and_then(|flow| flow.object_p99_s),
        segments: segments.len() as u64,
        missed: segments
            .iter()
            .filter(|flow| has_missed(flow.completion_s))
            .count() as u64,
        sent: of_background.iter().map(|flow| flow.packets_sent).sum(),
        lost: of_background.iter().map(|flow| flow.packets_lost).sum(),
        timeouts: of_background.iter().map(|flow| flow.timeouts).sum(),
    }
}

/// The rate of the background.
struct Rate<'a> {
    setup: &'a Setup,
    flows: &'a [Curve],
}

impl Rate<'_> {
    /// The time from `from` until a window first ends whose rate, as a share of the link, is so.
    fn first(&self, from: f64, to: f64, is_so: impl Fn(f64) -> bool) -> Option<f64> {
        let setup = self.setup;
        let packets = PACKETS_OF_A_WINDOW * 1500.0 * 8.0 / setup.bandwidth;
        let window = setup.times.trip.max(LEAST_WINDOW).max(packets);
        let steps = ((to - from - window) / setup.times.sample).floor();
        if self.flows.is_empty() || steps < 0.0 {
            return None;
        }
        let begins = (0..=steps as u64).map(|step| from + step as f64 * setup.times.sample);
        let rate = |begin: f64| {
            let bytes = self
                .flows
                .iter()
                .map(|flow| flow.between(begin, begin + window));
            bytes.sum::<f64>() * setup.background_ip * 8.0 / window / setup.bandwidth
        };
        let mut begins = begins.filter(|&begin| is_so(rate(begin)));
        begins.next().map(|begin| begin + window - from)
    }
}

impl Rate<'_> {
    /// The times from each step of the round-trip time until the last window below [`BACK`] of the link ends; none of
    /// one that lasts until the next step or the end.
    fn back(&self) -> Vec<Option<f64>> {
        let setup = self.setup;
        let ends = setup.steps.iter().skip(1).chain([&setup.times.end]);
        let windows = |(&from, &to): (&f64, &f64)| {
            let count = ((to - from) / BACK_WINDOW + 1e-6).floor() as u64;
            let is_below = |window: &u64| {
                let begin = from + *window as f64 * BACK_WINDOW;
                let ends = begin + BACK_WINDOW;
                let bytes = self.flows.iter().map(|flow| flow.between(begin, ends));
                let bits = bytes.sum::<f64>() * setup.background_ip * 8.0;
                bits < BACK * BACK_WINDOW * setup.bandwidth
            };
            let back = (0..count).rev().find(is_below).map_or(0, |last| last + 1);
            (back < count).then_some(back as f64 * BACK_WINDOW)
        };
        setup.steps.iter().zip(ends).map(windows).collect()
    }
}

/// Jain's index of fairness: 1 if all have the same, 1/n if one has everything; none for fewer than two.
fn jain(shares: impl Iterator<Item = f64>) -> Option<f64> {
    let shares: Vec<f64> = shares.collect();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let sum: f64 = shares.iter().sum();
    (shares.len() > 1 && squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::super::setup::Times;
    use super::*;

    /// 1 Mbit/s, whose packets are counted as they are.
    fn setup() -> Setup {
        Setup {
            text: String::new(),
            times: Times {
                settled: 2.0,
                come: 4.0,
                leave: 8.0,
                end: 10.0,
                sample: 0.1,
                trip: 0.02,
            },
            foreground_flows: 1,
            bandwidth: 1e6,
            background_ip: 1.0,
            deadline: 0.0,
            background_flows: 2,
            steps: Vec::new(),
            delays: None,
        }
    }

    fn flow(application: &str) -> FlowResult {
        FlowResult {
            application: application.to_owned(),
            ..FlowResult::default()
        }
    }

    /// Bytes at a rate until 4.5 s and from 8.5 s on.
    fn yielding(bytes_per_s: f64) -> Curve {
        Curve::through(&[
            (0.0, 0.0),
            (4.5, 4.5 * bytes_per_s),
            (8.5, 4.5 * bytes_per_s),
            (10.0, 6.0 * bytes_per_s),
        ])
    }

    #[test]
    fn shares_are_of_the_link_and_of_each_phase() {
        let watch = Watch {
            // 36,200 B/s of payload are 37,500 B/s of packets for 4 s, then twice as many in the second half.
            foreground: Curve::through(&[(4.0, 0.0), (6.0, 72_400.0), (8.0, 217_200.0)]),
            background: vec![yielding(60_000.0), yielding(40_000.0)],
            queue: vec![
                (3.0, 9e9),
                (4.0, 1250.0),
                (5.0, 125.0),
                (6.0, 250.0),
                (8.0, 9e9),
            ],
            ..Watch::default()
        };
        let measures = of(
            &setup(),
            &watch,
            &[flow("on-off"), flow("bulk"), flow("bulk")],
        );
        let is = |value: f64, expected: f64| {
            assert!((value - expected).abs() < 1e-9, "{value}, not {expected}")
        };
        is(measures.foreground, 0.45);
        is(measures.foreground_second_half, 0.6);
        // 100,000 B/s alone; for half a second of the four in which the foreground is there.
        is(measures.alone, 0.8);
        is(measures.background, 0.1);
        is(measures.background_second_half, 0.0);
        // (3 + 2)^2 / (2 (9 + 4))
        is(measures.jain.unwrap(), 25.0 / 26.0);
        // 125 B are 1 ms.
        assert_eq!((measures.queue_p50_ms, measures.queue_p99_ms), (2.0, 10.0));
        assert_eq!((measures.object_p50_s, measures.segments), (None, 0));
    }

    /// A window has 20 packets, 240 ms. The first with a tenth of 100,000 B/s begins at 4.476 s, with nine tenths at
    /// 8.476 s; windows begin every 100 ms.
    #[test]
    fn a_background_has_yielded_and_reclaimed_at_the_end_of_the_first_window_that_shows_it() {
        let times = |curve| {
            let watch = Watch {
                background: vec![curve],
                ..Watch::default()
            };
            let measures = of(&setup(), &watch, &[flow("on-off"), flow("bulk")]);
            [measures.yields_s, measures.reclaims_s]
                .map(|time| time.map(|time| (time * 1e3).round()))
        };
        assert_eq!(times(yielding(100_000.0)), [Some(740.0), Some(740.0)]);
        // It goes on, and so it has what it had as soon as the foreground leaves.
        let steady = Curve::through(&[(0.0, 0.0), (10.0, 1e6)]);
        assert_eq!(times(steady), [None, Some(240.0)]);
        let gone = Curve::through(&[(0.0, 0.0), (4.0, 4e5)]);
        assert_eq!(times(gone), [Some(240.0), None]);
    }

    #[test]
    fn a_segment_that_is_late_or_does_not_arrive_has_missed_its_deadline() {
        let setup = Setup {
            foreground_flows: 3,
            deadline: 1.0,
            ..setup()
        };
        let segment = |completion_s| FlowResult {
            completion_s,
            ..flow("bulk")
        };
        let flows = [
            segment(Some(0.9)),
            segment(Some(1.1)),
            segment(None),
            flow("bulk"),
        ];
        let measures = of(&setup, &Watch::default(), &flows);
        assert_eq!((measures.segments, measures.missed), (3, 2));
    }
}
