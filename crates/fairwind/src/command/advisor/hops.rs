//! `fairwind advisor hops`: the hops at which a path is measured.

use clap::Subcommand;
use fairwind_advisor::Clock;
use jiff::Timestamp;
use serde_json::json;

use super::State;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// List the hops of a path, and remove those that should not be there
///
/// Hops are declared with the path (fairwind advisor paths add NAME HOST --hop HOP). On a path without
/// declared hops, every hop with samples decides, until it has been silent for 12 times the usual time
/// between them. Works in the state directory; a running advisor sees changes within
/// two seconds.
#[derive(Subcommand)]
pub(crate) enum Hops {
    /// List the hops of a path, and which of them decide
    #[command(after_help = "\
Examples:
  fairwind advisor hops list argonne")]
    List {
        /// Name of the path
        path: String,
        #[command(flatten)]
        state: State,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a hop that is not declared, and its history
    #[command(after_help = "\
Examples:
  fairwind advisor hops remove argonne gatewya")]
    Remove {
        /// Name of the path
        path: String,
        /// Name of the hop
        hop: String,
        #[command(flatten)]
        state: State,
    },
}

impl Hops {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::List { path, state, json } => list(&path, &state, json),
            Self::Remove { path, hop, state } => {
                state.open(Clock::System)?.remove_hop(&path, &hop)?;
                Ok(output::line(&format!("{hop} is removed from {path}"))?)
            }
        }
    }
}

fn list(path: &str, state: &State, json: bool) -> Result<(), Failure> {
    let local = state.open(Clock::System)?;
    let path = local.path(path)?;
    let hops = local.hops(&path)?;
    if json {
        return Ok(output::json(&json!(hops))?);
    }
    let mut table = Table::new("hop | role | decides | newest test | >Mbit/s");
    let time = |time: Timestamp| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string();
    let number = |mbps: f64| format!("{mbps:.1}");
    for hop in hops {
        table.row([
            hop.name,
            hop.role.name().to_owned(),
            if hop.decides { "yes" } else { "no" }.to_owned(),
            hop.newest.map(time).unwrap_or_default(),
            hop.available_mbps.map(number).unwrap_or_default(),
        ]);
    }
    Ok(output::line(&table.render())?)
}
