//! The report of one run.

use fairwind_result::series::curves::{CURVES_AT_MOST, Curves};
use fairwind_result::{EmulatorResult, FlowResult, LinkResult, RunResult, Summary};

use crate::html::{
    count, doubts_html, escape, experiment_html, facts_html, fill, head_html, number, versions_text,
};
use crate::tables::Tables;
use crate::{data, library};

/// Content security policy: the page may draw, and save what it has drawn.
const POLICY: &str = "script-src 'unsafe-inline'; img-src data: blob: 'self'";

/// The page of `run`, with plots if there are `curves`, and the text of the experiment file.
pub(crate) fn page(run: &RunResult, curves: Option<&Curves>, experiment: Option<&str>) -> String {
    let plots = curves.map_or_else(without_plots, |curves| plots(run, curves));
    let scripts = curves.map_or_else(String::new, |curves| scripts(run, curves));
    let tables = Tables {
        summary: &Summary::of(std::slice::from_ref(run)).expect("a run has a summary"),
        run: Some(run),
        coloured: curves.map_or(0, |_| CURVES_AT_MOST),
    };
    fill(
        include_str!("run.html"),
        &[
            ("head", &head_html(&run.title, POLICY)),
            ("title", &escape(&run.title)),
            ("facts", &facts(run)),
            ("doubts", &doubts_html(&run.incomplete, &run.warnings)),
            ("figures", &figures(run)),
            ("flows", &tables.flows()),
            ("links", &tables.links()),
            ("plots", &plots),
            ("experiment", &experiment_html(experiment, &run.overrides)),
            ("accounting", &escape(&run.accounting)),
            ("versions", &versions(run)),
            ("cost", &cost(run)),
            ("scripts", &scripts),
        ],
    )
}

fn facts(run: &RunResult) -> String {
    let mut facts = vec![
        escape(&run.engine),
        format!("stack {}", escape(&run.stack)),
        format!("seed {}", run.seed),
        format!("{} s", run.duration_s),
    ];
    if run.warmup_s > 0.0 {
        facts.push(format!("first {} s left out of the totals", run.warmup_s));
    }
    facts_html(&facts)
}

/// The most important numbers.
fn figures(run: &RunResult) -> String {
    let total: f64 = run.flows.iter().map(|flow| flow.goodput_mbps).sum();
    let mut figures = figure("Goodput of all flows", number(Some(total), 3), "Mbit/s");
    if let Some(index) = fairness(&run.flows) {
        figures += &figure("Jain’s fairness index", number(Some(index), 3), "");
    }
    let used = |link: &&LinkResult| link.utilization.is_some();
    let busiest = run.links.iter().filter(used).max_by(|a, b| {
        let [a, b] = [a, b].map(|link| link.utilization.unwrap_or_default());
        a.total_cmp(&b)
    });
    if let Some(link) = busiest {
        let label = format!("Utilization of {}", escape(&link.name));
        let percent = link.utilization.map(|share| 100.0 * share);
        figures += &figure(&label, number(percent, 1), "%");
    }
    let drops = run
        .links
        .iter()
        .map(|l| l.drops + l.random_losses + l.policed)
        .sum();
    figures += &figure("Packets lost", count(drops), "");
    let retransmits = run.flows.iter().map(|flow| flow.retransmits).sum();
    figures + &figure("Segments retransmitted", count(retransmits), "")
}

fn figure(label: &str, value: String, unit: &str) -> String {
    format!("<div><strong>{value} <small>{unit}</small></strong><span>{label}</span></div>\n")
}

/// Jain's fairness index of the goodputs of the bulk flows: 1 if all are equal, 1/n if one has everything;
/// none for fewer than two flows (Jain, Chiu, Hawe: DEC-TR-301, 1984).
fn fairness(flows: &[FlowResult]) -> Option<f64> {
    let goodputs: Vec<f64> = flows
        .iter()
        .filter(|flow| flow.application == "bulk")
        .map(|flow| flow.goodput_mbps)
        .collect();
    let sum: f64 = goodputs.iter().sum();
    let squares: f64 = goodputs.iter().map(|goodput| goodput * goodput).sum();
    (goodputs.len() > 1 && squares > 0.0).then(|| sum * sum / (goodputs.len() as f64 * squares))
}

