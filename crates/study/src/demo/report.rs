//! The HTML report: the table and one figure per subject, in a self-contained file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fairwind_advice::{Forecast, Hop, ModelKind, Samples, Settings};
use fairwind_report::page::{
    Across, Area, Chart, Curve, Heading, Page, Panel, Point, Style, Table, escape, number,
};

use super::measure::Transfer;
use super::stage::Outcomes;
use super::story::{CAPACITY_MBPS, DELAY_MS, HOP, OTHERS, START_S, Story, THRESHOLD_MBPS, Way};
use super::table;
use crate::Error;

/// The report's file.
pub const FILE: &str = "report.html";

/// Indices of colours, the same in all figures.
const TRANSFER: usize = 0;
const OTHER: usize = 1;
const AVAILABLE: usize = 2;
const OFF: usize = 3;
const ALONE: usize = 6;

/// Writes the report into `out`.
pub fn write(outcomes: &Outcomes, missing: &[String], out: &Path) -> Result<PathBuf, Error> {
    page(outcomes, missing)
        .write(&out.join(FILE))
        .map_err(Error::work)
}

fn page(outcomes: &Outcomes, missing: &[String]) -> Page {
    let story = &outcomes.story;
    let mut page = Page::new(
        "One file over a path that others use too, moved three ways",
        &facts(outcomes),
    );
    for reason in missing {
        page.doubt(&format!("In the simulator, not on the kernel: {reason}"));
    }
    for outcome in &outcomes.ways {
        let doubts = outcome
            .measured
            .warnings
            .iter()
            .chain(&outcome.advised.refused);
        for doubt in doubts {
            page.doubt(&format!("{}: {doubt}", outcome.way.words()));
        }
    }
    page.text(&format!(
        "Two sites, {CAPACITY_MBPS} Mbit/s and {} ms of round-trip time apart ({DELAY_MS} ms each way). \
         {OTHERS} connections of others share the path and want what the day's curve leaves to them; \
         {} of the day pass in a second. Standard TCP leaves the others what they want and is slow to \
         take what they leave. Without congestion control the transfer takes what it can get. Advised, \
         congestion control is off only while the path has at least {THRESHOLD_MBPS} Mbit/s to spare, \
         by the thesis' rule.",
        2 * DELAY_MS,
        minutes(story.rate / 60.0),
    ));
    page.table(&totals(outcomes));
    page.note(
        "Others lost: what they received less than alone in the same time, while the transfer was under \
         way (%) and in the whole run (MB). Changes: of the congestion control, in mid-transfer.",
    );
    page.heading("The day, and what the advisor makes of it");
    page.chart(&day(outcomes));
    page.heading("Who gets what");
    page.chart(&throughput(outcomes));
    page.heading("Inside the connection");
    page.chart(&of_transfers(outcomes, "Congestion window", "kB", |t| {
        &t.cwnd
    }));
    page.chart(&of_transfers(
        outcomes,
        "Smoothed round-trip time",
        "ms",
        |t| &t.rtt,
    ));
    page.heading("What was changed, and why");
    changes(&mut page, outcomes);
    page.heading("The experiments");
    for outcome in &outcomes.ways {
        page.subheading(outcome.way.words());
        page.listing(&outcome.experiment);
    }
    page
}

fn facts(outcomes: &Outcomes) -> Vec<String> {
    let story = &outcomes.story;
    vec![
        match outcomes.engine {
            "lab" => {
                "on this machine's kernel, with the real server, client and advisor".to_owned()
            }
            _ => "in the simulator".to_owned(),
        },
        format!("{} MB", story.file_bytes / 1_000_000),
        format!(
            "{} to {}",
            story.begins.strftime("%A %H:%M"),
            story.time_at(story.length_s).strftime("%H:%M")
        ),
        format!("seed {}", story.seed),
        format!("fairwind {}", env!("CARGO_PKG_VERSION")),
    ]
}

fn minutes(minutes: f64) -> String {
    format!("{minutes:.0} minutes")
}

