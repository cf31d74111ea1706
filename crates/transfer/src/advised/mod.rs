//! Advice applied to live data connections: congestion control, buffers and pacing, as recommended by an
//! advisor that knows the path's history.
//!
//! The advisor is asked when a transfer begins and whenever the next advice is due, in a separate thread.
//! At most the first byte waits for it, for a few milliseconds. Without sound advice a transfer has the
//! kernel's defaults, and the log has one line. What advice may do is bounded by what the transfer itself
//! observes of the path. See `docs/explanation/advice-during-a-transfer.md`.

mod advisor;
mod bounds;
mod buffer;
mod congestion_control;
mod connection;
mod follower;
mod lent;
mod limited;
mod observer;
mod orders;
mod record;
mod starts;

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

pub use advisor::Advisor;
pub use congestion_control::Refusal;
pub(crate) use congestion_control::refusal;
pub use follower::{FollowedTransfer, Follower};
pub use lent::Lent;
pub use orders::Orders;
pub use record::{Event, Journal, Record, Setting};
pub use starts::forecast;

use crate::Transfer;

/// The advisor to follow, how far to follow it, and where to record that.
#[derive(Debug)]
pub struct Follow {
    /// The advisor that is asked.
    pub advisor: Arc<Advisor>,
    /// Networks to which the paths are the operator's own: there congestion control may be off. Empty:
    /// nowhere.
    pub allow_nocc: Vec<IpNet>,
    /// Where changes are recorded.
    pub journal: Journal,
}

impl Follow {
    /// A watcher that follows the advisor during this transfer.
    pub fn watch(self: &Arc<Self>, transfer: &Transfer) -> Follower {
        Follower::new(Arc::clone(self), transfer)
    }

    fn permits_nocc(&self, peer: IpAddr) -> bool {
        self.allow_nocc
            .iter()
            .any(|network| network.contains(&peer))
    }
}
