//! What runs an experiment: the simulator, or the lab on the real kernel.

use std::path::Path;

use fairwind_lab::LabError;
use fairwind_trace::kernel::TraceError;

use crate::experiment::Experiment;
use crate::record::Recorder;
use crate::result::RunResult;

pub mod lab;
pub mod performance;
pub mod sim;

mod totals;
mod work;

/// One run that an engine is to do.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What is to be run.
    pub experiment: &'a Experiment,
    /// Seed of every random choice.
    pub seed: u64,
    /// The folder of the result, which is there; for files of the engine's own.
    pub folder: &'a Path,
}

/// Runs an experiment once with one seed.
pub trait Engine: Sync {
    /// Its word in results: `sim`, `lab`.
    fn name(&self) -> &'static str;

    /// Whether a run takes its time on the clock. Such runs are done one after the other, and what
    /// was measured before a failure is kept, since no other run would measure the same.
    fn is_real_time(&self) -> bool {
        false
    }

    /// Runs the experiment and gives its totals. Samples go to `recorder` if it records. `progress`
    /// is told the share of the run that is done, 0 to 1, and stops the run by answering false.
    ///
    /// # Errors
    /// If the run was stopped, or the engine cannot run this experiment here. A run in real time that
    /// has begun is no error but an incomplete result.
    fn run(
        &self,
        run: Run<'_>,
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
    /// The lab cannot do it on this machine.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The instruments of the running kernel cannot be read.
    #[error("{0}\n  help: `fairwind sim run` needs neither this nor privileges")]
    Trace(#[from] TraceError),
}
