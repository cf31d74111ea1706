//! A descriptor kept in reserve for when no other is free: with it the next client can at least be told.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::protocol::Reply;

/// Time to accept a client that has been announced.
const ACCEPT_TIMEOUT: Duration = Duration::from_millis(100);

/// The reserved descriptor.
#[derive(Debug)]
pub(super) struct Reserve(Option<OwnedFd>);

impl Reserve {
    /// Reserves it, if one is free. It needs no path: the server may be able to open few of those.
    pub(super) fn take() -> Self {
        Self(eventfd(0, EventfdFlags::CLOEXEC).ok())
    }

    /// Reserves it again if it was lost to someone faster.
    pub(super) fn refill(&mut self) {
        if self.0.is_none() {
            *self = Self::take();
        }
    }

    /// Accepts a client on the reserved descriptor and sends it away, so that one fewer waits. False if
    /// even that failed.
    pub(super) async fn turn_away(&mut self, listener: &TcpListener) -> bool {
        self.0 = None;
        let accepted = timeout(ACCEPT_TIMEOUT, listener.accept()).await;
        let told = match accepted {
            Ok(Ok((stream, _))) => {
                let reply = Reply::new(421, "Server is out of descriptors; try again later");
                // What does not fit into the buffer of a new connection does not matter.
                let _ = stream.try_write(&reply.encode());
                true
            }
            _ => false,
        };
        *self = Self::take();
        told && self.0.is_some()
    }
}
