//! Paths as state machines: pipes, queues, schedulers, loss and recorded traces.
//!
//! A [`pipe::Pipe`] is given a packet and a time and says when the packet reaches the far end, that
//! it waits, or that it is lost. Nothing here reads a clock or does I/O, so the simulator drives the
//! same code in virtual time as an emulator drives in real time.
//!
//! The vocabulary is Dummynet's: a pipe has a bandwidth, a delay and a queue of limited size; an
//! active queue management and a scheduler may stand in it.

pub mod accounting;
pub mod pipe;
pub mod queue;
pub mod rate;
pub mod statistics;
pub mod trace;
pub mod units;

pub mod codel;
pub mod delay;
pub mod loss;
pub mod red;
pub mod scheduler;

mod config;
mod held;
mod random;
mod wf2q;
