//! `fairwind cc show`.

use clap::Args;
use fairwind_cc::kernel::{About, PinError, Pinned};
use fairwind_cc::native::{Control, Parameters};
use serde_json::{Value, json};

use super::place::Place;
use super::{control_json, users};
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Show a control: its parameters, and their values in the kernel
#[derive(Args)]
pub(crate) struct Show {
    /// Name of the congestion control, in cc/ or in the kernel
    name: String,
    /// Print JSON and nothing else
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Show {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let control = self.place.control(&self.name)?;
        let name = self.place.kernel_name(&self.name);
        let failed = |error: PinError| self.place.failure(&name, &error);
        let pinned = self.place.pins().get(&name).map_err(failed)?;
        let now = match &pinned {
            Some(pinned) => Some(pinned.parameters().map_err(failed)?),
            None => None,
        };
        if self.json {
            let loaded = match &pinned {
                Some(pinned) => pinned_json(pinned).map_err(failed)?,
                None => Value::Null,
            };
            return Ok(output::json(&control_json(control, now.as_ref(), &loaded))?);
        }
        let state = match &pinned {
            Some(pinned) => state(pinned).map_err(failed)?,
            None => "not loaded".to_owned(),
        };
        let head = format!("{}: {}\n{state}\n", control.name(), control.description());
        Ok(output::line(&format!(
            "{head}\n{}",
            table(control, now.as_ref())
        ))?)
    }
}

/// A pinned congestion control, as JSON.
pub(super) fn pinned_json(pinned: &Pinned) -> Result<Value, PinError> {
    Ok(json!({
        "name": pinned.name(),
        "users": pinned.users()?,
        "version": pinned.about().map(|about| &about.version),
        "this_build": pinned.is_this_build(),
        "pins": pinned.folder(),
    }))
}

fn state(pinned: &Pinned) -> Result<String, PinError> {
    Ok(format!(
        "{} in the kernel, from {}; {}\npins in {}",
        pinned.name(),
        build(pinned.about()),
        users(pinned.users()?),
        pinned.folder().display()
    ))
}

fn build(about: Option<&About>) -> String {
    match about {
        Some(about) if about.is_this_build() => format!("this fairwind, {}", about.version),
        Some(about) => format!("another build, fairwind {}", about.version),
        None => "another build".to_owned(),
    }
}

fn table(control: &Control, now: Option<&Parameters>) -> String {
    if control.parameters().is_empty() {
        return "It has no parameters.".to_owned();
    }
    let mut table =
        Table::new("parameter | >now | >default | unit | >least | >greatest | description");
    for p in control.parameters() {
        let value = now.and_then(|now| now.get(p.name()).ok());
        table.row([
            p.name().to_owned(),
            value.map_or("-".to_owned(), |value| value.to_string()),
            p.default_value().to_string(),
            p.unit().to_owned(),
            p.min().to_string(),
            p.max().to_string(),
            p.description().to_owned(),
        ]);
    }
    table.render()
}
