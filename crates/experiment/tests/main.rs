//! Experiment files, the engines that run them, and the results.

mod bad_input;
mod cellular;
mod determinism;
mod execute;
mod simulation;
mod switch;
mod topology;
