//! Experiment files: what they describe, and what is wrong with them.

mod bad_input;
mod cellular;
mod topology;
