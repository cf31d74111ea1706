//! `fairwind cc`: the congestion controls of `cc/`, and those in the running kernel.

mod advise;
mod list;
mod load;
mod place;
mod set;
mod show;
mod unload;
pub(crate) mod value;

use clap::Subcommand;
use serde_json::{Value, json};

use fairwind_cc::native::{Control, Parameter, Parameters};

use crate::failure::{Failure, all_of};

#[derive(Subcommand)]
pub(crate) enum Command {
    List(list::List),
    Load(load::Load),
    Unload(unload::Unload),
    Show(show::Show),
    Set(set::Set),
    Advise(advise::Advise),
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(command) => command.run(),
            Self::Load(command) => command.run(),
            Self::Unload(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Set(command) => command.run(),
            Self::Advise(command) => command.run(),
        }
    }
}

/// `nocc` without `--allow-nocc`.
pub(super) fn nocc_refused() -> Failure {
    Failure::input(
        "nocc switches congestion control off: on a path that is not all yours it is an attack on \
         everybody else there. In the lab (`fairwind lab`) it needs no permission; for this \
         machine's own connections say --allow-nocc",
    )
}

/// A control and its parameters, with their values in the kernel if they have any there, and what is `loaded`.
fn control_json(control: &Control, now: Option<&Parameters>, loaded: &Value) -> Value {
    let parameter = |parameter: &Parameter| {
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
    };
    let parameters = control.parameters().iter();
    json!({
        "name": control.name(),
        "description": control.description(),
        "parameters": parameters.map(parameter).collect::<Vec<_>>(),
        "loaded": loaded,
    })
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
