//! What runs an experiment: the simulator, or the lab on the real kernel.

use crate::experiment::Experiment;
use crate::record::Recorder;
use crate::result::RunResult;

pub mod performance;
pub mod sim;

/// Runs an experiment once with one seed.
pub trait Engine: Sync {
    /// Its word in results: `sim`, `lab`.
    fn name(&self) -> &'static str;

    /// Runs the experiment and gives its totals. Samples go to `recorder` if it records. `progress`
    /// is told the share of the run that is done, 0 to 1, and stops the run by answering false.
    ///
    /// # Errors
    /// If the run was stopped, or the engine cannot run this experiment here.
    fn run(
        &self,
        experiment: &Experiment,
        seed: u64,
        recorder: &mut dyn Recorder,
        progress: &dyn Fn(f64) -> bool,
    ) -> Result<RunResult, EngineError>;
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// `progress` answered false, or the recorder failed.
    #[error("stopped before its end")]
    Stopped,
    /// The experiment is right, but not for this engine or machine.
    #[error("{message}\n  help: {help}")]
    Unable {
        /// What cannot be done.
        message: String,
        /// What would help.
        help: String,
    },
}
