//! The lab as an engine: runs the experiment with the running kernel's TCP, over emulated paths, in
//! real time.

use fairwind_lab::host::Offload;
use fairwind_result::RunResult;
use fairwind_result::record::Recorder;

use super::{Engine, EngineError, Run};

mod connections;
mod controls;
mod instruments;
mod plan;
mod run;
mod stack;
mod totals;

/// Runs experiments in real time on the running kernel with `fairwind-lab`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lab {
    /// Who segments what the hosts send.
    pub offload: Offload,
    /// Whether the congestion controls of `cc/` are used even where the kernel has its own.
    pub own_controls: bool,
}

impl Engine for Lab {
    fn name(&self) -> &'static str {
        "lab"
    }

    fn is_real_time(&self) -> bool {
        true
    }

    fn run(
        &self,
        run: Run<'_>,
        recorder: &mut dyn Recorder,
        progress: &dyn Fn(f64) -> bool,
    ) -> Result<RunResult, EngineError> {
        run::run(self, run, recorder, progress)
    }
}
