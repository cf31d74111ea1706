//! Holds `cc/reno.c` and `cc/cubic.c` to the kernel's reno and cubic, call by call.
//!
//! A [`recorder`] is a congestion control in eBPF whose hooks call the kernel's own functions and
//! write down what those could read and what they did. Connections over the paths of [`path`] take
//! it, and what it wrote becomes a [`recording::Recording`] each, which files keep in few bytes.
//! [`replay`] feeds the recorded calls to the native build of our control and compares.
//!
//! In the same way the simulator's whole sender is held to the kernel's: a [`tap`] records what the
//! kernel's receives and how it stands, and [`core`] gives the same to the simulator's.

pub mod call;
mod column;
pub mod core;
pub mod exchange;
pub mod path;
mod programs;
pub mod recorder;
pub mod recording;
pub mod replay;
mod table;
pub mod tap;
