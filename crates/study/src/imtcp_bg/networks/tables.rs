//! The tables of the page: lab and simulator side by side.

use std::collections::BTreeSet;

use super::measures::{Measures, within};
use super::setup::{Cell, Cross, Data, Network};
use super::work::OfEngine;
use crate::page::Section;
use crate::statistics::{mean, median, quantile};
use crate::table::Table;

pub(super) const LABORATORY: &str = "laboratory";
pub(super) const INTERNET: &str = "internet";

/// The backgrounds of Figures 14 and 15, and how the page calls them.
pub(super) const RIVALS: [(&str, &str); 5] = [
    ("reno", "Reno"),
    ("lp", "TCP-LP"),
    ("imtcp_bg", "ImTCP-bg"),
    ("nice", "Nice"),
    ("fairwind", "fairwind"),
];

/// The shortest time for which a table has a row, and what it leaves out of it at its beginning, seconds.
const SPAN_S: f64 = 5.0;
const SETTLING_S: f64 = 3.0;
/// A result is near if it is within this share of the bandwidth.
const NEAR: f64 = 0.1;

/// What has been measured in both engines.
pub(super) struct Measured<'a> {
    pub lab: OfEngine,
    pub sim: OfEngine,
    pub data: &'a Data,
    /// Of the times of the data.
    pub scale: f64,
}

/// A cell of the plan.
pub(super) fn cell(network: &str, cross: Cross, control: &str) -> Cell {
    Cell {
        network: network.to_owned(),
        cross,
        control: control.to_owned(),
        queue: None,
        pair: None,
    }
}

impl Measured<'_> {
    /// The measures of a cell in the lab and in the simulator.
    pub(super) fn both(&self, cell: &Cell) -> [Option<&Measures>; 2] {
        [self.lab.get(cell), self.sim.get(cell)]
    }

    pub(super) fn network(&self, name: &str) -> Option<&Network> {
        self.data.networks.get(name)
    }

    /// The spans of a network's rows, seconds as they were run.
    fn spans(&self, network: &Network, cross: Cross) -> Vec<(f64, f64)> {
        let spans = network.spans(cross, SPAN_S).into_iter();
        spans
            .map(|(from, to)| (from * self.scale, to * self.scale))
            .collect()
    }

    /// A span without its beginning.
    fn settled(&self, (from, to): (f64, f64)) -> (f64, f64) {
        (from + SETTLING_S * self.scale, to)
    }

    /// When all connections of the network are there, without the beginning.
    fn full(&self, network: &str) -> Option<(f64, f64)> {
        let spans = self.spans(self.network(network)?, Cross::Tcp);
        let longest = spans
            .into_iter()
            .max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
        longest.map(|span| self.settled(span))
    }
}

/// All tables whose runs have been made.
pub(super) fn all(measured: &Measured<'_>) -> Vec<Section> {
    let tables = [
        (
            "figure 12",
            accuracy(measured, LABORATORY, &[Cross::Udp, Cross::Tcp]),
        ),
        ("figure 13", figure_13(measured)),
        ("figure 14", figure_14(measured)),
        ("figure 15", figure_15(measured)),
        (
            "figures 14 and 15 over the buffer",
            over_the_buffer(measured),
        ),
        ("table 4", table_4(measured)),
        ("figure 17", accuracy(measured, INTERNET, &[Cross::Udp])),
        ("figure 18", figure_18(measured)),
        ("figure 19", figure_19(measured)),
    ];
    let made = tables.into_iter().filter(|(_, table)| !table.is_empty());
    let mut sections: Vec<Section> = made.map(|(name, table)| table.section(name)).collect();
    if !measured.lab.is_empty() {
        sections.push(Section::text("disturbed runs", disturbed(&measured.lab)));
    }
    sections
}

