//! `fairwind advisor paths`: the paths that the advisor knows, and how advice is made for them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fairwind_advice::ModelKind;
use fairwind_advisor::host::HostPattern;
use fairwind_advisor::local::Local;
use fairwind_advisor::{Clock, PathConfig};
use serde_json::json;

use super::failure;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// List, declare and remove the paths that the advisor knows
///
/// Works in the state directory; a running advisor sees changes within two seconds.
#[derive(Subcommand)]
pub enum Paths {
    List(List),
    Add(Box<Add>),
    AddHosts(AddHosts),
    Remove(Remove),
}

/// List the paths
#[derive(Args)]
pub struct List {
    /// State directory of the advisor [default: as for `fairwind advisor`]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Print everything that is declared, as JSON
    #[arg(long)]
    json: bool,
}

/// Declare a path, or declare it anew; its history stays
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind advisor paths add argonne 192.0.2.0/24 data.example.org --hop gateway --threshold 42 --own
  fairwind advisor paths add berkeley 198.51.100.7 --model linear --time-zone America/Los_Angeles")]
pub struct Add {
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
    /// Model that forecasts
    #[arg(long, value_name = "MODEL", default_value = "profile")]
    model: Model,
    /// Time zone of the days, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
    /// State directory of the advisor [default: as for `fairwind advisor`]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// Add hosts to a path; its other settings stay
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind advisor paths add-hosts argonne backup.example.org 203.0.113.0/24")]
pub struct AddHosts {
    /// Name of the path
    name: String,
    /// Hosts at the other end: addresses, networks, names, and domains (*.example.org)
    #[arg(required = true)]
    hosts: Vec<HostPattern>,
    /// State directory of the advisor [default: as for `fairwind advisor`]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// Remove a path and its history
#[derive(Args)]
pub struct Remove {
    /// Name of the path
    name: String,
    /// State directory of the advisor [default: as for `fairwind advisor`]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Model {
    /// The thesis' straight lines
    Linear,
    /// A daily and weekly profile
    Profile,
}

impl Paths {
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(),
            Self::Add(add) => add.run(),
            Self::AddHosts(add) => add.run(),
            Self::Remove(remove) => remove.run(),
        }
    }
}

/// Opens the store in the state directory, which a running service shares.
pub(super) fn open(state: Option<&PathBuf>) -> Result<Local, Failure> {
    Local::open(state.map(PathBuf::as_path), Clock::System).map_err(failure)
}

impl List {
    fn run(self) -> Result<(), Failure> {
        let paths = open(self.state.as_ref())?.paths();
        if self.json {
            return Ok(output::json(&json!(paths))?);
        }
        let mut table = Table::new()
            .words("path")
            .words("hosts")
            .words("hops")
            .numbers("threshold Mbit/s")
            .words("own")
            .words("model");
        for path in paths {
            let hosts: Vec<String> = path.hosts.iter().map(HostPattern::to_string).collect();
            table.row([
                path.name,
                hosts.join(" "),
                path.hops.join(" "),
                path.threshold_mbps
                    .map(|mbps| mbps.to_string())
                    .unwrap_or_default(),
                if path.own { "yes" } else { "no" }.to_owned(),
                path.model.name().to_owned(),
            ]);
        }
        Ok(output::line(&table.render())?)
    }
}

impl Add {
    fn run(self) -> Result<(), Failure> {
        let mut config = PathConfig::new(self.name, self.hosts);
        config.hops = self.hop;
        config.threshold_mbps = self.threshold;
        config.capacity_mbps = self.capacity;
        config.own = self.own;
        config.model = match self.model {
            Model::Linear => ModelKind::Linear,
            Model::Profile => ModelKind::Profile,
        };
        config.time_zone = self.time_zone;
        let name = config.name.clone();
        let new = open(self.state.as_ref())?
            .put_path(config)
            .map_err(failure)?;
        let what = if new { "declared" } else { "declared anew" };
        Ok(output::line(&format!("{name} is {what}"))?)
    }
}

impl AddHosts {
    fn run(self) -> Result<(), Failure> {
        let local = open(self.state.as_ref())?;
        // An unknown name is more likely misspelt than new.
        local.path(&self.name).map_err(failure)?;
        let path = local.path_to(&self.name, &self.hosts).map_err(failure)?;
        let hosts = path.config().hosts.iter().map(HostPattern::to_string);
        let hosts: Vec<String> = hosts.collect();
        let text = format!("{} leads to {}", self.name, hosts.join(" "));
        Ok(output::line(&text)?)
    }
}

impl Remove {
    fn run(self) -> Result<(), Failure> {
        let local = open(self.state.as_ref())?;
        local.remove_path(&self.name).map_err(failure)?;
        Ok(output::line(&format!("{} is removed", self.name))?)
    }
}
