//! Shared by the command line and the programs of the experiments: the sites of the lab between which real
//! files are moved, and how a command fails.

pub mod demo;
pub mod failure;
pub mod interrupt;
pub mod shell;
pub mod table;
