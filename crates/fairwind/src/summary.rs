//! What `sim run` and `lab run` print at the end: a line about the run, a table of flows, one of links.

use fairwind_result::{EmulatorResult, Performance, RunResult, Statistic, Summary};

use crate::table::Table;

/// The text for one run.
pub(crate) fn of_run(run: &RunResult) -> String {
    let summary = Summary::of(std::slice::from_ref(run)).expect("a run has a summary");
    format!(
        "{}{}{}\n{}",
        head(&summary, &format!("seed {}", run.seed), ""),
        lateness(run.emulator.as_ref()),
        cost(&run.performance),
        doubts(&run.incomplete, &run.warnings),
    )
}

/// The text for several runs.
pub(crate) fn of_runs(summary: &Summary, runs: &[RunResult]) -> String {
    let seeds = count_of_seeds(&summary.seeds);
    format!(
        "{}{}\n{}",
        head(summary, &seeds, "; mean ± half the 95 % interval"),
        cost(&total(runs)),
        doubts(&summary.incomplete, &summary.warnings),
    )
}

/// The line about the runs, which ends with what the numbers are, and the tables of flows and links.
fn head(summary: &Summary, seeds: &str, numbers: &str) -> String {
    let mut flows = Table::new(
        "flow | control | >goodput Mbit/s | >SD Mbit/s | >done after s | \
             >retransmits | >timeouts | >mean RTT ms",
    );
    for flow in &summary.flows {
        flows.row([
            flow.name.clone(),
            word(&flow.congestion_control),
            interval(&flow.goodput_mbps, 2),
            interval(&flow.goodput_sd_mbps, 2),
            interval(&flow.completion_s, 2),
            interval(&flow.retransmits, 0),
            interval(&flow.timeouts, 0),
            interval(&flow.rtt_mean_ms, 1),
        ]);
    }
    let mut links = Table::new("link | >used % | >mean queue pkt | >p99 queue pkt | >drops");
    for link in &summary.links {
        links.row([
            link.name.clone(),
            interval(&link.utilization.map(times_hundred), 1),
            interval(&link.queue_mean_pkts, 1),
            interval(&link.queue_p99_pkts, 1),
            interval(&link.drops, 0),
        ]);
    }
    format!(
        "{}\n{}, stack {}, {seeds}, {} s{}{numbers}\n\n{}\n{}\n",
        summary.title,
        summary.engine,
        summary.stack,
        summary.duration_s,
        warmup(summary.warmup_s),
        flows.render(),
        links.render(),
    )
}

fn count_of_seeds(seeds: &[u64]) -> String {
    match seeds.len() {
        1 => "1 seed".to_owned(),
        n => format!("{n} seeds"),
    }
}

fn word(text: &Option<String>) -> String {
    text.clone().unwrap_or_else(|| "-".to_owned())
}

fn interval(statistic: &Option<Statistic>, digits: usize) -> String {
    let Some(statistic) = statistic else {
        return "-".to_owned();
    };
    let mean = statistic.mean;
    match statistic.interval95 {
        Some(half) => format!("{mean:.digits$} ± {half:.digits$}"),
        None => format!("{mean:.digits$}"),
    }
}

fn times_hundred(share: Statistic) -> Statistic {
    Statistic {
        mean: share.mean * 100.0,
        interval95: share.interval95.map(|half| half * 100.0),
        min: share.min * 100.0,
        max: share.max * 100.0,
        n: share.n,
    }
}

fn warmup(seconds: f64) -> String {
    if seconds > 0.0 {
        return format!(", the first {seconds} s left out");
    }
    String::new()
}

fn total(runs: &[RunResult]) -> Performance {
    runs.iter().fold(Performance::default(), |sum, run| {
        let run = &run.performance;
        Performance {
            data_packets: sum.data_packets + run.data_packets,
            events: sum.events + run.events,
            cpu_s: sum.cpu_s + run.cpu_s,
            wall_s: sum.wall_s.max(run.wall_s),
            peak_rss_mb: sum.peak_rss_mb.max(run.peak_rss_mb),
            machine: None,
        }
    })
}

/// How well the lab kept time.
fn lateness(emulator: Option<&EmulatorResult>) -> String {
    emulator.map_or_else(String::new, |emulator| {
        format!(
            "{} packets emulated, late by {:.0} us (median), {:.0} us (99 %), {:.0} us (most)\n",
            emulator.packets,
            emulator.lateness_p50_us,
            emulator.lateness_p99_us,
            emulator.lateness_max_us
        )
    })
}

/// Reasons to doubt the numbers.
fn doubts(incomplete: &Option<String>, warnings: &[String]) -> String {
    let incomplete = incomplete.iter().map(|r| format!("incomplete: {r}\n"));
    let warnings = warnings.iter().map(|w| format!("warning: {w}\n"));
    incomplete.chain(warnings).collect()
}

fn cost(performance: &Performance) -> String {
    format!(
        "{} data packets in {:.2} s of processor time, {:.0} MB of memory",
        performance.data_packets, performance.cpu_s, performance.peak_rss_mb
    )
}

#[cfg(test)]
mod tests {
    use fairwind_result::{FlowResult, LinkResult};

    use super::*;

    fn run(seed: u64, goodput_mbps: f64) -> RunResult {
        RunResult {
            format_version: 1,
            title: "Two".to_owned(),
            engine: "sim".to_owned(),
            seed,
            versions: Default::default(),
            accounting: String::new(),
            stack: "2005".to_owned(),
            duration_s: 300.0,
            warmup_s: 10.0,
            overrides: Vec::new(),
            incomplete: None,
            warnings: Vec::new(),
            flows: vec![FlowResult {
                name: "one".to_owned(),
                congestion_control: Some("reno".to_owned()),
                goodput_mbps,
                goodput_sd_mbps: None,
                retransmits: 12,
                ..FlowResult::default()
            }],
            links: vec![LinkResult {
                name: "bottleneck".to_owned(),
                utilization: Some(0.995),
                drops: 12,
                ..LinkResult::default()
            }],
            emulator: None,
            performance: Performance {
                data_packets: 1000,
                cpu_s: 0.5,
                peak_rss_mb: 12.0,
                ..Performance::default()
            },
        }
    }

    #[test]
    fn a_run_is_told_with_units_and_dashes_for_what_there_is_not() {
        assert_eq!(
            of_run(&run(3, 7.5)),
            "Two\n\
             sim, stack 2005, seed 3, 300 s, the first 10 s left out\n\
             \n\
             flow  control  goodput Mbit/s  SD Mbit/s  done after s  retransmits  timeouts  mean RTT ms\n\
             one   reno               7.50          -             -           12         0            -\n\
             \n\
             link        used %  mean queue pkt  p99 queue pkt  drops\n\
             bottleneck    99.5             0.0            0.0     12\n\
             \n\
             1000 data packets in 0.50 s of processor time, 12 MB of memory\n"
        );
    }

    #[test]
    fn several_runs_are_told_with_intervals_and_their_summed_cost() {
        // Two values 1 apart: half the interval is t(0.975, 1) / sqrt(2) * sqrt(0.5) = 6.353.
        let runs = [run(1, 7.0), run(2, 8.0)];
        let text = of_runs(&Summary::of(&runs).unwrap(), &runs);
        assert!(
            text.contains("2 seeds, 300 s, the first 10 s left out"),
            "{text}"
        );
        assert!(text.contains("7.50 ± 6.35"), "{text}");
        assert!(text.contains("99.5 ± 0.0"), "{text}");
        assert!(text.contains("2000 data packets in 1.00 s"), "{text}");
    }
}
