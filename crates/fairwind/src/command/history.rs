//! `fairwind history`: what was measured on a path.

mod generate;
mod import;

use std::fs;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use fairwind_advice_client::{DEFAULT_URL, path_segment, query};
use fairwind_advisor::PathConfig;
use fairwind_advisor::http::HistoryAnswer;
use fairwind_report::plot::history::{HopCurve, svg};
use jiff::Timestamp;
use serde_json::json;

use super::advise::client;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Show what was measured on the path to a host, and add recordings to it
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  fairwind history 192.0.2.7
  fairwind history data.example.org --from 2026-03-01T00:00:00Z --plot march.svg
  fairwind history import router.csv --path argonne --hop gateway --capacity 155
  fairwind history generate --path lab --host 10.0.0.0/8 --weeks 9"
)]
pub(crate) struct History {
    #[command(subcommand)]
    action: Option<Action>,
    /// Address or name of the other host
    #[arg(required = true)]
    host: Option<String>,
    /// Beginning [default: that of the history]
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
    /// End, not included [default: that of the history]
    #[arg(long, value_name = "TIME")]
    to: Option<Timestamp>,
    /// Draw the history into this file and print its name
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print all samples as JSON, at most the newest 200,000 of each hop
    #[arg(long)]
    json: bool,
    /// Address of the advisor
    #[arg(long, value_name = "URL", env = "FAIRWIND_ADVISOR", default_value = DEFAULT_URL)]
    advisor: String,
}

#[derive(Subcommand)]
enum Action {
    Import(import::Import),
    Generate(generate::Generate),
}

impl History {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match (&self.action, &self.host) {
            (Some(Action::Import(import)), _) => import.run(),
            (Some(Action::Generate(generate)), _) => generate.run(),
            (None, Some(host)) => self.show(host),
            (None, None) => Err(Failure::input("a host is needed")),
        }
    }

    fn show(&self, host: &str) -> Result<(), Failure> {
        let client = client(&self.advisor)?;
        let answer = client.advice(host, None)?;
        let Some(name) = answer.path else {
            return Err(Failure::input(format!("no path leads to {host}")));
        };
        let at = format!("/v1/paths/{}", path_segment(&name));
        let path: PathConfig = client.get(&at)?;
        let [from, to] = [self.from, self.to].map(|time| time.map(|time| time.to_string()));
        let mut pairs = Vec::new();
        pairs.extend(from.as_deref().map(|from| ("from", from)));
        pairs.extend(to.as_deref().map(|to| ("to", to)));
        let at = format!("{at}/history{}", query(&pairs));
        let history: HistoryAnswer = client.get(&at)?;
        if let Some(file) = &self.plot {
            fs::write(file, plot(&history, &path)).map_err(Failure::at(file))?;
            return Ok(output::line(&file.display().to_string())?);
        }
        if self.json {
            return Ok(output::json(&json!(history))?);
        }
        Ok(output::line(&table(&history).render())?)
    }
}

fn table(history: &HistoryAnswer) -> Table {
    let mut table = Table::new("hop | >samples | first | last | >newest Mbit/s | >mean Mbit/s");
    for hop in &history.hops {
        let values = hop.samples.iter().map(|sample| sample.available_mbps);
        let mean = values.sum::<f64>() / hop.samples.len() as f64;
        let (first, last) = (hop.samples.first(), hop.samples.last());
        let time = |time: Timestamp| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string();
        table.row([
            hop.name.clone(),
            hop.samples.len().to_string(),
            first.map(|sample| time(sample.time)).unwrap_or_default(),
            last.map(|sample| time(sample.time)).unwrap_or_default(),
            last.map(|sample| format!("{:.1}", sample.available_mbps))
                .unwrap_or_default(),
            last.map(|_| format!("{mean:.1}")).unwrap_or_default(),
        ]);
    }
    table
}

fn plot(history: &HistoryAnswer, path: &PathConfig) -> String {
    let times = || {
        history
            .hops
            .iter()
            .flat_map(|hop| &hop.samples)
            .map(|sample| sample.time)
    };
    let first = times().min().unwrap_or_default();
    let days = |time: Timestamp| time.duration_since(first).as_secs_f64() / 86_400.0;
    let hops: Vec<HopCurve> = history
        .hops
        .iter()
        .map(|hop| HopCurve {
            name: hop.name.clone(),
            available: hop
                .samples
                .iter()
                .map(|s| (days(s.time), s.available_mbps))
                .collect(),
        })
        .collect();
    let length = times().max().map_or(0.0, days);
    let title = format!(
        "{} from {}",
        history.path,
        first.strftime("%Y-%m-%d %H:%M UTC")
    );
    svg(&title, length, path.threshold_mbps, &hops)
}
