//! A descriptor that is kept for the case that there is none: with it the next client can at least be told.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::protocol::Reply;

/// Time for a client that has been announced to be there.
const MOMENT: Duration = Duration::from_millis(100);

/// The descriptor.
#[derive(Debug)]
pub struct Reserve(Option<OwnedFd>);

impl Reserve {
    /// Takes it, if there is one. It has no path: the server may be able to open few of these.
    pub fn take() -> Self {
        Self(eventfd(0, EventfdFlags::CLOEXEC).ok())
    }

    /// Takes it again if it was lost to somebody who was faster.
    pub fn refill(&mut self) {
        if self.0.is_none() {
            *self = Self::take();
        }
    }

    /// Accepts a client in its place and sends the client away; then there is one less who waits. False if
    /// even that was not possible.
    pub async fn turn_away(&mut self, listener: &TcpListener) -> bool {
        self.0 = None;
        let accepted = timeout(MOMENT, listener.accept()).await;
        let told = match accepted {
            Ok(Ok((stream, _))) => {
                let reply = Reply::new(421, "The server has no descriptor free; try again later");
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
