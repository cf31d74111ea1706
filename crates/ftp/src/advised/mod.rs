//! Advice applied to live data connections: what somebody who knows the path's history says about
//! congestion control, buffers and pacing.
//!
//! The advisor is asked when a transfer begins and at every next advice time. Asking is done beside the
//! transfer, which never waits for an answer; without a sound one it has the kernel's defaults, and the
//! log has one line. What it may do is bounded by what the transfer itself sees of the path. See `docs/following-advice.md`.

mod advisor;
mod bounds;
mod buffer;
mod client;
mod connection;
mod control;
mod follower;
mod limited;
mod orders;
mod pacing;
mod record;
mod server;
mod sight;

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

pub use advisor::Advisor;
pub use client::AdvisedClient;
pub use follower::Follower;
pub use record::{Event, Journal, Record, Setting};
pub use server::AdvisedServer;

use crate::data::Transfer;

/// Who is followed, how far, and who is told.
#[derive(Debug)]
pub struct Follow {
    /// Who is asked.
    pub advisor: Arc<Advisor>,
    /// Networks to which the paths are the operator's own: there congestion control may be off. Empty:
    /// nowhere.
    pub allow_nocc: Vec<IpNet>,
    /// Where changes are told.
    pub journal: Journal,
}

impl Follow {
    /// Who follows the advisor during this transfer.
    pub fn watch(self: &Arc<Self>, transfer: &Transfer) -> Follower {
        Follower::new(Arc::clone(self), transfer)
    }

    fn permits_nocc(&self, peer: IpAddr) -> bool {
        self.allow_nocc
            .iter()
            .any(|network| network.contains(&peer))
    }
}