fn totals(outcomes: &Outcomes) -> Table {
    let mut table = Table::new(vec![
        Heading::text("Transfer"),
        Heading::number("Throughput", "Mbit/s"),
        Heading::number("Time", "s"),
        Heading::number("Others lost", "%"),
        Heading::number("Others lost", "MB"),
        Heading::number("Retransmitted", "segments"),
        Heading::number("Changes", ""),
        Heading::text("File"),
    ]);
    for row in table::rows(outcomes) {
        table.row(vec![
            escape(row.way),
            number(row.mbps, 1),
            number(row.took_s, 1),
            number(row.others_lost_percent, 1),
            number(row.others_lost_mb, 1),
            number(row.retransmits.map(|segments| segments as f64), 0),
            row.changes.to_string(),
            escape(row.file),
        ]);
    }
    table
}

/// Available bandwidth, forecasts and threshold.
fn day(outcomes: &Outcomes) -> Chart {
    let story = &outcomes.story;
    let (hour_ahead, area) = forecasts(outcomes);
    let advised = outcomes.of(Way::Advised);
    let estimates: Vec<Point> = advised
        .advised
        .answers
        .iter()
        .filter_map(|answer| Some(point(answer.at_s, answer.available_mbps?)))
        .collect();
    Chart {
        title: "Available bandwidth".to_owned(),
        what: format!(
            "{} of the day a second; shaded: the forecast's 80 % band, and, to the top, congestion control off",
            minutes(story.rate / 60.0)
        ),
        across: Across::time(story.length_s),
        panels: vec![Panel {
            unit: "Mbit/s",
            spans: spans(outcomes, Way::Advised),
            areas: vec![area],
            curves: vec![
                curve(
                    "forecast an hour before (profile)",
                    Some(TRANSFER),
                    Style::Dashed,
                    hour_ahead,
                ),
                curve(
                    "available",
                    Some(AVAILABLE),
                    Style::Steps,
                    available(outcomes),
                ),
                curve(
                    "estimate when asked (the thesis’ model)",
                    Some(OTHER),
                    Style::Solid,
                    estimates,
                ),
                threshold(story),
            ],
            strokes: changes_of(outcomes, Way::Advised),
            ..Panel::default()
        }],
    }
}

/// The better model's forecasts an hour ahead, from what was known then, and their 80 % intervals.
fn forecasts(outcomes: &Outcomes) -> (Vec<Point>, Area) {
    let story = &outcomes.story;
    let settings = Settings {
        model: ModelKind::Profile,
        ..story.settings()
    };
    let hour = Duration::from_secs(3600);
    let hour_s = hour.as_secs_f64() / story.rate;
    let (samples, _) = Samples::from_unordered(outcomes.day.history.iter().copied(), story.begins);
    let mut hop = Hop::new(HOP, samples);
    hop.learn(story.begins, &settings);
    let (mut line, mut area) = (Vec::new(), Area::default());
    area.colour = TRANSFER;
    for &test in &outcomes.day.tests {
        // The generator's tests are in order.
        let _ = hop.insert(test, test.time);
        let at_s = story.seconds_until(test.time) + hour_s;
        let forecast: Option<Forecast> = hop.forecast(test.time, hour, &settings).ok();
        let Some(forecast) = forecast.filter(|_| at_s <= story.length_s) else {
            continue;
        };
        line.push(point(at_s, forecast.available_mbps));
        if let Some((low, high)) = forecast.interval_mbps {
            area.low.push(point(at_s, low));
            area.high.push(point(at_s, high));
        }
    }
    (line, area)
}

/// The transfer and the others, one panel per way.
fn throughput(outcomes: &Outcomes) -> Chart {
    let story = &outcomes.story;
    let alone = &outcomes.of(Way::Nobody).measured.others_mbps;
    let panels = Way::TRANSFERS.map(|way| {
        let measured = &outcomes.of(way).measured;
        let transfer = measured.transfer.as_ref();
        Panel {
            name: way.words().to_owned(),
            unit: "Mbit/s",
            spans: spans(outcomes, way),
            curves: vec![
                curve("others alone", Some(ALONE), Style::Dashed, alone.clone()),
                curve(
                    "others",
                    Some(OTHER),
                    Style::Solid,
                    measured.others_mbps.clone(),
                ),
                curve(
                    "transfer",
                    Some(TRANSFER),
                    Style::Solid,
                    transfer.map(|t| t.mbps.clone()).unwrap_or_default(),
                ),
                curve(
                    "available",
                    Some(AVAILABLE),
                    Style::Steps,
                    available(outcomes),
                ),
            ],
            strokes: changes_of(outcomes, way),
            ..Panel::default()
        }
    });
    Chart {
        title: "Throughput".to_owned(),
        what: "Payload in intervals of half a second; shaded: congestion control off".to_owned(),
        across: Across::time(story.length_s),
        panels: panels.into(),
    }
}

