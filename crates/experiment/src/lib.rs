//! One experiment, two engines, one result: the experiment file, the engines behind one trait,
//! the folder that a run leaves behind, plots, reports and the comparison of any two results.
//!
//! The way through: [`Experiment::load`] reads a file and checks it whole, [`execute::execute`]
//! runs it with an [`engine::Engine`] for every seed and leaves a folder, [`report::write`],
//! [`compare::compare`] and [`overlay::write`] read such folders.

pub mod diagnostic;
pub mod engine;
pub mod execute;
pub mod experiment;
pub mod file;
pub mod pipes;
pub mod topology;
pub mod units_text;

pub mod compare;
pub mod overlay;
pub mod page;
pub mod plot;
pub mod record;
pub mod report;
pub mod result;
pub mod series;

pub use diagnostic::Diagnostic;
pub use engine::{Engine, EngineError};
pub use execute::{Completed, ExecuteError, ExecuteOptions, Progress, execute};
pub use experiment::Experiment;
