//! Transfers in the background: what is sent has the congestion control for that, [`Control`]; what is received is
//! held down by the window that the receiver offers. [`Law`] says which window; [`Holding`] offers it on a
//! connection of this process.

mod control;
mod holding;
mod law;
mod neighbours;

pub use control::{Control, ControlError};
pub use holding::{Held, Holding};
pub use law::{Law, Seen};
pub use neighbours::{Arrived, Beside, Neighbours, mark, unmark};
