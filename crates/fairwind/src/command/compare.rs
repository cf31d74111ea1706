//! `fairwind compare`: two results side by side.

use std::path::PathBuf;

use clap::Args;
use fairwind_report::overlay;
use fairwind_result::compare::compare;

use crate::failure::Failure;
use crate::output;

/// Compare two results, flow by flow and link by link
///
/// With --out also figures with the curves of both on the same axes: throughput and its average,
/// congestion window and slow-start threshold, round-trip time and timeout, queue and losses over
/// time, and distributions, which do not depend on where a sawtooth begins. compare.html holds
/// them all, with the tables, in one file; each is an SVG file besides.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind compare monday.result tuesday.result --json
  fairwind compare sim.result lab.result --out sim-and-lab")]
pub(crate) struct Compare {
    /// Result folder
    a: PathBuf,
    /// Result folder to compare it with
    b: PathBuf,
    /// Also write figures to this folder, as SVG files and together in compare.html; replaces an earlier
    /// comparison
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the comparison as JSON and nothing else; with --out also the distributions
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (comparison, distributions, page) = match &self.out {
            None => {
                let comparison = compare(&self.a, &self.b)?;
                (comparison, None, None)
            }
            Some(out) => {
                let written = overlay::write(&self.a, &self.b, out)?;
                let distributions = Some(written.distributions);
                (written.comparison, distributions, Some(written.page))
            }
        };
        if self.json {
            let mut json = serde_json::to_value(&comparison).map_err(Failure::work)?;
            if let Some(distributions) = distributions {
                json["distributions"] =
                    serde_json::to_value(distributions).map_err(Failure::work)?;
            }
            return Ok(output::json(&json)?);
        }
        let mut text = comparison.to_string();
        if let Some(page) = page {
            text.push_str(&format!("\nfigures: {}\n", page.display()));
        }
        Ok(output::line(&text)?)
    }
}
