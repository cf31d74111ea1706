//! Dynamic right-sizing: buffers of a data connection that follow the bandwidth-delay product of its path.
//!
//! Engelhart, Gardner, Feng, "Re-Architecting Flow-Control Adaptation for Grid Environments" (IPDPS
//! 2004): the receiver of a file measures the bandwidth by what arrives, and the round trip by messages
//! that the sender echoes on a second connection; it sets its buffer to twice their product and asks
//! the sender for the same. See `docs/drs.md`.
//!
//! Both ends say so on their control connections: a server lists `DRS` in its answer to FEAT, a client
//! says `OPTS DRS <token>`, to both servers if the transfer is between two.

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

/// The feature's name, and that of its options.
const NAME: &str = "DRS";
