//! What is measured of one run.

use serde::{Deserialize, Serialize};

use crate::experiments::{TCP_IP, UDP_IP};

use super::file::START;
use super::path::{Foreground, RandomPath};
use super::suite::Suite;
use super::watch::Watch;

/// The least that a sender without a reason to stop has in flight, packets.
const MINIMUM: f64 = 2.0;
/// What is spare is a mean over this time, seconds.
const SPARE_WINDOW: f64 = 1.0;
/// What is sent is a mean over this time, seconds, or a round trip.
const SENT_WINDOW: f64 = 0.1;
/// What a sender may send at once beyond the link's rate, bytes.
const BURST: f64 = 15_000.0;
/// The share of a run that is its beginning, which use leaves out.
const BEGINNING: f64 = 0.25;

/// The measures of a run of a control beside the oracle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Measures {
    /// What is spare, as a share of what the link can carry.
    pub spare: f64,
    /// What the control carries, as a share of what is spare.
    pub used: f64,
    /// Longest time at the minimum while there is more to have, seconds.
    pub minimum_s: f64,
    /// Longest time in which it carries less than the share of what is spare below which it fails, seconds.
    pub starved_s: f64,
    /// Longest time in which it sends more than the link carries, seconds.
    pub above_s: f64,
    /// Largest window, packets.
    pub largest_window: f64,
}

/// A quantity so far, over time; seconds, neither decreases.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Curve(Vec<(f64, f64)>);

impl Curve {
    /// Its value at this time, on a straight line between points.
    fn at(&self, seconds: f64) -> f64 {
        let behind = self.0.partition_point(|(time, _)| *time <= seconds);
        let Some(before) = behind.checked_sub(1).map(|at| self.0[at]) else {
            return 0.0;
        };
        let Some(next) = self.0.get(behind) else {
            return before.1;
        };
        before.1 + (next.1 - before.1) * (seconds - before.0) / (next.0 - before.0)
    }

    /// What it gains from one time to another.
    pub(super) fn between(&self, from: f64, to: f64) -> f64 {
        self.at(to) - self.at(from)
    }
}

/// What the link can carry, bytes, over time.
fn capacity(path: &RandomPath) -> Curve {
    let mut bytes = 0.0;
    let mut points = vec![(0.0, 0.0)];
    let (mut since, mut rate) = (0.0, 0.0);
    for (at, mbps) in path.rates().into_iter().chain([(path.length, 0.0)]) {
        bytes += (at - since) * rate;
        points.push((at, bytes));
        (since, rate) = (at, mbps.min(path.policed_mbps()) * 1e6 / 8.0);
    }
    points.dedup_by(|later, earlier| later.0 <= earlier.0);
    Curve(points)
}

/// What the oracle carried, IP bytes: what is spare.
pub(super) fn spare(watch: &Watch) -> Curve {
    let points = watch
        .own
        .iter()
        .map(|moment| (moment.seconds, moment.received * UDP_IP));
    // So many points are enough for means over a second.
    Curve(points.step_by(5).collect())
}

