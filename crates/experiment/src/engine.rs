//! The engines that run an experiment: the simulator, and the lab on the real kernel.

use std::path::Path;

use fairwind_lab::LabError;
use fairwind_result::RunResult;
use fairwind_result::record::Recorder;
use fairwind_scenario::Experiment;
use fairwind_trace::kernel::TraceError;

pub mod lab;
pub mod sim;

mod performance;
mod totals;
mod work;

/// One run for an engine.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The experiment to run.
    pub experiment: &'a Experiment,
    /// Seed of every random choice.
    pub seed: u64,
    /// The result's folder, which exists; for additional files of the engine.
    pub folder: &'a Path,
}

/// Runs an experiment once with one seed.
pub trait Engine: Sync {
    /// Its name in results: `sim` or `lab`.
    fn name(&self) -> &'static str;

    /// Whether a run takes as long on the clock as in the experiment. Such runs are executed one after the
    /// other, and what was measured before a failure is kept, since no other run would measure the same.
    fn is_real_time(&self) -> bool {
        false
    }

    /// Runs the experiment and returns its totals. Samples go to `recorder` if it records. `progress`
    /// receives the share of the run that is done, 0 to 1, and stops the run by returning false.
    ///
    /// # Errors
    /// Fails if the run was stopped, or if the engine cannot run this experiment on this machine. A real-time
    /// run that fails after it has begun is not an error but an incomplete result.
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
    /// `progress` returned false, or the recorder failed.
    #[error("stopped early")]
    Stopped,
    /// The experiment is valid, but this engine or machine cannot run it.
    #[error("{message}\n  help: {help}")]
    Unable {
        /// What cannot be done.
        message: String,
        /// What would help.
        help: String,
    },
    /// The lab cannot run it on this machine.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The instruments of the running kernel cannot be read.
    #[error("{0}\n  help: `fairwind sim run` needs neither this nor privileges")]
    Trace(#[from] TraceError),
}

impl EngineError {
    fn unable(message: String, help: impl Into<String>) -> EngineError {
        let help = help.into();
        EngineError::Unable { message, help }
    }
}
