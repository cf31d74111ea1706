//! `fairwind cc load`.

use clap::Args;
use fairwind_cc::kernel::{self, Found, PinError};
use fairwind_cc::native::{self, Control};

use super::place::Place;
use super::{for_each, users, value};
use crate::failure::Failure;
use crate::output;

/// Loaded only with --allow-nocc.
const NOCC: &str = "nocc";

/// Load congestion controls into the running kernel, where they stay
///
/// They stay until `fairwind cc unload` or a restart. Programs with CAP_NET_ADMIN can take them by
/// setsockopt(TCP_CONGESTION) at once; docs/how-to/load-congestion-controls.md says how others can.
///
/// Needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind cc load sfsack                      It is fw_sfsack in the kernel
  fairwind cc load sfsack --set tau=50ms
  fairwind cc load --all
  fairwind cc load sfsack --replace            The version of this fairwind, for new connections")]
pub(crate) struct Load {
    /// Names of congestion controls, in cc/ or in the kernel
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// Load all, nocc only with --allow-nocc
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Set a parameter; only if one congestion control is loaded; repeatable
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = value::assignment)]
    #[arg(conflicts_with = "all")]
    set: Vec<(String, String)>,
    /// Replace those that are loaded, for new connections; without it a loaded one is refused
    #[arg(long)]
    replace: bool,
    /// Allow nocc, which switches congestion control off
    #[arg(long)]
    allow_nocc: bool,
    #[command(flatten)]
    place: Place,
}

impl Load {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let controls = self.controls()?;
        if !self.set.is_empty() && controls.len() != 1 {
            return Err(Failure::input("--set goes with one control at a time"));
        }
        let pins = self.place.pins();
        let mut all = Vec::new();
        for control in &controls {
            let name = self.place.kernel_name(control.name());
            all.push((value::assigned(control, &self.set)?, name));
        }
        let outcomes = if self.replace {
            let replaced = all.iter();
            let replaced = replaced.map(|(parameters, name)| pins.replace(parameters, name));
            replaced.collect()
        } else {
            let loaded = pins.load_all(&all);
            loaded.map_err(|error| self.place.failure(controls[0].name(), &error))?
        };
        let named = controls.into_iter().zip(all);
        for_each(named.zip(outcomes), |((control, (_, name)), outcome)| {
            self.say(control, &name, outcome)
        })
    }

    fn controls(&self) -> Result<Vec<&'static Control>, Failure> {
        if self.all {
            // Reported once here, not for each congestion control.
            kernel::check_requirements().map_err(Failure::work)?;
            let is_allowed = |control: &&&Control| self.allow_nocc || control.name() != NOCC;
            if !self.allow_nocc {
                eprintln!("nocc is left out: it switches congestion control off (--allow-nocc)");
            }
            return Ok(native::all().iter().filter(is_allowed).copied().collect());
        }
        let controls = self.names.iter().map(|name| self.place.control(name));
        let controls: Vec<_> = controls.collect::<Result<_, _>>()?;
        match controls.iter().any(|control| control.name() == NOCC) {
            true if !self.allow_nocc => Err(super::nocc_refused()),
            _ => Ok(controls),
        }
    }

    fn say(
        &self,
        control: &Control,
        name: &str,
        outcome: Result<Found, PinError>,
    ) -> Result<(), Failure> {
        let said = match outcome {
            Ok(Found::Nothing) => "loaded".to_owned(),
            Ok(Found::Leftovers) => {
                "loaded; what an interrupted load had left is cleared".to_owned()
            }
            Ok(Found::Control { users: 0 }) => "replaced".to_owned(),
            Ok(Found::Control { users: number }) => {
                format!(
                    "replaced; the previous version stays with {}",
                    users(number)
                )
            }
            Err(PinError::AlreadyPinned {
                about: Some(about), ..
            }) if self.all && about.is_this_build() => "is loaded already".to_owned(),
            Err(error) => return Err(self.place.failure(control.name(), &error)),
        };
        output::line(&format!("{name}: {said}"))?;
        if control.name() == NOCC {
            eprintln!(
                "warning: connections with {name} ignore congestion: only on paths that are all \
                 yours"
            );
        }
        Ok(())
    }
}