/// The measures of a run.
pub(super) fn of(suite: &Suite, path: &RandomPath, spare: &Curve, watch: &Watch) -> Measures {
    let capacity = capacity(path);
    let own = Curve(
        watch
            .own
            .iter()
            .map(|moment| (moment.seconds, moment.received * TCP_IP))
            .collect(),
    );
    let (from, to) = (BEGINNING * path.length, path.length);
    let free = spare.between(from, to);
    let at_minimum = watch.own.iter().map(|moment| {
        let (from, to) = (moment.seconds - SPARE_WINDOW, moment.seconds);
        let unused = spare.between(from, to) - own.between(from, to);
        let of_link = capacity.at(path.length) / path.length * SPARE_WINDOW;
        (
            to,
            moment.window <= MINIMUM && unused > suite.unused * of_link,
        )
    });
    let ends = |curve: &Curve| {
        watch
            .own
            .iter()
            .map(|moment| (moment.seconds, curve.at(moment.seconds)))
            .collect::<Vec<_>>()
    };
    let starved = ends(&own)
        .into_iter()
        .zip(ends(spare))
        .map(|((at, own), (_, spare))| (at, own - suite.failed_below * spare));
    let window = SENT_WINDOW.max(path.rtt);
    let others = others(path, watch);
    let arrived = Curve(watch.arrived.clone());
    let is_above = watch
        .arrived
        .iter()
        .filter(|(at, _)| *at >= START + window)
        .map(|&(to, _)| {
            let from = to - window;
            let sent = arrived.between(from, to) - others.between(from, to);
            (to, sent > suite.above * capacity.between(from, to) + BURST)
        });
    Measures {
        spare: free / capacity.between(from, to),
        used: if free > 0.0 {
            own.between(from, to) / free
        } else {
            0.0
        },
        minimum_s: longest(at_minimum),
        starved_s: longest_decline(&starved.collect::<Vec<_>>()),
        above_s: longest(is_above),
        largest_window: watch.largest_window,
    }
}

/// What others have sent to the link, bytes; of the foreground's TCP what has arrived.
fn others(path: &RandomPath, watch: &Watch) -> Curve {
    match path.foreground {
        None => Curve::default(),
        Some(Foreground::OnOff { .. }) => {
            let points = watch.foreground.iter();
            Curve(points.map(|&(at, bytes)| (at, bytes * TCP_IP)).collect())
        }
        Some(Foreground::Datagrams { share }) => {
            let bytes = share * path.mbps * 1e6 / 8.0 * path.length;
            Curve(vec![(0.0, 0.0), (path.length, bytes)])
        }
    }
}

/// The longest time in a row for which it is so, seconds.
fn longest(moments: impl Iterator<Item = (f64, bool)>) -> f64 {
    let mut longest: f64 = 0.0;
    let mut since = None;
    for (at, is_so) in moments {
        since = is_so.then(|| since.unwrap_or(at));
        longest = longest.max(since.map_or(0.0, |since| at - since));
    }
    longest
}

/// The longest time over which the value falls from its beginning to its end, seconds.
fn longest_decline(points: &[(f64, f64)]) -> f64 {
    // Only a beginning above all before it can be the best, and ends are tried from the last.
    let mut beginnings: Vec<usize> = Vec::new();
    for (at, (_, value)) in points.iter().enumerate() {
        if beginnings
            .last()
            .is_none_or(|&last| *value > points[last].1)
        {
            beginnings.push(at);
        }
    }
    let mut longest: f64 = 0.0;
    for (seconds, value) in points.iter().rev() {
        while let Some(&first) = beginnings.last().filter(|&&first| points[first].1 > *value) {
            longest = longest.max(seconds - points[first].0);
            beginnings.pop();
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_decline_is_between_any_two_points() {
        let of = |values: &[f64]| {
            let points: Vec<(f64, f64)> = values
                .iter()
                .enumerate()
                .map(|(at, value)| (at as f64, *value))
                .collect();
            longest_decline(&points)
        };
        assert_eq!(of(&[]), 0.0);
        assert_eq!(of(&[1.0, 1.0, 2.0]), 0.0);
        assert_eq!(of(&[1.0, 3.0, 4.0, 2.0, 2.5, 5.0]), 3.0);
        assert_eq!(of(&[5.0, 4.0, 3.0, 2.0]), 3.0);
        assert_eq!(of(&[0.0, 9.0, 1.0, 1.0, 8.0, 7.0]), 4.0);
    }

    #[test]
    fn the_longest_time_is_of_moments_in_a_row() {
        let of = |are: &[bool]| longest(are.iter().enumerate().map(|(at, is)| (at as f64, *is)));
        assert_eq!(of(&[false, true, true, true, false, true, true]), 2.0);
        assert_eq!(of(&[true, false, true]), 0.0);
    }
}
