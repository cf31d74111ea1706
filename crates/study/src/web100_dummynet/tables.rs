//! The tables of the page: the thesis' values and, below or beside them, those of each engine.

use fairwind_result::series::columns::FLOW;
use fairwind_result::series::reader::scan;
use fairwind_result::{RunResult, Statistic};

use super::bench::{Bench, Done};
use super::series::averages;
use crate::Error;
use crate::page::Section;
use crate::plan::{Row, TablePlan};
use crate::table::Table;

/// What the plan has tables of.
pub(crate) const KINDS: &[&str] = &["pairs", "single", "overseas", "convergence", "weights"];

/// The plan's tables, as far as their runs have been made.
pub(crate) fn all(bench: &Bench<'_>) -> Result<Vec<Section>, Error> {
    let mut sections = Vec::new();
    for plan in &bench.task.plan.tables {
        let table = match plan.kind.as_str() {
            "pairs" => pairs(bench, plan)?,
            "single" => by_engine(bench, plan, SINGLE, 2, |done, _| single(done))?,
            "overseas" => overseas(bench, plan)?,
            "convergence" => by_engine(bench, plan, CONVERGENCE, 3, |done, _| converged(done))?,
            _ => by_engine(bench, plan, WEIGHTS, 2, weighted_queue)?,
        };
        if !table.is_empty() {
            sections.push(table.section(&plan.section));
        }
    }
    Ok(sections)
}

/// The totals of every flow in every run.
pub(crate) fn runs(bench: &Bench<'_>) -> Table {
    let mut table = Table::new(
        "engine | experiment | seed | flow | congestion_control | goodput_mbps | goodput_sd_mbps | \
         retransmits | timeouts | packets_lost | rtt_mean_ms",
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
    for run in &bench.task.runs {
        for done in bench.find(&run.name()).unwrap_or_default() {
            for result in &done.runs {
                for flow in &result.flows {
                    table.row([
                        done.engine.name().to_owned(),
                        run.name(),
                        result.seed.to_string(),
                        flow.name.clone(),
                        flow.congestion_control.clone().unwrap_or_default(),
                        number(Some(flow.goodput_mbps)),
                        number(flow.goodput_sd_mbps),
                        flow.retransmits.to_string(),
                        flow.timeouts.to_string(),
                        flow.packets_lost.to_string(),
                        number(flow.rtt_mean_ms),
                    ]);
                }
            }
        }
    }
    table
}

/// The rows whose runs have been made, each with its run in every engine.
fn made<'a>(
    bench: &'a Bench<'_>,
    plan: &'a TablePlan,
) -> impl Iterator<Item = (&'a Row, &'a [Done])> {
    let rows = plan.rows.iter();
    rows.filter_map(move |row| Some((row, bench.find(&row.run)?)))
}

/// A cell of the plan; empty if the plan has fewer.
fn said(row: &Row, at: usize) -> String {
    row.cells.get(at).cloned().unwrap_or_default()
}

/// A line for each row and engine: what the plan says, so many cells and only in the first line of a row, the
/// engine, and what came out there in the row of this number.
fn by_engine(
    bench: &Bench<'_>,
    plan: &TablePlan,
    columns: &str,
    said_cells: usize,
    ours: impl Fn(&Done, usize) -> Result<Vec<String>, Error>,
) -> Result<Table, Error> {
    let mut table = Table::new(columns);
    for (number, (row, all)) in made(bench, plan).enumerate() {
        let mut first: Vec<String> = (0..said_cells).map(|at| said(row, at)).collect();
        for done in all {
            let engine = vec![done.engine.name().to_owned()];
            table.row([first.clone(), engine, ours(done, number)?].concat());
            first.fill(String::new());
        }
    }
    Ok(table)
}

/// Of single connections.
const SINGLE: &str = "figure | the text says, Mbit/s | | mean goodput Mbit/s | SD of 1-s samples | \
                      1-s samples, least to most | retransmits | timeouts";

fn single(done: &Done) -> Result<Vec<String>, Error> {
    let count = |metric| interval(&done.over(0, metric), 0);
    Ok(vec![
        goodput(done, 0),
        deviation(done, 0),
        range(done.per_second(0)?, 1),
        count(|f| f.retransmits as f64),
        count(|f| f.timeouts as f64),
    ])
}

/// A column for each engine, of the run of the first row.
fn overseas(bench: &Bench<'_>, plan: &TablePlan) -> Result<Table, Error> {
    let done = made(bench, plan).next().map_or(&[][..], |(_, done)| done);
    let names: Vec<&str> = done.iter().map(|done| done.engine.name()).collect();
    let mut table = Table::new(&format!(" | the thesis | {}", names.join(" | ")));
    let columns: Vec<[String; 7]> = done.iter().map(overseas_column).collect::<Result<_, _>>()?;
    if columns.is_empty() {
        return Ok(table);
    }
    for (at, row) in plan.rows.iter().enumerate() {
        let mut cells = vec![said(row, 0), said(row, 1)];
        let of_row = columns.iter().map(|column| column.get(at).cloned());
        cells.extend(of_row.map(Option::unwrap_or_default));
        table.row(&cells);
    }
    Ok(table)
}

