//! Experiment files, what runs them, and what a run leaves.

mod bad_input;
mod cellular;
mod determinism;
mod execute;
mod simulation;
mod switch;
mod topology;
