//! What a follower needs to know of a loopback connection.

use std::net::TcpStream;
use std::sync::Arc;

use fairwind_transfer::advised::{Advisor, Follow, Journal};
use fairwind_transfer::{Direction, Transfer};

/// Follows the advisor at this URL, which may switch congestion control off in these networks.
pub(crate) fn follow(url: &str, allow_nocc: &[&str]) -> Arc<Follow> {
    Arc::new(Follow {
        advisor: Arc::new(Advisor::at(url).unwrap()),
        allow_nocc: allow_nocc.iter().map(|net| net.parse().unwrap()).collect(),
        journal: Journal::default(),
    })
}

/// A transfer over this connection.
pub(crate) fn transfer(near: &TcpStream, direction: Direction, total: Option<u64>) -> Transfer {
    Transfer {
        direction,
        local: near.local_addr().unwrap(),
        peer: near.peer_addr().unwrap(),
        listener: None,
        total,
        protector: None,
    }
}
