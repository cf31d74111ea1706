//! Experiments: the file that describes one, the engines that run it behind one trait, the folder that a run
//! produces, and plots, reports and comparisons of results.
//!
//! [`Experiment::load`] reads a file and checks all of it, [`execute::execute`] runs it with an
//! [`engine::Engine`] for every seed and writes a folder; [`report::write`], [`compare::compare`] and
//! [`overlay::write`] read such folders.

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
