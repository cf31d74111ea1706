//! Distribution functions over time: the share of the time in which a value was not exceeded.

use std::collections::HashMap;
use std::path::PathBuf;

use fairwind_result::series::columns::{FLOW, LINK};
use fairwind_result::series::decimate::{Point, thinned};
use fairwind_result::series::reader::scan;
use fairwind_result::{FLOWS_FILE, LINKS_FILE, ResultError, round};
use serde::Serialize;

use super::side::{Pair, Run, Side};

/// Columns of the drawn distribution.
const COLUMNS: usize = 200;

/// A quantity whose distribution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Quantity {
    /// Congestion window of a flow, kB.
    Cwnd,
    /// Smoothed round-trip time of a flow, ms.
    Rtt,
    /// Throughput of a flow in the intervals of the plots, Mbit/s.
    Throughput,
    /// Length of a link's queue, packets.
    Queue,
}

impl Quantity {
    /// As [`Spread::quantity`].
    pub(super) fn key(self) -> &'static str {
        match self {
            Quantity::Cwnd => "cwnd_kb",
            Quantity::Rtt => "rtt_ms",
            Quantity::Throughput => "throughput_mbps",
            Quantity::Queue => "queue_pkts",
        }
    }
}

/// The distributions of a quantity of a flow or link in both results, over the time after the warm-up and all
/// seeds of each.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Name of the flow or link.
    pub name: String,
    /// `cwnd_kb`, `rtt_ms` (smoothed), `throughput_mbps` (of the intervals of the plots) or
    /// `queue_pkts`.
    pub quantity: &'static str,
    /// In the first result.
    pub a: Quantiles,
    /// In the second result.
    pub b: Quantiles,
    /// Greatest difference of the two distribution functions, 0 (the same) to 1 (nothing in
    /// common).
    #[serde(with = "round")]
    pub distance: f64,
    /// Area between them: the average shift that turns the values of one into those of the other, in the
    /// quantity's unit.
    #[serde(with = "round")]
    pub area: f64,
    /// `area` divided by the mean in the first result; none if that mean is 0.
    #[serde(with = "round::option")]
    pub relative: Option<f64>,
}

/// Quantiles of a quantity over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// Not exceeded in 5 % of the time.
    #[serde(with = "round")]
    pub p5: f64,
    /// Not exceeded in 50 % of the time.
    #[serde(with = "round")]
    pub median: f64,
    /// Not exceeded in 95 % of the time.
    #[serde(with = "round")]
    pub p95: f64,
}

/// A quantity of a flow or link in both results.
pub(super) struct Distributions {
    /// The quantity.
    pub quantity: Quantity,
    /// Name of the flow or link.
    pub name: String,
    /// In each result.
    pub sides: [Distribution; 2],
}

impl Distributions {
    /// The quantiles of both sides and their differences.
    pub(super) fn spread(&self) -> Spread {
        let [a, b] = &self.sides;
        Spread {
            name: self.name.clone(),
            quantity: self.quantity.key(),
            a: a.quantiles(),
            b: b.quantiles(),
            distance: a.distance(b),
            area: a.area(b),
            relative: (a.mean() > 0.0).then(|| a.area(b) / a.mean()),
        }
    }
}

/// A distribution function: a step at every value that was seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Distribution {
    /// Values in ascending order, and the share of the time in which they were not exceeded.
    steps: Vec<(f64, f64)>,
}

impl Distribution {
    /// The distribution of values, each with the seconds for which it was held; none if no value was held for
    /// any time.
    pub(super) fn of(held: impl IntoIterator<Item = (f64, f64)>) -> Option<Distribution> {
        let mut held: Vec<(f64, f64)> = held
            .into_iter()
            .filter(|(value, time)| value.is_finite() && *time > 0.0)
            .collect();
        held.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = held.iter().map(|(_, time)| time).sum();
        if held.is_empty() {
            return None;
        }
        let mut steps: Vec<(f64, f64)> = Vec::new();
        let mut passed = 0.0;
        for (value, time) in held {
            passed += time;
            match steps.last_mut() {
                Some(last) if last.0 == value => last.1 = passed / total,
                _ => steps.push((value, passed / total)),
            }
        }
        Some(Distribution { steps })
    }

    /// Share of the time in which `value` was not exceeded.
    fn share(&self, value: f64) -> f64 {
        let below = self.steps.partition_point(|&(v, _)| v <= value);
        below.checked_sub(1).map_or(0.0, |at| self.steps[at].1)
    }

