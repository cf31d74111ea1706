//! Hosts the congestion controls of `cc/`.
//!
//! Each `cc/<name>.c` is compiled twice: by the host's compiler, for the simulator ([`native`]), and by
//! clang to an eBPF object, for the running kernel ([`kernel`]). This crate calls a congestion control
//! a *control* for short.

mod advised;
#[cfg(test)]
mod checks;
#[cfg(test)]
mod example;
pub mod kernel;
pub mod native;

pub use advised::{AdvisedStart, AdvisedStartError};
