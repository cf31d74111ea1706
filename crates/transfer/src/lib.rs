//! Transfers over TCP, whatever protocol agrees on them: the options of a data connection ([`SocketPlan`],
//! [`buffers`]), the loops that move files through it ([`Mover`]), and what follows it while it is open, so
//! that its buffers fit the path ([`drs`]) and its congestion control is the one that an advisor recommends
//! ([`advised`]); or holds a download down to what others leave ([`background`]).

pub mod advised;
pub mod background;
pub mod buffers;
pub mod drs;
mod gate;
mod keepalive;
mod mover;
mod pipe;
mod plan;
mod protection;
mod rate_limited_log;
mod watcher;

pub use gate::{Gate, Open, RateClock};
pub use keepalive::limit_silence;
pub use mover::{Bounds, Meter, Mover, TransferError};
pub use plan::{Buffer, SocketPlan};
pub use protection::{Protection, Protector};
pub use rate_limited_log::RateLimitedLog;
pub use watcher::{Direction, Transfer, TransferWatcher, Watchers};
