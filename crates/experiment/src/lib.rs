//! Runs experiments: the engines behind one trait, and the folder that a run leaves.
//!
//! [`execute::execute`] runs an experiment with an [`engine::Engine`] for every seed and writes a folder, which
//! [`fairwind_result`] and [`fairwind_report`] read.

pub mod engine;
pub mod execute;

pub use engine::{Engine, EngineError};
pub use execute::{Completed, ExecuteError, ExecuteOptions, Progress, execute};
