//! The experiment file: what it describes, with its routes and pipes, and what is wrong with it.
//!
//! [`Experiment::load`] reads a file and checks all of it before anything runs. Nothing here knows an engine.

pub mod diagnostic;
pub mod file;
pub mod pipes;
pub mod topology;
pub mod units_text;

mod experiment;

pub use diagnostic::Diagnostic;
pub use experiment::{Experiment, FlowCopy};
