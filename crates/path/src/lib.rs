//! Paths as state machines: pipes, queues, schedulers, loss and recorded traces.
//!
//! A [`pipe::Pipe`] takes a packet and its time of arrival, and answers when the packet reaches the
//! far end, that it is held, or that it is lost. Nothing here reads a clock or does I/O, so the same
//! code runs in virtual time in the simulator and in real time in an emulator.
//!
//! The vocabulary is Dummynet's: a pipe has a bandwidth, a delay and a queue of limited size, and may
//! have active queue management (AQM) and a scheduler. [`routes`] says which pipes a packet takes.

pub mod accounting;
pub mod aggregation;
pub mod ecn;
pub mod pipe;
pub mod queue;
pub mod rate;
pub mod routes;
pub mod statistics;
pub mod trace;
pub mod units;

pub mod codel;
pub mod delay;
pub mod dualpi2;
pub mod fq_codel;
pub mod loss;
pub mod pie;
pub mod policer;
pub mod red;
pub mod scheduler;

#[cfg(feature = "schema")]
pub mod schema;

mod config;
mod held;
mod random;
mod wf2q;
