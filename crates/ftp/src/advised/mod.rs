//! Advice for the data connections of client and server, followed by [`fairwind_transfer::advised`].

mod client;
mod server;

pub use client::AdvisedClient;
pub use server::AdvisedServer;
