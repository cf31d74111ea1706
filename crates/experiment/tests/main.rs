//! The engines that run experiments, and the results.

mod advised_start;
mod background;
mod determinism;
mod execute;
mod pipes;
mod simulation;
mod states;
mod stopped;
mod switch;
