//! A deterministic packet simulator in virtual time: an event loop, TCP endpoints that behave as
//! Linux does, and routes made of pipes. No I/O, no real clock, no global state.

pub mod outcome;
pub mod scenario;
pub mod tcp;

pub mod packet;

mod agenda;
mod engine;
mod network;

use outcome::{Observer, Outcome};
use scenario::Scenario;

/// Runs a scenario to its end, or until [`Observer::progress`] returns false.
pub fn run(scenario: &Scenario, observer: &mut dyn Observer) -> Outcome {
    engine::Engine::new(scenario).run(observer)
}
