//! `fairwind cc`: the congestion controls of `cc/`.

use clap::{Args, Subcommand};
use fairwind_cc::native::{self, Control};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output;
use crate::table::Table;

#[derive(Subcommand)]
pub enum Command {
    List(List),
}

impl Command {
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(),
        }
    }
}

/// List the congestion controls and their parameters
#[derive(Args)]
#[command(after_help = "\
Experiment files name a control as congestion_control = \"sfsack\" and set its parameters as
parameters = { tau = \"50ms\" }.

Example:
  fairwind cc list --json | jq -r '.[].name'")]
pub struct List {
    /// Print the list as JSON and nothing else
    #[arg(long)]
    json: bool,
}

impl List {
    fn run(self) -> Result<(), Failure> {
        match self.json {
            true => output::json(&native::all().iter().map(|c| control_json(c)).collect())?,
            false => output::line(&text())?,
        }
        Ok(())
    }
}

fn text() -> String {
    let mut controls = Table::new().words("control").words("description");
    let mut parameters = Table::new()
        .words("parameter")
        .words("of")
        .words("unit")
        .numbers("default")
        .numbers("least")
        .numbers("greatest")
        .words("description");
    for control in native::all() {
        controls.row([control.name().to_owned(), control.description().to_owned()]);
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
    format!("{}\n{}", controls.render(), parameters.render())
}

fn control_json(control: &Control) -> Value {
    let parameters: Vec<Value> = control
        .parameters()
        .iter()
        .map(|p| {
            json!({
                "name": p.name(), "unit": p.unit(), "default": p.default_value(),
                "min": p.min(), "max": p.max(), "description": p.description(),
            })
        })
        .collect();
    json!({
        "name": control.name(),
        "description": control.description(),
        "parameters": parameters,
    })
}
