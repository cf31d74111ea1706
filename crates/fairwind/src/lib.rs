//! What the command line shares with the programs of the experiments: the sites of the lab between
//! which real files move, and how a command fails.

pub mod demo;
pub mod failure;
pub mod interrupt;
pub mod table;
