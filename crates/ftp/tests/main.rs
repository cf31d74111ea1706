//! Server and client, held to each other, to the RFCs and to those of others.

mod advised;
mod advised_server;
mod advisor;
mod client;
mod common;
mod drs;
mod faults;
mod partials;
mod patterns;
mod peers;
mod replies;
mod reported;
mod server;
mod strangers;
