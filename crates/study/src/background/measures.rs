//! What is measured of one run.

use fairwind_result::RunResult;
use serde::{Deserialize, Serialize};

use crate::statistics::quantile;

use super::setup::{Setup, TCP_IP};
use super::watch::{Curve, Watch};

/// What a background has to leave to have yielded, and what it has to have again to have reclaimed: shares of what it
/// had alone.
const YIELDED: f64 = 0.1;
const RECLAIMED: f64 = 0.9;
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

/// The measures of a run.
pub(super) fn of(setup: &Setup, watch: &Watch, result: &RunResult) -> Measures {
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
    let (of_foreground, of_background) = result.flows.split_at(setup.foreground_flows);
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

/// Jain's index of fairness: 1 if all have the same, 1/n if one has everything; none for fewer than two.
fn jain(shares: impl Iterator<Item = f64>) -> Option<f64> {
    let shares: Vec<f64> = shares.collect();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let sum: f64 = shares.iter().sum();
    (shares.len() > 1 && squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}