    /// Least value that was not exceeded in this share of the time.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        // Rounding may leave the sum of the shares just below 1.
        let at = self.steps.partition_point(|&(_, s)| s < share - 1e-12);
        self.steps[at.min(self.steps.len() - 1)].0
    }

    fn quantiles(&self) -> Quantiles {
        Quantiles {
            p5: self.quantile(0.05),
            median: self.quantile(0.5),
            p95: self.quantile(0.95),
        }
    }

    /// Greatest difference of the two functions.
    pub(super) fn distance(&self, other: &Distribution) -> f64 {
        let values = self.steps.iter().chain(&other.steps).map(|&(v, _)| v);
        values
            .map(|value| (self.share(value) - other.share(value)).abs())
            .fold(0.0, f64::max)
    }

    /// Area between the two functions (the Wasserstein distance): the average shift that turns the values of
    /// one into those of the other, in the unit of the values.
    pub(super) fn area(&self, other: &Distribution) -> f64 {
        let values = self.steps.iter().chain(&other.steps).map(|&(v, _)| v);
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let between = values
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) * (self.share(pair[0]) - other.share(pair[0])).abs());
        between.sum()
    }

    /// The mean, weighted by time.
    pub(super) fn mean(&self) -> f64 {
        let mut before = 0.0;
        let parts = self.steps.iter().map(|&(value, share)| {
            let part = value * (share - before);
            before = share;
            part
        });
        parts.sum()
    }

    /// The least and the greatest value.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.steps[0].0, self.steps[self.steps.len() - 1].0)
    }

    /// The function from `from` to `to`, thinned for a plot.
    pub(super) fn curve(&self, from: f64, to: f64) -> Vec<Point> {
        let steps = self
            .steps
            .iter()
            .map(|&(value, share)| (value - from, share));
        let before = [(0.0, 0.0), (self.ends().0 - from, 0.0)];
        let points = before.into_iter().chain(steps).chain([(to - from, 1.0)]);
        let mut points = thinned(to - from, COLUMNS, points.map(Point::from));
        for point in &mut points {
            point.time_s += from;
        }
        points
    }
}

/// The distributions of everything that both results have: of each flow, then of each link.
pub(super) fn read(pair: &Pair) -> Result<Vec<Distributions>, ResultError> {
    if pair.without_series().is_some() {
        return Ok(Vec::new());
    }
    let [a, b] = &pair.sides;
    let (mut first, mut second) = (held(a, pair)?, held(b, pair)?);
    let mut both = Vec::new();
    let flows = [Quantity::Throughput, Quantity::Cwnd, Quantity::Rtt];
    let wanted = flows.iter().flat_map(|&quantity| {
        let names = pair.flows.iter().enumerate();
        names.map(move |(at, name)| (quantity, at, name))
    });
    let queues = pair.links.iter().enumerate();
    let wanted = wanted.chain(queues.map(|(at, name)| (Quantity::Queue, at, name)));
    for (quantity, at, name) in wanted {
        let of = |held: &mut Held| {
            let values = held.remove(&(quantity, at))?;
            // `of` sorts the values, so that sums do not depend on the order of the map.
            Distribution::of(
                values
                    .into_iter()
                    .map(|(v, time)| (unit(quantity, v), time)),
            )
        };
        if let (Some(a), Some(b)) = (of(&mut first), of(&mut second)) {
            both.push(Distributions {
                quantity,
                name: name.clone(),
                sides: [a, b],
            });
        }
    }
    Ok(both)
}

/// Seconds for which each value of each quantity of each flow or link was held.
type Held = HashMap<(Quantity, usize), HashMap<i64, f64>>;

/// Converts a value of the series to the unit of the quantity.
fn unit(quantity: Quantity, value: i64) -> f64 {
    match quantity {
        Quantity::Queue => value as f64,
        Quantity::Cwnd | Quantity::Rtt => value as f64 / 1e3,
        Quantity::Throughput => value as f64 / 1e6,
    }
}

fn held(side: &Side, pair: &Pair) -> Result<Held, ResultError> {
    let mut held = Held::new();
    for run in &side.runs {
        let flows = Series {
            path: run.folder.join(FLOWS_FILE),
            name_column: FLOW,
            columns: &[("CurCwnd", Quantity::Cwnd), ("SmoothedRTT", Quantity::Rtt)],
            names: &pair.flows,
            from_s: run.result.warmup_s,
            until_s: pair.flows.iter().map(|name| end_of(run, name)).collect(),
        };
        let links = Series {
            path: run.folder.join(LINKS_FILE),
            name_column: LINK,
            columns: &[("queue_packets", Quantity::Queue)],
            names: &pair.links,
            from_s: run.result.warmup_s,
            until_s: vec![run.result.duration_s; pair.links.len()],
        };
        flows.hold(&mut held)?;
        links.hold(&mut held)?;
        throughput(run, &pair.flows, &mut held);
    }
    Ok(held)
}

/// When the flow ended, seconds. A flow without a curve of its window, such as one of several connections,
/// counts for no time at all.
fn end_of(run: &Run, name: &str) -> f64 {
    let drawn = run.flow(name).is_some_and(|flow| !flow.cwnd.is_empty());
    let flow = run.result.flows.iter().find(|flow| flow.name == name);
    match flow.filter(|_| drawn) {
        Some(flow) => flow
            .completion_s
            .map_or(run.result.duration_s, |after| flow.start_s + after),
        None => 0.0,
    }
}

