//! Compares two results: every metric of the flows and links in both, matched by name, and the names found in
//! only one of them.
//!
//! A result of several seeds enters with its means and 95 % intervals. `Display` prints a table, `Serialize`
//! writes JSON.

pub mod table;

use std::path::Path;

use serde::Serialize;

use crate::{FlowSummary, LinkSummary, ResultError, Statistic, Stored, Summary, round};

/// Two results side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first result.
    pub a: Side,
    /// The second result.
    pub b: Side,
    /// Reasons why the two are hard to compare, in words: different accounting or duration, a run that ended
    /// early, warnings about a run's numbers, ….
    pub caveats: Vec<String>,
    /// Flows in both, in the order of `a`.
    pub flows: Vec<Item>,
    /// Links in both, in the order of `a`.
    pub links: Vec<Item>,
    /// What `b` lacks.
    pub only_in_a: Names,
    /// What `a` lacks.
    pub only_in_b: Names,
}

/// Where one of the results comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Side {
    /// The folder, as the caller named it.
    pub path: String,
    /// Title of the experiment.
    pub title: String,
    /// The engine that ran it: `sim` or `lab`.
    pub engine: String,
    /// The seeds; one for a single run.
    pub seeds: Vec<u64>,
}

/// Names of flows and links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Names {
    /// Of flows.
    pub flows: Vec<String>,
    /// Of links.
    pub links: Vec<String>,
}

/// A flow or a link that both results have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// Its name.
    pub name: String,
    /// Congestion control in `a` and in `b`; for flows only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<[Option<String>; 2]>,
    /// The metrics that at least one of the two has.
    pub metrics: Vec<Difference>,
}

/// One metric in both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The metric's name in `result.json`, unit included.
    pub metric: &'static str,
    /// In the first result, if it has the metric.
    pub a: Option<Statistic>,
    /// In the second result, if it has the metric.
    pub b: Option<Statistic>,
    /// Mean of `b` less mean of `a`, if both have it.
    #[serde(with = "round::option")]
    pub absolute: Option<f64>,
    /// `absolute` divided by the mean of `a`; none if that mean is 0.
    #[serde(with = "round::option")]
    pub relative: Option<f64>,
    /// Whether the 95 % intervals overlap; none unless both results have one and at least one is wider than
    /// 0. (A single run has none, and may well lie outside the interval of a mean.)
    pub overlap: Option<bool>,
}

impl Difference {
    fn of(metric: &'static str, a: Option<Statistic>, b: Option<Statistic>) -> Difference {
        let both = a.zip(b);
        let absolute = both.map(|(a, b)| b.mean - a.mean);
        let relative = both
            .filter(|(a, _)| a.mean != 0.0)
            .map(|(a, b)| (b.mean - a.mean) / a.mean);
        let overlap = both.and_then(|(a, b)| {
            let reach = a.interval95? + b.interval95?;
            // Deterministic runs are identical: repeating them proves nothing.
            (reach > 0.0).then(|| (b.mean - a.mean).abs() <= reach)
        });
        Difference {
            metric,
            a,
            b,
            absolute,
            relative,
            overlap,
        }
    }
}

/// Compares the results in two folders; each may hold a run or several seeds.
pub fn compare(a: &Path, b: &Path) -> Result<Comparison, ResultError> {
    let (first, second) = (totals(a)?, totals(b)?);
    let (flows, flows_a, flows_b) = matched(&first.flows, &second.flows, Entry::flow);
    let (links, links_a, links_b) = matched(&first.links, &second.links, Entry::link);
    Ok(Comparison {
        caveats: caveats(&first, &second),
        a: side(a, first),
        b: side(b, second),
        flows,
        links,
        only_in_a: Names {
            flows: flows_a,
            links: links_a,
        },
        only_in_b: Names {
            flows: flows_b,
            links: links_b,
        },
    })
}

/// The totals in a folder; those of a single run without its seed in the texts.
fn totals(folder: &Path) -> Result<Summary, ResultError> {
    Ok(match Stored::read(folder)? {
        Stored::Summary(summary) => summary,
        Stored::Run(run) => Summary {
            incomplete: run.incomplete.clone(),
            warnings: run.warnings.clone(),
            ..Summary::of(&[run]).expect("a run has a summary")
        },
    })
}

fn side(path: &Path, totals: Summary) -> Side {
    Side {
        path: path.display().to_string(),
        title: totals.title,
        engine: totals.engine,
        seeds: totals.seeds,
    }
}

