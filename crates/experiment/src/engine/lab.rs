//! The lab as an engine: runs the experiment with the running kernel's TCP, over emulated paths, in
//! real time.

use fairwind_lab::host::Offload;

mod advice;
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
