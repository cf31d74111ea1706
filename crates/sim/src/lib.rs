//! A deterministic packet simulator: an event loop, a TCP endpoint that behaves as Linux does, and
//! routes, in virtual time. No I/O, no clock, no global state.

pub mod outcome;
pub mod scenario;
pub mod tcp;

pub mod packet;

mod agenda;
mod engine;
mod network;

use outcome::{Observer, Outcome};
use scenario::Scenario;

/// Runs a scenario to its end, or until the observer's `progress` says false.
pub fn run(scenario: &Scenario, observer: &mut dyn Observer) -> Outcome {
    engine::Engine::new(scenario).run(observer)
}
