//! Dynamic right-sizing: buffers of a data connection that follow the bandwidth-delay product of its
//! path.
//!
//! Engelhart, Gardner, Feng, "Re-Architecting Flow-Control Adaptation for Grid Environments" (IPDPS
//! 2004): the receiver of a file measures the bandwidth from the bytes that arrive, and the round-trip
//! time with messages that the sender echoes on a second connection; it sets its buffer to twice their
//! product and asks the sender for the same. See `docs/explanation/right-sizing.md`.
//!
//! It is negotiated on the control connection: a server lists `DRS` in its reply to FEAT, and a client
//! sends `OPTS DRS <token>`, to both servers if the transfer is between two.

mod budget;
mod channel;
mod client;
mod estimator;
mod message;
mod rate;
mod record;
mod server;
mod sized;
mod token;
mod watcher;

pub use budget::{Budget, Caps, Share};
pub use client::RightSizingClient;
pub use estimator::{Estimate, Estimator, Settings};
pub use message::{Line, Lines, Sbuf};
pub use record::{Record, Resize};
pub use server::RightSizingServer;
pub use token::Token;
pub use watcher::RightSizing;

/// Its name in FEAT and OPTS.
const NAME: &str = "DRS";
