//! Dynamic right-sizing: buffers of a data connection that follow the bandwidth-delay product of its
//! path.
//!
//! Engelhart, Gardner, Feng, "Re-Architecting Flow-Control Adaptation for Grid Environments" (IPDPS
//! 2004): the receiver of a file measures the bandwidth from the bytes that arrive, and the round-trip
//! time with messages that the sender echoes on a second connection; it sets its buffer to twice their
//! product and asks the sender for the same. See `docs/explanation/right-sizing.md`.
//!
//! How the two hosts agree on it, and on the [`Token`] by which they recognise each other, is up to the
//! protocol above.

mod alone;
mod budget;
mod channel;
mod estimator;
mod message;
mod rate;
mod record;
mod sized_buffer;
mod token;
mod watcher;

pub use alone::SizedAlone;
pub use budget::{Budget, Caps, Share};
pub use estimator::{Estimate, Settings};
pub use record::{Cause, Record, Resize, SharedRecord};
pub use token::Token;
pub use watcher::RightSizing;
