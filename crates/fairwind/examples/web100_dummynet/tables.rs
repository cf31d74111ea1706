//! The tables of the page: the thesis' values and, below or beside them, those of each engine.

use std::fmt::Write;

use fairwind_result::series::columns::FLOW;
use fairwind_result::series::reader::scan;
use fairwind_result::{FlowResult, RunResult, Statistic};

use crate::Error;
use crate::bench::{Bench, Done, Variant};
use crate::page::Section;
use crate::series::{Range, averages};

/// All tables that have a row.
pub fn all(bench: &Bench) -> Result<Vec<Section>, Error> {
    let tables = [
        table_4_1(bench)?,
        single_connections(bench)?,
        overseas(bench)?,
        average_throughput(bench)?,
        weighted_queues(bench)?,
    ];
    Ok(tables.into_iter().flatten().collect())
}

/// A table that grows row by row.
struct Table {
    name: &'static str,
    markdown: String,
    rows: usize,
}

impl Table {
    fn new(name: &'static str, columns: &str) -> Table {
        let rule = "|---".repeat(columns.matches('|').count() - 1);
        Table {
            name,
            markdown: format!("{columns}\n{rule}|\n"),
            rows: 0,
        }
    }

    fn row(&mut self, cells: &[String]) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.markdown, "| {} |", cells.join(" | "));
        self.rows += 1;
    }

    fn section(self) -> Option<Section> {
        (self.rows > 0).then_some(Section {
            name: self.name,
            markdown: self.markdown,
        })
    }
}

fn single_connections(bench: &Bench) -> Result<Option<Section>, Error> {
    let mut table = Table::new(
        "figures 4.1 to 4.8",
        "| figure | the text says, Mbit/s | | mean goodput Mbit/s | SD of 1-s samples | \
         1-s samples, least to most | retransmits | timeouts |",
    );
    let rows: [(&str, Variant, &str); 12] = [
        ("figure-4.1", Variant::AsSaid, "7 to 10"),
        ("figure-4.2", Variant::AsSaid, "close to 15"),
        (
            "figure-4.3",
            Variant::AsSaid,
            "close to 15, much smoother than 4.2",
        ),
        ("figure-4.4", Variant::AsSaid, "15, spikes at timeouts"),
        ("figure-4.5", Variant::AsSaid, "60, more timeouts than 4.4"),
        ("figure-4.6", Variant::AsSaid, "slightly more than 10"),
        ("figure-4.7", Variant::AsSaid, "about 8"),
        ("figure-4.8", Variant::AsSaid, "less than 2"),
        ("figure-4.1", Variant::Rtt10Ms, "7 to 10"),
        ("figure-4.6", Variant::Rtt10Ms, "slightly more than 10"),
        ("figure-4.7", Variant::Rtt10Ms, "about 8"),
        ("figure-4.8", Variant::Rtt10Ms, "less than 2"),
    ];
    for (file, variant, says) in rows.into_iter().filter(|(file, ..)| bench.wants(file)) {
        let figure = match variant {
            Variant::AsSaid => file.replace("figure-", ""),
            Variant::Rtt10Ms => format!("{}, 10 ms RTT", file.replace("figure-", "")),
        };
        for (at, done) in bench.run(file, variant)?.iter().enumerate() {
            let seconds = Range::of(&done.per_second(0)?);
            let flow = |metric: fn(&FlowResult) -> f64| done.over(0, metric);
            table.row(&[
                first(at, &figure),
                first(at, says),
                done.engine.name().to_owned(),
                interval(&flow(|f| f.goodput_mbps), 2),
                interval(&flow(|f| f.goodput_sd_mbps.unwrap_or(f64::NAN)), 2),
                format!("{:.1} to {:.1}", seconds.least, seconds.most),
                interval(&flow(|f| f.retransmits as f64), 0),
                interval(&flow(|f| f.timeouts as f64), 0),
            ]);
        }
    }
    Ok(table.section())
}

fn overseas(bench: &Bench) -> Result<Option<Section>, Error> {
    const FILE: &str = "figure-4.9-4.12";
    if !bench.wants(FILE) {
        return Ok(None);
    }
    let done = bench.run(FILE, Variant::AsSaid)?;
    let names: Vec<&str> = done.iter().map(|done| done.engine.name()).collect();
    let columns = format!("| | the thesis | {} |", names.join(" | "));
    let mut table = Table::new("figures 4.9 to 4.12", &columns);
    let columns = done.iter().map(overseas_column);
    let columns: Vec<[String; 7]> = columns.collect::<Result<_, _>>()?;
    let rows = [
        ("average throughput, Mbit/s", "very close to 5"),
        ("losses at, s", "about 30 and 75"),
        ("largest CurCwnd, bytes", "axis to 350000"),
        ("CurSsthresh, bytes", "axis to 350000"),
        ("SmoothedRTT, ms", "axis from 200, RTT 240"),
        ("CurRTO, ms", "axis to 750"),
        ("largest window of the receiver, bytes", ""),
    ];
    for (at, (what, says)) in rows.into_iter().enumerate() {
        let mut cells = vec![what.to_owned(), says.to_owned()];
        cells.extend(columns.iter().map(|column| column[at].clone()));
        table.row(&cells);
    }
    Ok(table.section())
}

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
    let (mut cwnd, mut rto, mut rwin) = (Range::NONE, Range::NONE, Range::NONE);
    let (mut threshold, mut rtt) = (Range::NONE, Range::NONE);
    let path = done.series(run.seed);
    scan(&path, FLOW, &[&flow.name], &columns, |row| {
        let value = |i: usize| row.values[i].map(|v| v as f64);
        if row.values[0].is_some_and(|now| now > signals) {
            signals = row.values[0].unwrap_or_default();
            losses.push(format!("{:.1}", row.time_s));
        }
        cwnd.see(value(1));
        threshold.see(value(2));
        if row.values[3].is_none() {
            return;
        }
        rtt.see(value(3).map(|us| us / 1e3));
        rto.see(value(4).map(|us| us / 1e3));
        rwin.see(value(5));
    })?;
    Ok([
        format!("{:.2}", flow.goodput_mbps),
        losses.join(", "),
        format!("{:.0}", cwnd.most),
        format!("{:.0} to {:.0}", threshold.least, threshold.most),
        format!("{:.0} to {:.0}", rtt.least, rtt.most),
        format!("{:.0} to {:.0}", rto.least, rto.most),
        format!("{:.0}", rwin.most),
    ])
}