/// A row for each run.
pub(super) fn runs(measured: &Measured<'_>, table: &mut Table) {
    for (engine, all) in [("lab", &measured.lab), ("sim", &measured.sim)] {
        for (cell, run) in all {
            let background = mean(run.background_mbps.iter().copied());
            let cross = mean(run.cross_mbps.iter().copied());
            let rate = |mbps: f64| match mbps.is_finite() {
                true => format!("{mbps:.3}"),
                false => String::new(),
            };
            let queue = mean(run.queue_pkts.iter().map(|packets| *packets as f64));
            table.row([
                engine.to_owned(),
                cell.name(),
                "1".to_owned(),
                rate(
                    [background, cross]
                        .into_iter()
                        .filter(|rate| rate.is_finite())
                        .sum(),
                ),
                rate(background),
                String::new(),
                format!("{queue:.2}"),
                run.drops.to_string(),
            ]);
        }
    }
}

/// What the lab said of its runs.
fn disturbed(lab: &OfEngine) -> String {
    let warned = lab.iter().filter(|(_, run)| !run.warnings.is_empty());
    let rows: Vec<String> = warned
        .map(|(cell, run)| format!("- {}: {}\n", cell.name(), run.warnings.join("; ")))
        .collect();
    match rows.is_empty() {
        true => format!("The lab warned of none of its {} runs.\n", lab.len()),
        false => format!(
            "The lab warned of {} of its {} runs:\n\n{}",
            rows.len(),
            lab.len(),
            rows.concat()
        ),
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    let value = value.filter(|value| value.is_finite());
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn seconds((from, to): (f64, f64)) -> String {
    format!("{from:.0} to {to:.0}")
}

fn any(both: &[Option<&Measures>]) -> bool {
    both.iter().any(Option::is_some)
}

/// How near ImTCP's results are to what was left.
struct Accuracy {
    left: f64,
    results: f64,
    error: f64,
    ninth: f64,
    /// Seconds from the change of the datagrams' rate to the first result that is near.
    to_follow: Option<f64>,
}

impl Accuracy {
    fn of(
        network: &Network,
        cross: Cross,
        run: &Measures,
        span: (f64, f64),
        settled: (f64, f64),
        scale: f64,
    ) -> Option<Accuracy> {
        let left = |at: f64| match cross {
            Cross::Udp => network.left_by_datagrams(at / scale),
            Cross::Tcp => run.left(network.bandwidth_mbps, at),
        };
        let of_span = run
            .results
            .iter()
            .filter(|(at, _)| (span.0..span.1).contains(at));
        let all: Vec<(f64, f64)> = of_span.copied().collect();
        let is_near =
            |(at, mbps): &&(f64, f64)| (mbps - left(*at)).abs() <= NEAR * network.bandwidth_mbps;
        let near = all.iter().find(is_near).map(|(at, _)| at - span.0);
        let late = all.iter().filter(|(at, _)| *at >= settled.0);
        let late: Vec<(f64, f64)> = late.copied().collect();
        let errors: Vec<f64> = late
            .iter()
            .map(|(at, mbps)| (mbps - left(*at)).abs())
            .collect();
        Some(Accuracy {
            left: mean(late.iter().map(|(at, _)| left(*at))),
            results: median(late.iter().map(|(_, mbps)| *mbps).collect())?,
            error: median(errors.clone())?,
            ninth: quantile(errors, 0.9)?,
            to_follow: near.filter(|_| cross == Cross::Udp),
        })
    }
}

/// Figures 12 and 17.
fn accuracy(measured: &Measured<'_>, network: &str, crosses: &[Cross]) -> Table {
    let columns = "left, Mbit/s | median result | median error | nine tenths within | s to follow";
    let mut table = Table::new(&format!(
        "cross traffic | seconds | lab: {columns} | simulator: {columns}"
    ));
    for &cross in crosses {
        let both = measured.both(&cell(network, cross, "imtcp"));
        let Some(network) = measured.network(network).filter(|_| any(&both)) else {
            continue;
        };
        for span in measured.spans(network, cross) {
            let name = match cross {
                Cross::Udp => "UDP",
                Cross::Tcp => "TCP",
            };
            let settled = measured.settled(span);
            let mut row = vec![name.to_owned(), seconds(span)];
            for run in both {
                let of = run.and_then(|run| {
                    Accuracy::of(network, cross, run, span, settled, measured.scale)
                });
                let value = |of_it: fn(&Accuracy) -> f64| number(of.as_ref().map(of_it), 1);
                row.extend([
                    value(|of| of.left),
                    value(|of| of.results),
                    value(|of| of.error),
                    value(|of| of.ninth),
                    number(of.as_ref().and_then(|of| of.to_follow), 2),
                ]);
            }
            table.row(row);
        }
    }
    table
}

/// What a run has of something in both engines, after each other.
fn of_both(
    both: &[Option<&Measures>; 2],
    digits: usize,
    of: impl Fn(&Measures) -> f64,
) -> [String; 2] {
    both.map(|run| number(run.map(&of), digits))
}

fn figure_13(measured: &Measured<'_>) -> Table {
    let mut table = Table::new("while all ten are there | lab | simulator");
    let both = measured.both(&cell(LABORATORY, Cross::Tcp, "imtcp_bg"));
    let Some(span) = measured.full(LABORATORY).filter(|_| any(&both)) else {
        return table;
    };
    let share = |run: &Measures, is_so: fn(&super::measures::Moment) -> bool| {
        let so = run.moments_in(span).filter(|moment| is_so(moment)).count();
        100.0 * so as f64 / run.moments_in(span).count() as f64
    };
    let rows: [(&str, [String; 2]); 5] = [
        (
            "mean window, packets",
            of_both(&both, 1, |run| {
                mean(run.moments_in(span).map(|moment| moment.window))
            }),
        ),
        (
            "mean upper limit of the window, packets",
            of_both(&both, 1, |run| {
                mean(run.moments_in(span).filter_map(|moment| moment.limit))
            }),
        ),
        (
            "time in which the window is within its limit or a packet above, %",
            of_both(&both, 1, |run| {
                share(run, |moment| {
                    moment
                        .limit
                        .is_none_or(|limit| moment.window <= limit + 1.0)
                })
            }),
        ),
        (
            "mean round-trip time, ms",
            of_both(&both, 2, |run| {
                mean(run.moments_in(span).map(|moment| moment.rtt_ms))
            }),
        ),
        (
            "time in which it is above its threshold, %",
            of_both(&both, 1, |run| {
                share(run, |moment| moment.rtt_ms > moment.threshold_ms)
            }),
        ),
    ];
    for (name, [lab, sim]) in rows {
        table.row([name.to_owned(), lab, sim]);
    }
    table
}

/// The mean rate of a span.
fn rate(values: &[f64], span: (f64, f64)) -> f64 {
    mean(within(values, span).iter().copied())
}

fn figure_14(measured: &Measured<'_>) -> Table {
    let columns =
        "Mbit/s | of what the ten leave alone | round-trip time, ms | mean queue, packets";
    let mut table = Table::new(&format!(
        "background | lab: {columns} | simulator: {columns}"
    ));
    let Some(span) = measured.full(LABORATORY) else {
        return table;
    };
    let alone = measured.both(&cell(LABORATORY, Cross::Tcp, "none"));
    let bandwidth = measured
        .network(LABORATORY)
        .map_or(0.0, |network| network.bandwidth_mbps);
    for (control, name) in RIVALS {
        let both = measured.both(&cell(LABORATORY, Cross::Tcp, control));
        if !any(&both) {
            continue;
        }
        let mut row = vec![name.to_owned()];
        for (run, alone) in both.into_iter().zip(alone) {
            let taken = run.map(|run| rate(&run.background_mbps, span));
            let left = alone.map(|alone| bandwidth - rate(&alone.cross_mbps, span));
            let share = taken.zip(left).map(|(taken, left)| taken / left);
            let rtt = run.map(|run| mean(run.moments_in(span).map(|moment| moment.rtt_ms)));
            row.extend([
                number(taken, 1),
                number(share, 2),
                number(rtt, 1),
                number(run.map(|run| run.queue_in(span)), 1),
            ]);
        }
        table.row(row);
    }
    table
}

fn figure_15(measured: &Measured<'_>) -> Table {
    let columns = "all ten, Mbit/s | of what they have alone";
    let mut table = Table::new(&format!(
        "background | lab: {columns} | simulator: {columns}"
    ));
    let Some(span) = measured.full(LABORATORY) else {
        return table;
    };
    let of = |control: &str| measured.both(&cell(LABORATORY, Cross::Tcp, control));
    let alone = of("none");
    for (control, name) in std::iter::once(("none", "none")).chain(RIVALS) {
        let both = of(control);
        if !any(&both) {
            continue;
        }
        let mut row = vec![name.to_owned()];
        for (run, alone) in both.into_iter().zip(alone) {
            let [own, alone] = [run, alone].map(|run| run.map(|run| rate(&run.cross_mbps, span)));
            let share = own.zip(alone).map(|(own, alone)| own / alone);
            row.extend([number(own, 1), number(share, 2)]);
        }
        table.row(row);
    }
    table
}

/// Figures 14 and 15 with other queues, in the simulator.
fn over_the_buffer(measured: &Measured<'_>) -> Table {
    let names = RIVALS.map(|(_, name)| name).join(" | ");
    let mut table = Table::new(&format!("queue, packets | | {names}"));
    let Some(span) = measured.full(LABORATORY) else {
        return table;
    };
    let bandwidth = measured
        .network(LABORATORY)
        .map_or(0.0, |network| network.bandwidth_mbps);
    let queues: BTreeSet<u64> = measured.sim.keys().filter_map(|cell| cell.queue).collect();
    for queue in queues {
        let of = |control: &str| {
            let cell = Cell {
                queue: Some(queue),
                ..cell(LABORATORY, Cross::Tcp, control)
            };
            measured.sim.get(&cell)
        };
        let Some(alone) = of("none").map(|alone| rate(&alone.cross_mbps, span)) else {
            continue;
        };
        let taken = |run: &Measures| rate(&run.background_mbps, span) / (bandwidth - alone);
        let kept = |run: &Measures| rate(&run.cross_mbps, span) / alone;
        let mut row = vec![queue.to_string(), "of what the ten leave alone".to_owned()];
        row.extend(RIVALS.map(|(control, _)| number(of(control).map(taken), 2)));
        table.row(row);
        let mut row = vec![String::new(), "the ten, of what they have alone".to_owned()];
        row.extend(RIVALS.map(|(control, _)| number(of(control).map(kept), 2)));
        table.row(row);
    }
    table
}

fn table_4(measured: &Measured<'_>) -> Table {
    let mut table = Table::new(
        "pairs | ImTCP: mean load, % of a processor | Mbit/s | TCP Reno: mean load | Mbit/s | \
         load of ImTCP to that of TCP Reno",
    );
    let pairs: BTreeSet<u64> = measured.lab.keys().filter_map(|cell| cell.pair).collect();
    let of = |control: &str, pair: u64| {
        let cell = Cell {
            pair: Some(pair),
            ..cell(LABORATORY, Cross::Tcp, control)
        };
        measured.lab.get(&cell)
    };
    let both = |pair: &u64| Some([of("imtcp", *pair)?, of("reno", *pair)?]);
    let both: Vec<[&Measures; 2]> = pairs.iter().filter_map(both).collect();
    if both.is_empty() {
        return table;
    }
    let middle = |values: Vec<f64>, digits: usize| {
        let texts = [0.0, 0.5, 1.0].map(|share| number(quantile(values.clone(), share), digits));
        let [least, middle, most] = texts;
        format!("{middle} ({least} to {most})")
    };
    let load = |which: usize| {
        both.iter()
            .map(|pair| 100.0 * pair[which].processors)
            .collect()
    };
    let mbps = |which: usize| {
        let of_run = |pair: &[&Measures; 2]| {
            let all = [&pair[which].background_mbps, &pair[which].cross_mbps];
            all.map(|rates| mean(rates.iter().copied())).iter().sum()
        };
        both.iter().map(of_run).collect()
    };
    let ratios = both
        .iter()
        .map(|[imtcp, reno]| imtcp.processors / reno.processors);
    table.row([
        both.len().to_string(),
        middle(load(0), 1),
        middle(mbps(0), 1),
        middle(load(1), 1),
        middle(mbps(1), 1),
        middle(ratios.collect(), 3),
    ]);
    table
}

fn figure_18(measured: &Measured<'_>) -> Table {
    let columns = "cross traffic, Mbit/s | ImTCP-bg | both together | median result";
    let mut table = Table::new(&format!("seconds | lab: {columns} | simulator: {columns}"));
    by_span(measured, &mut table, |run, span| {
        let [cross, background] =
            [&run.cross_mbps, &run.background_mbps].map(|all| rate_or_nothing(all, span));
        let results = run
            .results
            .iter()
            .filter(|(at, _)| (span.0..span.1).contains(at));
        vec![
            number(Some(cross), 1),
            number(Some(background), 1),
            number(Some(cross + background), 1),
            number(median(results.map(|(_, mbps)| *mbps).collect()), 1),
        ]
    });
    table
}

/// The mean rate of a span; 0 if nothing has been sent by then.
fn rate_or_nothing(values: &[f64], span: (f64, f64)) -> f64 {
    Some(rate(values, span))
        .filter(|rate| rate.is_finite())
        .unwrap_or(0.0)
}

fn figure_19(measured: &Measured<'_>) -> Table {
    let columns = "mean round-trip time, ms | nine tenths within | greatest | mean queue, packets";
    let mut table = Table::new(&format!("seconds | lab: {columns} | simulator: {columns}"));
    by_span(measured, &mut table, |run, span| {
        let all: Vec<f64> = run.moments_in(span).map(|moment| moment.rtt_ms).collect();
        vec![
            number(Some(mean(all.iter().copied())), 1),
            number(quantile(all.clone(), 0.9), 1),
            number(all.into_iter().reduce(f64::max), 1),
            number(Some(run.queue_in(span)), 1),
        ]
    });
    table
}

/// A row for each span beside the connections that come and go, with four cells for each engine.
fn by_span(
    measured: &Measured<'_>,
    table: &mut Table,
    cells: impl Fn(&Measures, (f64, f64)) -> Vec<String>,
) {
    let both = measured.both(&cell(INTERNET, Cross::Tcp, "imtcp_bg"));
    let Some(network) = measured.network(INTERNET).filter(|_| any(&both)) else {
        return;
    };
    for span in measured.spans(network, Cross::Tcp) {
        let settled = measured.settled(span);
        let of = |run: Option<&Measures>| match run {
            Some(run) => cells(run, settled),
            None => vec!["-".to_owned(); 4],
        };
        let mut row = vec![seconds(span)];
        row.extend(both.into_iter().flat_map(of));
        table.row(row);
    }
}

#[cfg(test)]
mod tests {
    use super::super::measures::Moment;
    use super::super::setup::{Buffer, Group, Step};
    use super::*;

    fn data() -> Data {
        let step = |from_s, mbps| Step { from_s, mbps };
        let network = Network {
            bandwidth_mbps: 100.0,
            rtt_ms: 30.0,
            queue_pkts: 250,
            receive_buffer: Buffer { lab: 1, sim: 1 },
            udp_s: 20.0,
            udp: vec![step(0.0, 30.0), step(10.0, 70.0)],
            tcp_s: 20.0,
            tcp: vec![Group {
                connections: 1,
                from_s: 2.0,
                every_s: 0.0,
                stay_s: 10.0,
            }],
        };
        Data {
            networks: [(LABORATORY.to_owned(), network)].into(),
        }
    }

    fn of_rates(background: f64, cross: f64) -> Measures {
        Measures {
            background_mbps: vec![background; 20],
            cross_mbps: vec![cross; 20],
            moments: vec![Moment {
                seconds: 6.0,
                rtt_ms: 32.0,
                ..Moment::default()
            }],
            queue_pkts: vec![7; 200],
            processors: background / 100.0,
            ..Measures::default()
        }
    }

    fn tcp(control: &str) -> Cell {
        cell(LABORATORY, Cross::Tcp, control)
    }

    fn measured(data: &Data, lab: OfEngine) -> Measured<'_> {
        Measured {
            lab,
            sim: OfEngine::new(),
            data,
            scale: 1.0,
        }
    }

    #[test]
    fn shares_are_of_what_the_cross_traffic_has_and_leaves_alone() {
        let data = data();
        let lab = [
            (tcp("none"), of_rates(0.0, 40.0)),
            (tcp("reno"), of_rates(75.0, 20.0)),
        ];
        let measured = measured(&data, lab.into());
        let table = figure_14(&measured).markdown();
        let row = "| Reno | 75.0 | 1.25 | 32.0 | 7.0 | - | - | - | - |\n";
        assert!(table.ends_with(row), "{table}");
        let table = figure_15(&measured).markdown();
        let rows = "| none | 40.0 | 1.00 | - | - |\n| Reno | 20.0 | 0.50 | - | - |\n";
        assert!(table.ends_with(rows), "{table}");
    }

    #[test]
    fn errors_are_from_what_datagrams_leave_once_the_results_have_settled() {
        let data = data();
        let run = Measures {
            // 70 Mbit/s are left until 10 s, then 30. The first results after the change are too old to count.
            results: vec![
                (1.0, 90.0),
                (4.0, 72.0),
                (5.0, 69.0),
                (9.0, 80.0),
                (10.5, 70.0),
                (11.5, 39.0),
                (14.0, 31.0),
            ],
            ..Measures::default()
        };
        let lab = [(cell(LABORATORY, Cross::Udp, "imtcp"), run)];
        let table = accuracy(&measured(&data, lab.into()), LABORATORY, &[Cross::Udp]).markdown();
        let rows = "| UDP | 0 to 10 | 70.0 | 72.0 | 2.0 | 10.0 | 4.00 | - | - | - | - | - |\n\
                    | UDP | 10 to 20 | 30.0 | 31.0 | 1.0 | 1.0 | 1.50 | - | - | - | - | - |\n";
        assert!(table.ends_with(rows), "{table}");
    }

    #[test]
    fn loads_are_medians_of_pairs() {
        let data = data();
        let pair = |control, pair, load| {
            let cell = Cell {
                pair: Some(pair),
                ..tcp(control)
            };
            (cell, of_rates(load, 0.0))
        };
        let lab = [
            pair("imtcp", 1, 60.0),
            pair("reno", 1, 50.0),
            pair("imtcp", 2, 44.0),
            pair("reno", 2, 40.0),
            pair("imtcp", 3, 50.0),
            pair("reno", 3, 50.0),
            // Without the other.
            pair("imtcp", 4, 90.0),
        ];
        let table = table_4(&measured(&data, lab.into())).markdown();
        let row = "| 3 | 50.0 (44.0 to 60.0) | 50.0 (44.0 to 60.0) | 50.0 (40.0 to 50.0) | 50.0 (40.0 to 50.0) | \
                   1.100 (1.000 to 1.200) |\n";
        assert!(table.ends_with(row), "{table}");
    }
}
