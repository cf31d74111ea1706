//! Dynamic right-sizing over FTP: how client and server agree on it. Their buffers are then sized by
//! [`fairwind_transfer::drs`].
//!
//! It is negotiated on the control connection: a server lists `DRS` in its reply to FEAT, and a client
//! sends `OPTS DRS <token>`, to both servers if the transfer is between two.

mod client;
mod server;

pub use client::RightSizingClient;
pub use server::RightSizingServer;

/// Its name in FEAT and OPTS.
const NAME: &str = "DRS";