fn plots(run: &RunResult, curves: &Curves) -> String {
    let mut omitted = String::new();
    if run.flows.len() > curves.flows.len() {
        omitted = format!(
            " The first {} of {} flows are drawn.",
            curves.flows.len(),
            run.flows.len()
        );
    }
    let listed = |names: Vec<String>, reason: &str| {
        let names = names.join(", ");
        if names.is_empty() {
            String::new()
        } else {
            format!(" {reason}: {names}.")
        }
    };
    let several = curves.flows.iter().filter(|flow| flow.connections > 1);
    let several = several.map(|flow| format!("{} ({})", escape(&flow.name), flow.connections));
    omitted += &listed(
        several.collect(),
        "Flows of several connections have no window and no round-trip time",
    );
    let uncovered = curves.flows.iter().filter(|flow| !flow.covered);
    omitted += &listed(
        uncovered.map(|flow| escape(&flow.name)).collect(),
        "The samples do not cover all that these flows delivered, so their throughput is not drawn",
    );
    let interval = if curves.interval_s == 1.0 {
        "1 s".to_owned()
    } else {
        format!("{} ms", (curves.interval_s * 1e3).round())
    };
    fill(
        include_str!("plots.html"),
        &[("interval", &interval), ("omitted", &omitted)],
    )
}

fn without_plots() -> String {
    "<section>\n<h2>Over time</h2>\n\
     <p class=\"note\">No time series were recorded in this run.</p>\n</section>\n"
        .to_owned()
}

/// The data, plotly.js and the script that draws, each in its own element.
fn scripts(run: &RunResult, curves: &Curves) -> String {
    format!(
        "<script type=\"application/octet-stream\" id=\"data\">{}</script>\n\
         <!-- plotly.js, copyright 2012-2025 Plotly, Inc., MIT licence; packed as gzip, base64 -->\n\
         <script type=\"application/octet-stream\" id=\"library\">{}</script>\n\
         <script>\n{}</script>",
        library::packed(data::json(run, curves).as_bytes()),
        library::plotly(),
        include_str!("plots.js"),
    )
}

fn versions(run: &RunResult) -> String {
    format!(
        "{}; engine {}, seed {}, result format {}.",
        versions_text(&run.versions),
        escape(&run.engine),
        run.seed,
        run.format_version
    )
}

fn cost(run: &RunResult) -> String {
    let cost = &run.performance;
    let mut text = format!(
        "{} data packets and {} events in {} s of processor time, {} s on the clock, {} MB of memory",
        count(cost.data_packets),
        count(cost.events),
        number(Some(cost.cpu_s), 3),
        number(Some(cost.wall_s), 3),
        number(Some(cost.peak_rss_mb), 1),
    );
    if let Some(machine) = &cost.machine {
        text.push_str(&format!(
            "; {}, {} processors, {}",
            escape(&machine.cpu),
            machine.cores,
            escape(&machine.system)
        ));
    }
    text.push('.');
    if let Some(emulator) = &run.emulator {
        text.push_str(&lateness(emulator));
    }
    text
}

/// How well the lab kept time.
fn lateness(emulator: &EmulatorResult) -> String {
    let us = |value| number(Some(value), 0);
    format!(
        " {} packets emulated, late by {} µs (median), {} µs (99 %), {} µs (most).",
        count(emulator.packets),
        us(emulator.lateness_p50_us),
        us(emulator.lateness_p99_us),
        us(emulator.lateness_max_us)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(goodput_mbps: f64) -> FlowResult {
        FlowResult {
            application: "bulk".into(),
            goodput_mbps,
            ..FlowResult::default()
        }
    }

    #[test]
    fn fairness_is_one_for_equal_and_a_half_for_one_of_two() {
        assert_eq!(fairness(&[flow(3.0), flow(3.0)]), Some(1.0));
        assert_eq!(fairness(&[flow(3.0), flow(0.0)]), Some(0.5));
        assert_eq!(fairness(&[flow(3.0)]), None);
        assert_eq!(fairness(&[flow(0.0), flow(0.0)]), None);
    }
}
