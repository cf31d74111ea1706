//! `fairwind cc unload`.

use clap::Args;

use super::place::Place;
use super::{for_each, users};
use crate::failure::Failure;
use crate::output;

/// Remove congestion controls from the running kernel
///
/// Connections that have one keep it until they close; new ones cannot take it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind cc unload sfsack
  fairwind cc unload --all")]
pub(crate) struct Unload {
    /// Names of congestion controls, in cc/ or in the kernel
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// Remove all that `fairwind cc load` has loaded
    #[arg(long, conflicts_with = "names")]
    all: bool,
    #[command(flatten)]
    place: Place,
}

impl Unload {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let pins = self.place.pins();
        let names: Vec<String> = if self.all {
            let all = pins.all().map_err(Failure::work)?;
            all.iter().map(|pinned| pinned.name().to_owned()).collect()
        } else {
            let names = self.names.iter();
            names.map(|name| self.place.kernel_name(name)).collect()
        };
        for_each(names, |name| {
            let number = pins
                .unload(&name)
                .map_err(|error| self.place.failure(&name, &error))?;
            let kept = match number {
                0 => String::new(),
                _ => format!("; until closed it stays with {}", users(number)),
            };
            Ok(output::line(&format!("{name}: unloaded{kept}"))?)
        })
    }
}
