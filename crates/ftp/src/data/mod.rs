//! The data connection: how it is opened, how it is tuned while it is open, and the loops that move files
//! through it.

pub mod ascii;
pub mod buffers;
mod moving;
mod plan;
mod reach;
mod watcher;

pub use moving::{Bounds, Meter, Mover, TransferError};
pub use plan::{Buffer, SocketPlan};
pub use reach::limit_silence;
pub use watcher::{Direction, Transfer, TransferWatcher, Watchers};
