//! The lab: hosts are network namespaces without names, and one process is the network between them.
//!
//! Each host has one TUN device whose other side the emulator holds. A packet that a host sends is
//! read there, goes through the [`Pipe`](fairwind_path::pipe::Pipe)s on its route, which are those of
//! the simulator, and is written to the device of the host that it is for, when its time has come.
//!
//! Nothing has a name that could outlive the process: namespaces and devices vanish with the last
//! descriptor, programs with the process that is the first of their PID namespace, and that one
//! with the emulator's process, however it ends.
//!
//! [`exec`] puts one command behind one path. [`emulator`] runs any [`network`].

pub mod application;
pub mod congestion_control;
pub mod emulator;
pub mod error;
pub mod exec;
pub mod host;
pub mod lateness;
pub mod machine;
pub mod network;
pub mod privilege;
pub mod statistics;

mod arena;
mod capture;
mod classifier;
mod clock;
mod delivery;
mod departures;
mod interface;
mod merge;
mod milestones;
mod namespace;
mod netlink;
mod pause;
mod pcapng;
mod process;
mod program;
mod queueing;
mod ring;
mod route;
mod segment;
mod sysfs;
mod transit;
mod tun;
mod uplink;
mod vnet;
mod wakeful;
mod worker;

pub use error::LabError;
