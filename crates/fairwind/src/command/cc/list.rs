//! `fairwind cc list`.

use clap::Args;
use fairwind_cc::kernel::{self, LoadError, PinError, Pinned};
use fairwind_cc::native::{self, Control};
use serde_json::{Value, json};

use super::control_json;
use super::place::Place;
use super::show::pinned_json;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// List the congestion controls, their parameters, and what is in the kernel
#[derive(Args)]
#[command(after_help = "\
Experiment files name a control as congestion_control = \"sfsack\" and set its parameters as
parameters = { tau = \"50ms\" }. Only root sees the number of users of a loaded one.

Example:
  fairwind cc list --json | jq -r '.controls[].name'")]
pub(crate) struct List {
    /// Print JSON and nothing else
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// The congestion controls in the kernel.
struct Kernel {
    /// All names that connections can use.
    available: Vec<String>,
    /// Those that fairwind has pinned; none if this process may not read the pins.
    pinned: Option<Vec<Pinned>>,
}

impl List {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let kernel = Kernel {
            // The simulator needs none of them, so a kernel that does not list them is no error.
            available: kernel::available().unwrap_or_default(),
            pinned: match self.place.pins().all() {
                Err(PinError::Load(LoadError::NotPermitted { .. })) => None,
                all => Some(all.map_err(Failure::work)?),
            },
        };
        if self.json {
            output::json(&self.json(&kernel).map_err(Failure::work)?)?
        } else {
            output::line(&self.text(&kernel).map_err(Failure::work)?)?
        }
        Ok(())
    }

    fn text(&self, kernel: &Kernel) -> Result<String, PinError> {
        let mut controls = Table::new("control | in the kernel | >users | description");
        let mut parameters =
            Table::new("parameter | of | unit | >default | >least | >greatest | description");
        for control in native::all() {
            let (name, users) = self.state(kernel, control)?;
            controls.row([
                control.name().to_owned(),
                name,
                users,
                control.description().to_owned(),
            ]);
            for p in control.parameters() {
                parameters.row([
                    p.name().to_owned(),
                    control.name().to_owned(),
                    p.unit().to_owned(),
                    p.default_value().to_string(),
                    p.min().to_string(),
                    p.max().to_string(),
                    p.description().to_owned(),
                ]);
            }
        }
        Ok(format!(
            "{}\n{}\nalso in the kernel: {}",
            controls.render(),
            parameters.render(),
            self.others(kernel).join(", ")
        ))
    }

    /// The name in the kernel and the number of users, as cells.
    fn state(&self, kernel: &Kernel, control: &Control) -> Result<(String, String), PinError> {
        let name = self.place.kernel_name(control.name());
        let none = || "-".to_owned();
        if let Some(pinned) = kernel.pinned(&name) {
            let other = if pinned.is_this_build() {
                ""
            } else {
                " (another build)"
            };
            return Ok((format!("{name}{other}"), pinned.users()?.to_string()));
        }
        Ok(match (kernel.available.contains(&name), &kernel.pinned) {
            (true, Some(_)) => (format!("{name} (not pinned here)"), none()),
            (true, None) => (name, none()),
            (false, _) => (none(), none()),
        })
    }

    fn json(&self, kernel: &Kernel) -> Result<Value, PinError> {
        let controls = native::all().iter().map(|control| {
            let name = self.place.kernel_name(control.name());
            let loaded = match kernel.pinned(&name) {
                Some(pinned) => pinned_json(pinned)?,
                None if kernel.available.contains(&name) => json!({ "name": name }),
                None => Value::Null,
            };
            Ok(control_json(control, None, &loaded))
        });
        Ok(json!({
            "controls": controls.collect::<Result<Vec<_>, PinError>>()?,
            "others": self.others(kernel),
        }))
    }

    /// Names in the kernel other than those of the listed congestion controls.
    fn others<'a>(&self, kernel: &'a Kernel) -> Vec<&'a str> {
        let all = native::all().iter();
        let ours: Vec<String> = all.map(|c| self.place.kernel_name(c.name())).collect();
        let names = kernel.available.iter().filter(|name| !ours.contains(name));
        names.map(String::as_str).collect()
    }
}

impl Kernel {
    fn pinned(&self, name: &str) -> Option<&Pinned> {
        let mut pinned = self.pinned.iter().flatten();
        pinned.find(|pinned| pinned.name() == name)
    }
}
