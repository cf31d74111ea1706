//! Invariants of advice, worked examples, and accuracy on recorded series.

mod accuracy;
mod advice;
mod backtest;
mod common;
mod gate;
mod generate;
mod laws;
mod linear;
mod profile;
mod watch;
