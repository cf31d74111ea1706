//! The tables of flows and links: of one run, or of several with means and intervals.

use fairwind_result::{FlowResult, LinkResult, RunResult, Statistic, Summary};

use crate::html::{Heading, Table, escape, number, swatch};

/// Most rows in a table; nobody reads more.
pub(crate) const ROWS_AT_MOST: usize = 200;

/// The tables of a summary. If it is that of a single run, they also have what only that has.
pub(crate) struct Tables<'a> {
    pub summary: &'a Summary,
    /// The single run.
    pub run: Option<&'a RunResult>,
    /// How many flows have a colour.
    pub coloured: usize,
}

impl Tables<'_> {
    /// The table of the flows.
    pub(crate) fn flows(&self) -> String {
        let name = |at: usize, name: &str| {
            let coloured = at < self.coloured;
            let colour = if coloured { swatch(at) } else { String::new() };
            format!("{colour}{}", escape(name))
        };
        let of_run = |at: usize, value: fn(&FlowResult) -> Option<f64>, digits| {
            number(self.run.and_then(|run| value(&run.flows[at])), digits)
        };
        Table::of(
            self.summary.flows.iter().enumerate(),
            vec![
                (Heading::text("Flow"), &|(at, f)| name(*at, &f.name)),
                (Heading::text("Control"), &|(_, f)| {
                    escape(f.congestion_control.as_deref().unwrap_or("–"))
                }),
                (Heading::number("Goodput", "Mbit/s"), &|(_, f)| {
                    spread(f.goodput_mbps, 3)
                }),
                (
                    Heading::number("Std. deviation", "Mbit/s, of 1 s"),
                    &|(_, f)| spread(f.goodput_sd_mbps, 3),
                ),
                (Heading::number("Delivered", "MB"), &|(at, _)| {
                    of_run(*at, |f| Some(f.bytes as f64 / 1e6), 2)
                }),
                (Heading::number("Completion", "s"), &|(_, f)| {
                    spread(f.completion_s, 3)
                }),
                (Heading::number("Retransmitted", "segments"), &|(_, f)| {
                    self.count(f.retransmits)
                }),
                (Heading::number("Timeouts", ""), &|(_, f)| {
                    self.count(f.timeouts)
                }),
                (Heading::number("RTT min", "ms"), &|(_, f)| {
                    spread(f.rtt_min_ms, 2)
                }),
                (Heading::number("RTT mean", "ms"), &|(_, f)| {
                    spread(f.rtt_mean_ms, 2)
                }),
                (Heading::number("Objects", ""), &|(at, _)| {
                    of_run(*at, |f| f.objects.map(|n| n as f64), 0)
                }),
            ],
        )
        .html(ROWS_AT_MOST)
    }

    /// The table of the links.
    pub(crate) fn links(&self) -> String {
        let of_run = |at: usize, value: fn(&LinkResult) -> f64, digits| {
            number(self.run.map(|run| value(&run.links[at])), digits)
        };
        Table::of(
            self.summary.links.iter().enumerate(),
            vec![
                (Heading::text("Link"), &|(_, l)| escape(&l.name)),
                (Heading::number("Utilization", "%"), &|(_, l)| {
                    scaled(l.utilization, 100.0, 2)
                }),
                (Heading::number("Queue mean", "packets"), &|(_, l)| {
                    spread(l.queue_mean_pkts, 2)
                }),
                (Heading::number("Queue 99 %", "packets"), &|(_, l)| {
                    self.count(l.queue_p99_pkts)
                }),
                (Heading::number("Dropped", "packets"), &|(_, l)| {
                    self.count(l.drops)
                }),
                (Heading::number("Marked", "packets"), &|(at, _)| {
                    of_run(*at, |l| l.marks as f64, 0)
                }),
                (Heading::number("Lost at random", "packets"), &|(at, _)| {
                    of_run(*at, |l| l.random_losses as f64, 0)
                }),
                (Heading::number("Carried", "packets"), &|(at, _)| {
                    of_run(*at, |l| l.packets as f64, 0)
                }),
                (Heading::number("Carried", "MB"), &|(at, _)| {
                    of_run(*at, |l| l.bytes as f64 / 1e6, 2)
                }),
            ],
        )
        .html(ROWS_AT_MOST)
    }

    /// A count, whole in a single run.
    fn count(&self, statistic: Option<Statistic>) -> String {
        spread(statistic, if self.run.is_some() { 0 } else { 1 })
    }
}

/// `mean ± half-width`, or the only value.
fn spread(statistic: Option<Statistic>, digits: usize) -> String {
    scaled(statistic, 1.0, digits)
}

/// The same in a unit of which `scale` make one.
fn scaled(statistic: Option<Statistic>, scale: f64, digits: usize) -> String {
    let mean = number(statistic.map(|s| s.mean * scale), digits);
    match statistic.and_then(|s| s.interval95) {
        Some(half) => format!(
            "{mean} <span class=\"spread\">± {}</span>",
            number(Some(half * scale), digits)
        ),
        None => mean,
    }
}