/// A flow or link of one result.
struct Entry<'a> {
    name: &'a str,
    /// For flows: the congestion control, if there is one.
    control: Option<&'a Option<String>>,
    metrics: Vec<(&'static str, Option<Statistic>)>,
}

impl<'a> Entry<'a> {
    fn flow(flow: &'a FlowSummary) -> Entry<'a> {
        Entry {
            name: &flow.name,
            control: Some(&flow.congestion_control),
            metrics: vec![
                ("goodput_mbps", flow.goodput_mbps),
                ("goodput_sd_mbps", flow.goodput_sd_mbps),
                ("bytes", flow.bytes),
                ("completion_s", flow.completion_s),
                ("retransmits", flow.retransmits),
                ("timeouts", flow.timeouts),
                ("rtt_min_ms", flow.rtt_min_ms),
                ("rtt_mean_ms", flow.rtt_mean_ms),
            ],
        }
    }

    fn link(link: &'a LinkSummary) -> Entry<'a> {
        Entry {
            name: &link.name,
            control: None,
            metrics: vec![
                ("utilization", link.utilization),
                ("queue_mean_pkts", link.queue_mean_pkts),
                ("queue_p99_pkts", link.queue_p99_pkts),
                ("drops", link.drops),
            ],
        }
    }
}

/// The entries in both, then the names only in `a` and the names only in `b`.
fn matched<'a, T>(
    a: &'a [T],
    b: &'a [T],
    entry: fn(&'a T) -> Entry<'a>,
) -> (Vec<Item>, Vec<String>, Vec<String>) {
    let [a, b] = [a, b].map(|of| of.iter().map(entry).collect::<Vec<_>>());
    let find = |of: &'_ [Entry<'a>], name: &str| of.iter().position(|entry| entry.name == name);
    let lacking = |of: &[Entry<'_>], other: &[Entry<'a>]| {
        let lacking = of.iter().filter(|entry| find(other, entry.name).is_none());
        lacking.map(|entry| entry.name.to_owned()).collect()
    };
    let both = a
        .iter()
        .filter_map(|first| Some((first, &b[find(&b, first.name)?])));
    let items = both.map(|(first, second)| item(first, second)).collect();
    (items, lacking(&a, &b), lacking(&b, &a))
}

fn item(a: &Entry<'_>, b: &Entry<'_>) -> Item {
    let controls = a.control.zip(b.control);
    Item {
        name: a.name.to_owned(),
        congestion_control: controls.map(|(a, b)| [a.clone(), b.clone()]),
        metrics: a
            .metrics
            .iter()
            .zip(&b.metrics)
            .filter(|((_, a), (_, b))| a.is_some() || b.is_some())
            .map(|(&(metric, a), &(_, b))| Difference::of(metric, a, b))
            .collect(),
    }
}

fn caveats(a: &Summary, b: &Summary) -> Vec<String> {
    let set = |of: &Summary| match &of.overrides[..] {
        [] => "nothing".to_owned(),
        some => some.join(", "),
    };
    let differences = [
        (a.title != b.title).then(|| {
            let (a, b) = (&a.title, &b.title);
            format!("these are different experiments: \"{a}\" and \"{b}\"")
        }),
        (a.overrides != b.overrides).then(|| {
            let (a, b) = (set(a), set(b));
            format!("values were overridden with --set. A: {a}. B: {b}")
        }),
        (a.accounting != b.accounting).then(|| {
            let (a, b) = (&a.accounting, &b.accounting);
            format!("rates are counted differently. A: {a} B: {b}")
        }),
        (a.stack != b.stack).then(|| format!("the TCP stacks differ: {} and {}", a.stack, b.stack)),
        (a.duration_s != b.duration_s)
            .then(|| format!("the runs last {} s and {} s", a.duration_s, b.duration_s)),
        (a.warmup_s != b.warmup_s).then(|| {
            format!(
                "the totals begin at {} s and at {} s",
                a.warmup_s, b.warmup_s
            )
        }),
    ];
    let mut caveats: Vec<String> = differences.into_iter().flatten().collect();
    for (name, side) in [("A", a), ("B", b)] {
        let incomplete = side.incomplete.iter();
        caveats.extend(incomplete.map(|reason| format!("{name} is incomplete: {reason}")));
        caveats.extend(side.warnings.iter().map(|text| format!("{name}: {text}")));
    }
    caveats
}

#[cfg(test)]
mod tests;