fn table_4_1(bench: &Bench) -> Result<Option<Section>, Error> {
    let mut table = Table::new(
        "table 4.1",
        "| connections | | mean Mbit/s | SD Mbit/s, 0.1-s samples | 1-s samples |",
    );
    let rows = [
        (
            "figure-4.13-4.15-4.18",
            "SACK / SACK",
            "7.48 / 7.23",
            "2.14 / 2.50, interval not given",
        ),
        (
            "figure-4.17-4.19",
            "SACK / SF-SACK",
            "4.56 / 9.89",
            "1.89 / 1.59",
        ),
        (
            "figure-4.14-4.16-4.20",
            "SF-SACK / SF-SACK",
            "7.72 / 6.75",
            "1.63 / 1.64",
        ),
    ];
    for (file, who, mean, sd) in rows.into_iter().filter(|(file, ..)| bench.wants(file)) {
        let thesis = [who, "thesis", mean, sd, ""].map(str::to_owned);
        table.row(&thesis);
        for done in bench.run(file, Variant::AsSaid)? {
            let goodput = |i| interval(&done.over(i, |f| f.goodput_mbps), 2);
            let second = |i| interval(&done.over(i, |f| f.goodput_sd_mbps.unwrap_or(f64::NAN)), 2);
            let tenth = [done.deviation(0, 0.1)?, done.deviation(1, 0.1)?];
            table.row(&[
                String::new(),
                done.engine.name().to_owned(),
                format!("{} / {}", goodput(0), goodput(1)),
                format!("{} / {}", interval(&tenth[0], 2), interval(&tenth[1], 2)),
                format!("{} / {}", second(0), second(1)),
            ]);
        }
    }
    Ok(table.section())
}

fn average_throughput(bench: &Bench) -> Result<Option<Section>, Error> {
    let mut table = Table::new(
        "figures 4.21 and 4.22",
        "| figure | queue | the text says | | within 6 to 8 Mbit/s from 50 s on, runs | \
         apart by, Mbit/s, at 50, 100, 150, 200, 300 s | mean Mbit/s | drops |",
    );
    let rows = [
        (
            "figure-4.21",
            "drop-tail",
            "6 to 8 after 50 s, converge at about 200 s",
        ),
        (
            "figure-4.22",
            "RED",
            "6 to 8 after 50 s, converge at about 150 s",
        ),
    ];
    for (file, queue, says) in rows.into_iter().filter(|(file, ..)| bench.wants(file)) {
        for (at, done) in bench.run(file, Variant::AsSaid)?.iter().enumerate() {
            let (within, apart) = convergence(done)?;
            let drops = Statistic::of(done.runs.iter().map(drops));
            table.row(&[
                first(at, &file.replace("figure-", "")),
                first(at, queue),
                first(at, says),
                done.engine.name().to_owned(),
                format!("{within} of {}", done.runs.len()),
                apart,
                format!(
                    "{} / {}",
                    interval(&done.over(0, |f| f.goodput_mbps), 2),
                    interval(&done.over(1, |f| f.goodput_mbps), 2)
                ),
                interval(&drops, 0),
            ]);
        }
    }
    Ok(table.section())
}

/// In how many runs both averages stay within 6 to 8 Mbit/s from 50 s on, and how far apart they are over
/// time.
fn convergence(done: &Done) -> Result<(usize, String), Error> {
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

fn weighted_queues(bench: &Bench) -> Result<Option<Section>, Error> {
    const FILE: &str = "figure-4.23-4.24";
    if !bench.wants(FILE) {
        return Ok(None);
    }
    let mut table = Table::new(
        "figures 4.23 and 4.24",
        "| connection | the text says, Mbit/s | | mean Mbit/s | SD Mbit/s |",
    );
    let all = bench.run(FILE, Variant::AsSaid)?;
    for (flow, says) in ["very close to 40", "about 20"].into_iter().enumerate() {
        for (at, done) in all.iter().enumerate() {
            let sd = done.over(flow, |f| f.goodput_sd_mbps.unwrap_or(f64::NAN));
            table.row(&[
                first(at, &done.runs[0].flows[flow].name),
                first(at, says),
                done.engine.name().to_owned(),
                interval(&done.over(flow, |f| f.goodput_mbps), 2),
                interval(&sd, 2),
            ]);
        }
    }
    Ok(table.section())
}

/// The text in the first of several rows, nothing in the others.
fn first(row: usize, text: &str) -> String {
    match row {
        0 => text.to_owned(),
        _ => String::new(),
    }
}

fn drops(run: &RunResult) -> f64 {
    run.links.iter().map(|link| link.drops as f64).sum()
}

fn interval(statistic: &Option<Statistic>, digits: usize) -> String {
    match statistic {
        None => "-".to_owned(),
        Some(s) => match s.interval95 {
            Some(half) => format!("{:.digits$} ± {half:.digits$}", s.mean),
            None => format!("{:.digits$}", s.mean),
        },
    }
}