/// In the order of the plan's rows: average throughput, times of losses, largest window, range of the
/// threshold, of the round-trip time and of the timeout, largest window of the receiver.
fn overseas_column(done: &Done) -> Result<[String; 7], Error> {
    let run = &done.runs[0];
    let flow = &run.flows[0];
    let columns = [
        "CongSignals",
        "CurCwnd",
        "CurSsthresh",
        "SmoothedRTT",
        "CurRTO",
        "CurRwinRcvd",
    ];
    let mut signals = 0;
    let mut losses = Vec::new();
    let [mut cwnd, mut threshold, mut rtt, mut rto, mut rwin] = [const { Vec::new() }; 5];
    let path = done.series(run.seed);
    scan(&path, FLOW, &[&flow.name], &columns, |row| {
        let value = |i: usize| row.values[i].map(|v| v as f64);
        if row.values[0].is_some_and(|now| now > signals) {
            signals = row.values[0].unwrap_or_default();
            losses.push(format!("{:.1}", row.time_s));
        }
        cwnd.extend(value(1));
        threshold.extend(value(2));
        if row.values[3].is_none() {
            return;
        }
        rtt.extend(value(3).map(|us| us / 1e3));
        rto.extend(value(4).map(|us| us / 1e3));
        rwin.extend(value(5));
    })?;
    Ok([
        format!("{:.2}", flow.goodput_mbps),
        losses.join(", "),
        most(&cwnd),
        range(threshold, 0),
        range(rtt, 0),
        range(rto, 0),
        most(&rwin),
    ])
}

fn pairs(bench: &Bench<'_>, plan: &TablePlan) -> Result<Table, Error> {
    let mut table =
        Table::new("connections | | mean Mbit/s | SD Mbit/s, 0.1-s samples | 1-s samples");
    for (row, all) in made(bench, plan) {
        let thesis = [&said(row, 0), "thesis", &said(row, 1), &said(row, 2), ""];
        table.row(thesis);
        for done in all {
            let tenth = [0, 1].map(|flow| done.deviation(flow, 0.1));
            let [a, b] = tenth.map(|tenth| Ok::<_, Error>(interval(&tenth?, 2)));
            table.row([
                "",
                done.engine.name(),
                &both(|flow| goodput(done, flow)),
                &format!("{} / {}", a?, b?),
                &both(|flow| deviation(done, flow)),
            ]);
        }
    }
    Ok(table)
}

/// Of the averages of two connections.
const CONVERGENCE: &str = "figure | queue | the text says | | within 6 to 8 Mbit/s from 50 s on, runs | \
                           apart by, Mbit/s, at 50, 100, 150, 200, 300 s | mean Mbit/s | drops";

fn converged(done: &Done) -> Result<Vec<String>, Error> {
    let (within, apart) = within_and_apart(done)?;
    let drops = |run: &RunResult| run.links.iter().map(|link| link.drops as f64).sum();
    Ok(vec![
        format!("{within} of {}", done.runs.len()),
        apart,
        both(|flow| goodput(done, flow)),
        interval(&Statistic::of(done.runs.iter().map(drops)), 0),
    ])
}

/// In how many runs both averages stay within 6 to 8 Mbit/s from 50 s on, and how far apart they are over
/// time.
fn within_and_apart(done: &Done) -> Result<(usize, String), Error> {
    let mut within = 0;
    let mut apart = vec![Vec::new(); 5];
    for run in &done.runs {
        let averages: Vec<Vec<f64>> = (0..2)
            .map(|flow| done.throughput(run, flow, 1.0).map(|s| averages(&s)))
            .collect::<Result<_, _>>()?;
        let inside =
            |average: &Vec<f64>| average[49..].iter().all(|mbps| (6.0..=8.0).contains(mbps));
        within += usize::from(averages.iter().all(inside));
        for (at, second) in [50, 100, 150, 200, 300].into_iter().enumerate() {
            apart[at].push((averages[0][second - 1] - averages[1][second - 1]).abs());
        }
    }
    let apart: Vec<String> = apart
        .into_iter()
        .map(|values| format!("{:.2}", Statistic::of(values).map_or(f64::NAN, |s| s.mean)))
        .collect();
    Ok((within, apart.join(", ")))
}

/// Of connections in weighted queues.
const WEIGHTS: &str = "connection | the text says, Mbit/s | | mean Mbit/s | SD Mbit/s";

/// A row of the plan for each flow of its run.
fn weighted_queue(done: &Done, flow: usize) -> Result<Vec<String>, Error> {
    Ok(vec![goodput(done, flow), deviation(done, flow)])
}

/// The least and the greatest value.
fn range(values: Vec<f64>, digits: usize) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.into_iter().fold(f64::NEG_INFINITY, f64::max);
    format!("{least:.digits$} to {most:.digits$}")
}

fn most(values: &[f64]) -> String {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{most:.0}")
}

/// Goodput of a flow, Mbit/s.
fn goodput(done: &Done, flow: usize) -> String {
    interval(&done.over(flow, |f| f.goodput_mbps), 2)
}

/// Standard deviation of its samples of a second, Mbit/s.
fn deviation(done: &Done, flow: usize) -> String {
    let deviation = done.over(flow, |f| f.goodput_sd_mbps.unwrap_or(f64::NAN));
    interval(&deviation, 2)
}

/// The cell of two flows.
fn both(of: impl Fn(usize) -> String) -> String {
    format!("{} / {}", of(0), of(1))
}

fn interval(statistic: &Option<Statistic>, digits: usize) -> String {
    let Some(Statistic {
        mean, interval95, ..
    }) = statistic
    else {
        return "-".to_owned();
    };
    let half = interval95.map(|half| format!(" ± {half:.digits$}"));
    format!("{mean:.digits$}{}", half.unwrap_or_default())
}
