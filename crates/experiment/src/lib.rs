//! Runs experiments: the engines behind one trait, the folder that a run produces, and plots, reports and
//! comparisons of results.
//!
//! [`execute::execute`] runs an experiment with an [`engine::Engine`] for every seed and writes a folder;
//! [`report::write`], [`compare::compare`] and [`overlay::write`] read such folders.

pub mod engine;
pub mod execute;

pub mod compare;
pub mod overlay;
pub mod page;
pub mod plot;
pub mod record;
pub mod report;
pub mod result;
pub mod series;

pub use engine::{Engine, EngineError};
pub use execute::{Completed, ExecuteError, ExecuteOptions, Progress, execute};
