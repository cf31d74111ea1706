//! `fairwind advisor paths`: the paths that the advisor knows, and how advice is made for them.

use clap::{Args, Subcommand};
use fairwind_advice::{ModeRule, ModelKind};
use fairwind_advisor::host::HostPattern;
use fairwind_advisor::{Clock, PathConfig};
use serde_json::json;

use super::State;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;
use crate::words::{Word, one_of};

/// List, declare and remove the paths that the advisor knows
///
/// Works in the state directory; a running advisor sees changes within two seconds.
#[derive(Subcommand)]
pub(crate) enum Paths {
    /// List the paths
    List {
        #[command(flatten)]
        state: State,
        /// Print everything that is declared, as JSON
        #[arg(long)]
        json: bool,
    },
    Add(Box<Add>),
    /// Add hosts to a path; its other settings stay
    #[command(after_help = "\
Examples:
  fairwind advisor paths add-hosts argonne backup.example.org 203.0.113.0/24")]
    AddHosts {
        /// Name of the path
        name: String,
        /// Hosts at the other end: addresses, networks, names, and domains (*.example.org)
        #[arg(required = true)]
        hosts: Vec<HostPattern>,
        #[command(flatten)]
        state: State,
    },
    /// Remove a path and its history
    Remove {
        /// Name of the path
        name: String,
        #[command(flatten)]
        state: State,
    },
}

/// Declare a path, or replace its declaration; its history stays
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind advisor paths add argonne 192.0.2.0/24 data.example.org --hop gateway --threshold 42 --own
  fairwind advisor paths add everywhere 0.0.0.0/0 ::/0 --mode background
  fairwind advisor paths add berkeley 198.51.100.7 --model linear --time-zone America/Los_Angeles")]
pub(crate) struct Add {
    /// Name of the path: letters, digits, `.`, `_` and `-`
    name: String,
    /// Hosts at the other end: addresses, networks, names, and domains (*.example.org)
    #[arg(required = true)]
    hosts: Vec<HostPattern>,
    /// Hop that is measured; repeatable
    #[arg(long, value_name = "NAME")]
    hop: Vec<String>,
    /// Available bandwidth below which a hop is congested, Mbit/s
    #[arg(long, value_name = "MBPS")]
    threshold: Option<f64>,
    /// Bandwidth of the narrowest link, Mbit/s
    #[arg(long, value_name = "MBPS")]
    capacity: Option<f64>,
    /// The path is your own: congestion control may be switched off on it
    #[arg(long)]
    own: bool,
    /// Mode of the transfers on the path
    #[arg(long, value_name = "MODE", value_parser = one_of(MODES), default_value = "thesis")]
    mode: ModeRule,
    /// Model that forecasts
    #[arg(long, value_name = "MODEL", value_parser = one_of(MODELS), default_value = "profile")]
    model: ModelKind,
    /// Time zone of the days, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
    #[command(flatten)]
    state: State,
}

const MODES: &[Word<ModeRule>] = &[
    (
        "thesis",
        "Without congestion control while no hop of an own path is congested, otherwise with it",
        ModeRule::Thesis,
    ),
    ("background", "What others leave", ModeRule::Background),
    (
        "rate",
        "The rate that the forecast vouches for; in the background while there is none",
        ModeRule::Rate,
    ),
];

const MODELS: &[Word<ModelKind>] = &[
    ("linear", "The thesis' straight lines", ModelKind::Linear),
    ("profile", "A daily and weekly profile", ModelKind::Profile),
];

impl Paths {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::List { state, json } => list(&state, json),
            Self::Add(add) => add.run(),
            Self::AddHosts { name, hosts, state } => add_hosts(&name, &hosts, &state),
            Self::Remove { name, state } => {
                state.open(Clock::System)?.remove_path(&name)?;
                Ok(output::line(&format!("{name} is removed"))?)
            }
        }
    }
}

fn list(state: &State, json: bool) -> Result<(), Failure> {
    let paths = state.open(Clock::System)?.paths();
    if json {
        return Ok(output::json(&json!(paths))?);
    }
    let mut table = Table::new("path | hosts | hops | >threshold Mbit/s | own | mode | model");
    for path in paths {
        let hosts: Vec<String> = path.hosts.iter().map(HostPattern::to_string).collect();
        let threshold = path.threshold_mbps.map(|mbps| mbps.to_string());
        table.row([
            path.name,
            hosts.join(" "),
            path.hops.join(" "),
            threshold.unwrap_or_default(),
            if path.own { "yes" } else { "no" }.to_owned(),
            path.mode.name().to_owned(),
            path.model.name().to_owned(),
        ]);
    }
    Ok(output::line(&table.render())?)
}

impl Add {
    fn run(self) -> Result<(), Failure> {
        let mut config = PathConfig::new(self.name, self.hosts);
        config.hops = self.hop;
        config.threshold_mbps = self.threshold;
        config.capacity_mbps = self.capacity;
        config.own = self.own;
        config.mode = self.mode;
        config.model = self.model;
        config.time_zone = self.time_zone;
        let name = config.name.clone();
        let local = self.state.open(Clock::System)?;
        let new = local.put_path(config)?;
        let what = if new { "declared" } else { "declared again" };
        Ok(output::line(&format!("{name} is {what}"))?)
    }
}

fn add_hosts(name: &str, hosts: &[HostPattern], state: &State) -> Result<(), Failure> {
    let local = state.open(Clock::System)?;
    // An unknown name is more likely misspelt than new.
    local.path(name)?;
    let path = local.path_to(name, hosts)?;
    let hosts = path.config().hosts.iter().map(HostPattern::to_string);
    let hosts: Vec<String> = hosts.collect();
    Ok(output::line(&format!(
        "{name} leads to {}",
        hosts.join(" ")
    ))?)
}
