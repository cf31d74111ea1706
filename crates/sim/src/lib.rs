//! A deterministic packet simulator: an event loop, a TCP endpoint that behaves as Linux does,
//! applications and routes, in virtual time. No I/O, no clock, no global state.

pub mod outcome;
pub mod scenario;

use outcome::{Observer, Outcome};
use scenario::Scenario;

/// Runs a scenario to its end.
pub fn run(scenario: &Scenario, observer: &mut dyn Observer) -> Outcome {
    let _ = (scenario, observer);
    unreachable!("under construction")
}
