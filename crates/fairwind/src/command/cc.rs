//! `fairwind cc`: the congestion controls of `cc/`, and those in the running kernel.

mod list;
mod load;
mod place;
mod set;
mod show;
mod unload;
pub(crate) mod value;

use clap::Subcommand;
use serde_json::{Value, json};

use fairwind_cc::native::{Parameter, Parameters};

use crate::failure::{Failure, all_of};

#[derive(Subcommand)]
pub(crate) enum Command {
    List(list::List),
    Load(load::Load),
    Unload(unload::Unload),
    Show(show::Show),
    Set(set::Set),
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(command) => command.run(),
            Self::Load(command) => command.run(),
            Self::Unload(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Set(command) => command.run(),
        }
    }
}

/// A parameter, with its value in the kernel if it has one there.
fn parameter_json(parameter: &Parameter, now: Option<&Parameters>) -> Value {
    let mut object = json!({
        "name": parameter.name(), "unit": parameter.unit(),
        "default": parameter.default_value(),
        "min": parameter.min(), "max": parameter.max(),
        "description": parameter.description(),
    });
    if let Some(value) = now.and_then(|now| now.get(parameter.name()).ok()) {
        object["value"] = json!(value);
    }
    object
}

/// `3 users`, and who counts as one.
fn users(number: u32) -> String {
    format!(
        "{number} {} (connections, and network namespaces whose default it is)",
        if number == 1 { "user" } else { "users" }
    )
}

/// Acts on each. A `Failure::Work` does not stop it; all of them are reported at the end.
fn for_each<T>(
    all: impl IntoIterator<Item = T>,
    mut act: impl FnMut(T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for one in all {
        match act(one) {
            Err(Failure::Work(what)) => failures.push(what),
            outcome => outcome?,
        }
    }
    all_of(failures)
}
