//! The lab: each host is an unnamed network namespace, and one process emulates the network between
//! the hosts.
//!
//! Each host has one TAP device, held by the emulator. A packet that a host sends is read there,
//! goes through the [`Pipe`](fairwind_path::pipe::Pipe)s on its route (the same code as in the
//! simulator), and is written to the destination host's device when it is due.
//!
//! Nothing has a name that could outlive the process. Namespaces and devices vanish with their last
//! descriptor. Programs are killed with the first process of their PID namespace, and that one with
//! the emulator's process, however it ends.
//!
//! [`exec`] runs one command behind one path; [`emulator`] runs any [`network`].

pub mod application;
pub mod emulator;
pub mod exec;
pub mod host;
pub mod network;
pub mod privilege;

mod clock;
mod error;
mod mounts;

pub use error::LabError;
pub use mounts::own_mounts;
