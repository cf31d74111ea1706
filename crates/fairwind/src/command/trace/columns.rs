//! The columns of a trace's files.

use fairwind_cc::{kernel, native};
use fairwind_scenario::diagnostic::suggestion;
use fairwind_trace::control_state::ControlState;
use fairwind_trace::file::Columns;
use fairwind_trace::instrument::{INSTRUMENTS, Instrument, find};

use crate::failure::Failure;

/// These instruments, or all if none is given, and on request the state of our own congestion controls.
pub(crate) fn columns(
    variables: &[&'static Instrument],
    control_state: bool,
) -> Result<Columns, Failure> {
    let mut columns = Columns::default();
    if !variables.is_empty() {
        // In the table's order, without duplicates.
        let is_wanted = |i: &&Instrument| variables.iter().any(|wanted| wanted.name == i.name);
        columns.instruments = INSTRUMENTS.iter().filter(is_wanted).collect();
    }
    if control_state {
        columns.states = states()?;
    }
    Ok(columns)
}

fn states() -> Result<Vec<ControlState>, Failure> {
    let mut states = Vec::new();
    for control in native::all() {
        let name = control.name();
        let object = kernel::object(name).expect("every control has its object");
        let state = ControlState::of_object(name, object).map_err(Failure::work)?;
        if !state.fields.is_empty() {
            states.push(state);
        }
    }
    Ok(states)
}

/// The instrument of this name, or an error with a suggestion.
pub(crate) fn variable(name: &str) -> Result<&'static Instrument, String> {
    find(name).ok_or_else(|| {
        let names = INSTRUMENTS.iter().map(|instrument| instrument.name);
        match suggestion(name, names) {
            known if known.starts_with("known") => {
                format!("`{name}` is not an instrument; docs/reference/instruments.md lists them")
            }
            meant => format!("`{name}` is not an instrument; {meant}"),
        }
    })
}
