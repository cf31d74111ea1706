//! The report over several seeds.

use std::fmt::Write;

use fairwind_result::{REPORT_FILE, RunResult, Statistic, Summary, seed_folder, seeds_text};

use crate::html::{
    Heading, Table, count, doubts_html, escape, experiment_html, facts_html, fill, head_html,
    number, shortened, versions_text,
};
use crate::palette;
use crate::plot::ticks::Ticks;
use crate::tables::{ROWS_AT_MOST, Tables};

/// Most flows in the drawing.
const DRAWN_AT_MOST: usize = 24;

/// The page for `summary` and its `runs`, with the text of the experiment file.
pub(crate) fn page(summary: &Summary, runs: &[RunResult], experiment: Option<&str>) -> String {
    let facts = [
        escape(&summary.engine),
        format!("stack {}", escape(&summary.stack)),
        format!("{} runs, {}", runs.len(), seeds_text(&summary.seeds)),
        format!("{} s each", summary.duration_s),
    ];
    let tables = Tables {
        summary,
        run: None,
        coloured: DRAWN_AT_MOST,
    };
    fill(
        include_str!("overview.html"),
        &[
            ("head", &head_html(&summary.title, "img-src data: 'self'")),
            ("title", &escape(&summary.title)),
            ("facts", &facts_html(&facts)),
            (
                "doubts",
                &doubts_html(&summary.incomplete, &summary.warnings),
            ),
            ("whiskers", &whiskers(summary, runs)),
            ("flows", &tables.flows()),
            ("links", &tables.links()),
            ("runs", &runs_table(runs)),
            (
                "experiment",
                &experiment_html(experiment, &summary.overrides),
            ),
            ("accounting", &escape(&summary.accounting)),
            (
                "versions",
                &format!(
                    "{}; engine {}, result format {}.",
                    versions_text(&summary.versions),
                    escape(&summary.engine),
                    summary.format_version
                ),
            ),
        ],
    )
}

fn runs_table(runs: &[RunResult]) -> String {
    let link = |seed| {
        format!(
            "<a href=\"{}/{REPORT_FILE}\">seed {seed}</a>",
            seed_folder(seed)
        )
    };
    Table::of(
        runs,
        vec![
            (Heading::text("Run"), &|run| link(run.seed)),
            (Heading::number("Goodput of all flows", "Mbit/s"), &|run| {
                number(
                    Some(run.flows.iter().map(|flow| flow.goodput_mbps).sum()),
                    3,
                )
            }),
            (Heading::number("Retransmitted", "segments"), &|run| {
                count(run.flows.iter().map(|flow| flow.retransmits).sum())
            }),
            (Heading::number("Dropped", "packets"), &|run| {
                count(run.links.iter().map(|link| link.drops).sum())
            }),
            (Heading::number("Processor time", "s"), &|run| {
                number(Some(run.performance.cpu_s), 3)
            }),
        ],
    )
    .html(ROWS_AT_MOST)
}

/// A drawing of each flow's goodput: a dot per run, a line for the mean and a bar for its interval.
fn whiskers(summary: &Summary, runs: &[RunResult]) -> String {
    const WIDTH: f64 = 1056.0;
    const LEFT: f64 = 190.0;
    const RIGHT: f64 = 20.0;
    const ROW: f64 = 30.0;
    const FOOT: f64 = 44.0;
    let flows = &summary.flows[..summary.flows.len().min(DRAWN_AT_MOST)];
    let goodputs = || flows.iter().filter_map(|flow| flow.goodput_mbps);
    let ends = |s: Statistic| [-1.0, 1.0].map(|side| s.mean + side * s.interval95.unwrap_or(0.0));
    let least = goodputs().map(|s| s.min.min(ends(s)[0]));
    let least = least.fold(f64::INFINITY, f64::min);
    let greatest = goodputs()
        .map(|s| s.max.max(ends(s)[1]))
        .fold(0.0, f64::max);
    let ticks = Ticks::around(least, greatest, 8);
    let height = ROW * flows.len() as f64 + FOOT;
    let foot = height - FOOT + 4.0;
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * ticks.share(value);
    let mut svg = format!(
        "<svg class=\"whiskers\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Goodput of each flow in each run\">\n"
    );
    for (value, label) in ticks.labels() {
        let at = x(value);
        let text_y = foot + 16.0;
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"0\" y2=\"{foot:.1}\"/>\
             <text class=\"axis\" x=\"{at:.1}\" y=\"{text_y:.1}\" text-anchor=\"middle\">{label}</text>"
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">Mbit/s</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        height - 6.0
    );
    for (row, flow) in flows.iter().enumerate() {
        let _ = write!(
            svg,
            "<g style=\"color:var(--c{})\" transform=\"translate(0 {})\">\
             <text x=\"0\" y=\"4.5\">{}</text>",
            row % palette::LIGHT.len(),
            ROW * row as f64 + ROW / 2.0,
            escape(&shortened(&flow.name, 26))
        );
        if let Some(goodput) = flow.goodput_mbps {
            let [from, to] = ends(goodput).map(|end| x(end.max(ticks.start())));
            let (mean, width) = (x(goodput.mean), (to - from).max(1.0));
            let _ = write!(
                svg,
                "<rect x=\"{from:.1}\" width=\"{width:.1}\" y=\"-7\" height=\"14\" rx=\"2\" \
                 fill=\"currentColor\" fill-opacity=\"0.22\"/>\
                 <line x1=\"{mean:.1}\" x2=\"{mean:.1}\" y1=\"-9\" y2=\"9\" \
                 stroke=\"currentColor\" stroke-width=\"2\"/>"
            );
        }
        for run in runs {
            if let Some(found) = run.flows.iter().find(|f| f.name == flow.name) {
                let _ = write!(
                    svg,
                    "<circle cx=\"{:.1}\" cy=\"0\" r=\"3.5\" fill=\"currentColor\">\
                     <title>seed {}: {} Mbit/s</title></circle>",
                    x(found.goodput_mbps),
                    run.seed,
                    number(Some(found.goodput_mbps), 3)
                );
            }
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    if summary.flows.len() > flows.len() {
        let _ = writeln!(
            svg,
            "<p class=\"note\">The first {} of {} flows.</p>",
            flows.len(),
            summary.flows.len()
        );
    }
    svg
}