/// A curve of each transfer, one panel per way.
fn of_transfers(
    outcomes: &Outcomes,
    title: &str,
    unit: &'static str,
    of: fn(&Transfer) -> &[Point],
) -> Chart {
    let panels = Way::TRANSFERS.map(|way| {
        let transfer = outcomes.of(way).measured.transfer.as_ref();
        Panel {
            name: way.words().to_owned(),
            unit,
            curves: vec![curve(
                "",
                Some(TRANSFER),
                Style::Solid,
                transfer.map(|t| of(t).to_vec()).unwrap_or_default(),
            )],
            strokes: changes_of(outcomes, way),
            ..Panel::default()
        }
    });
    Chart {
        title: title.to_owned(),
        what: "Of the file’s connection; strokes above: changes of the congestion control"
            .to_owned(),
        across: Across::time(outcomes.story.length_s),
        panels: panels.into(),
    }
}

fn changes(page: &mut Page, outcomes: &Outcomes) {
    let mut table = Table::new(vec![
        Heading::number("After", "s"),
        Heading::number("Time of day", ""),
        Heading::text("What"),
        Heading::text("From"),
        Heading::text("To"),
        Heading::text("Reason"),
    ]);
    let advised = &outcomes.of(Way::Advised).advised;
    for change in &advised.changes {
        table.row(vec![
            number(Some(change.at_s), 2),
            outcomes
                .story
                .time_at(change.at_s)
                .strftime("%H:%M")
                .to_string(),
            escape(&change.what),
            escape(&change.from),
            escape(&change.to),
            format!(
                "<span style=\"white-space:normal\">{}</span>",
                escape(&change.reason)
            ),
        ]);
    }
    page.text(&format!(
        "The advisor was asked {} times. Of its answers these changed something:",
        advised.answers.len()
    ));
    page.table(&table);
}

/// When congestion control was off.
fn spans(outcomes: &Outcomes, way: Way) -> Vec<(usize, f64, f64)> {
    let outcome = outcomes.of(way);
    let Some(transfer) = &outcome.measured.transfer else {
        return Vec::new();
    };
    let spans = match way {
        Way::Nocc => vec![(START_S, transfer.end_s)],
        _ => outcome.advised.spans_off(transfer.end_s),
    };
    spans
        .into_iter()
        .map(|(from, to)| (OFF, from, to))
        .collect()
}

fn changes_of(outcomes: &Outcomes, way: Way) -> Vec<(usize, Vec<f64>)> {
    let changes = outcomes.of(way).advised.control_changes();
    let times: Vec<f64> = changes.map(|change| change.at_s).collect();
    if times.is_empty() {
        return Vec::new();
    }
    vec![(OFF, times)]
}

fn available(outcomes: &Outcomes) -> Vec<Point> {
    let curve = outcomes.day.curve(&outcomes.story);
    let shown = curve
        .into_iter()
        .filter(|(at_s, _)| *at_s <= outcomes.story.length_s);
    shown.map(|(at_s, mbps)| point(at_s, mbps)).collect()
}

fn threshold(story: &Story) -> Curve {
    let ends = vec![
        point(0.0, THRESHOLD_MBPS),
        point(story.length_s, THRESHOLD_MBPS),
    ];
    curve("threshold", None, Style::Threshold, ends)
}

fn curve(name: &str, colour: Option<usize>, style: Style, points: Vec<Point>) -> Curve {
    Curve {
        name: name.to_owned(),
        colour,
        style,
        points,
    }
}

fn point(time_s: f64, value: f64) -> Point {
    Point { time_s, value }
}
