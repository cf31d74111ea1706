//! Server and client, checked against each other, the RFCs, and third-party servers and clients.

mod advised_server;
mod blocks;
mod client;
mod common;
mod drs;
mod faults;
mod fuzz;
mod operator;
mod partials;
mod patterns;
mod peers;
mod proftpd;
mod races;
mod replies;
mod server;
mod strangers;
mod tls;
mod urgent;