/// The part of a file of series that is read.
struct Series<'a> {
    path: PathBuf,
    name_column: &'static str,
    columns: &'a [(&'static str, Quantity)],
    names: &'a [String],
    /// Time at the beginning that does not count, seconds.
    from_s: f64,
    /// When each name's time ends, seconds.
    until_s: Vec<f64>,
}

impl Series<'_> {
    /// Adds, for every row, how long its values lasted: until the next row of the same name.
    fn hold(&self, held: &mut Held) -> Result<(), ResultError> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let columns: Vec<&str> = self.columns.iter().map(|(column, _)| *column).collect();
        let mut latest: Vec<Option<(f64, Vec<Option<i64>>)>> = vec![None; names.len()];
        scan(&self.path, self.name_column, &names, &columns, |row| {
            let now = (row.time_s, row.values.to_vec());
            if let Some((since_s, values)) = latest[row.name].replace(now) {
                self.add(row.name, since_s, row.time_s, &values, held);
            }
        })?;
        for (name, last) in latest.iter().enumerate() {
            if let Some((since_s, values)) = last {
                self.add(name, *since_s, f64::INFINITY, values, held);
            }
        }
        Ok(())
    }

    fn add(&self, name: usize, since_s: f64, to_s: f64, values: &[Option<i64>], held: &mut Held) {
        let time = to_s.min(self.until_s[name]) - since_s.max(self.from_s);
        if time <= 0.0 {
            return;
        }
        for ((_, quantity), value) in self.columns.iter().zip(values) {
            if let Some(value) = value {
                let times = held.entry((*quantity, name)).or_default();
                *times.entry(*value).or_default() += time;
            }
        }
    }
}

/// Adds the intervals of the throughput curves. A point covers the time since the previous one: of a series
/// of equal intervals, a curve keeps only the first and the last.
fn throughput(run: &Run, names: &[String], held: &mut Held) {
    let Some(curves) = &run.curves else { return };
    for (at, name) in names.iter().enumerate() {
        let Some(flow) = run.flow(name) else { continue };
        let mut before = None;
        for point in &flow.throughput {
            let since = before.unwrap_or(point.time_s - curves.interval_s);
            let time = point.time_s - since.max(run.result.warmup_s);
            if time > 0.0 {
                let values = held.entry((Quantity::Throughput, at)).or_default();
                // Whole bit/s, so that equal intervals count as equal.
                *values
                    .entry((point.value * 1e6).round() as i64)
                    .or_default() += time;
            }
            before = Some(point.time_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(held: &[(f64, f64)]) -> Distribution {
        Distribution::of(held.iter().copied()).unwrap()
    }

    #[test]
    fn a_value_counts_for_as_long_as_it_was_held() {
        let distribution = of(&[(30.0, 1.0), (10.0, 2.0), (20.0, 1.0)]);
        assert_eq!(distribution.share(9.9), 0.0);
        assert_eq!(distribution.share(10.0), 0.5);
        assert_eq!(distribution.share(25.0), 0.75);
        assert_eq!(distribution.share(30.0), 1.0);
        assert_eq!(distribution.quantile(0.5), 10.0);
        assert_eq!(distribution.quantile(0.51), 20.0);
        assert_eq!(distribution.quantile(1.0), 30.0);
    }

    #[test]
    fn the_distance_is_the_greatest_gap_between_the_functions() {
        let even = of(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 1.0)]);
        assert_eq!(even.distance(&even), 0.0);
        assert_eq!(even.distance(&of(&[(2.0, 1.0)])), 0.5);
        assert_eq!(even.distance(&of(&[(9.0, 1.0)])), 1.0);
    }

    #[test]
    fn the_area_is_how_far_values_have_to_be_moved() {
        let even = of(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 1.0)]);
        assert_eq!(even.mean(), 2.5);
        assert_eq!(even.area(&even), 0.0);
        // 1, 2, 3, 4 to 2, 2, 2, 2: by 1, 0, 1, 2.
        assert_eq!(even.area(&of(&[(2.0, 1.0)])), 1.0);
        // To 3, 4, 5, 6: by 2 each.
        let higher = of(&[(3.0, 1.0), (4.0, 1.0), (5.0, 1.0), (6.0, 1.0)]);
        assert_eq!(higher.area(&even), 2.0);
    }

    #[test]
    fn nothing_held_has_no_distribution() {
        assert_eq!(Distribution::of([]), None);
        assert_eq!(Distribution::of([(1.0, 0.0), (f64::NAN, 1.0)]), None);
    }

    #[test]
    fn a_curve_runs_from_zero_to_one_over_the_whole_axis() {
        let curve = of(&[(10.0, 1.0), (20.0, 3.0)]).curve(0.0, 40.0);
        let points: Vec<(f64, f64)> = curve.iter().map(|p| (p.time_s, p.value)).collect();
        assert_eq!(points[0], (0.0, 0.0));
        assert!(points.contains(&(10.0, 0.25)));
        assert!(points.contains(&(20.0, 1.0)));
        assert_eq!(points[points.len() - 1], (40.0, 1.0));
    }
}
