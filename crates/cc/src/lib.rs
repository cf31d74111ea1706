//! Hosts the congestion controls of `cc/`.
//!
//! Each `cc/<name>.c` is compiled twice: by the host's compiler, to be called by the simulator
//! ([`native`]), and by clang to an eBPF object, to be loaded into the running kernel ([`kernel`]).

#[cfg(test)]
mod example;
pub mod kernel;
pub mod native;
