//! Server and client, held to each other, to the RFCs and to those of others.

mod advised;
mod advised_server;
mod advisor;
mod client;
mod common;
mod drs;
mod faults;
mod peers;
mod reported;
mod server;
