//! Downloads in the background: the receiver holds the sender down by the window that it offers.
//!
//! [`Law`] says which window; [`Holding`] offers it on a connection of this process.

mod holding;
mod law;

pub use holding::{Held, Holding};
pub use law::{Law, Seen};
