//! Compares `cc/reno.c` and `cc/cubic.c` with the kernel's reno and cubic, call by call.
//!
//! A [`recorder`] is a congestion control in eBPF whose hooks call the kernel's own functions and
//! record what those could read and what they did. Connections over the paths of [`path`] use it,
//! and its output becomes one [`recording::Recording`] per connection, stored in compact files.
//! [`control`] feeds the recorded calls to the native build of our congestion control and compares.
//!
//! In the same way the simulator's whole sender is compared with the kernel's: a [`tap`] records
//! what the kernel's sender receives and its state, and [`sender`] gives the same input to the
//! simulator's.

pub mod call;
mod column;
pub mod control;
pub mod exchange;
mod file;
pub mod path;
mod programs;
pub mod recorder;
pub mod recording;
pub mod sender;
mod table;
pub mod tap;
