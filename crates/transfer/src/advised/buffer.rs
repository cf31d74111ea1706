//! Whether an advised buffer is set. Setting one ends the kernel's autotuning of it, so that is done only
//! where it gains something:
//!
//! * more is advised than autotuning could ever give (half of `net.ipv4.tcp_wmem[2]`, `tcp_rmem[2]`);
//! * congestion control is off: then the send buffer is what bounds the packets in flight, and its size
//!   is the advised one.
//!
//! Otherwise a buffer that advice has set returns to autotuning, which enlarges it if need be. A buffer
//! that something else has set, the user or dynamic right-sizing, is left alone.

use std::os::fd::BorrowedFd;

use super::record::{Event, EventLog, Setting};
use crate::Direction;
use crate::buffers::{self, Granted};

/// One buffer of a connection, as advice has left it.
#[derive(Debug)]
pub(super) struct Buffer {
    side: Direction,
    /// The size requested, and the size that the kernel then reported, bytes; none while autotuned.
    set: Option<(u32, u64)>,
}

/// The purpose of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It must not be smaller than what the congestion control has in flight.
    FollowsWindow,
    /// Nothing else bounds what is in flight.
    BoundsFlight,
}

/// The size to set, if any, when `advised` bytes are advised and autotuning can reach `adapted`.
fn wanted(advised: Option<u32>, role: Role, adapted: u64) -> Option<u32> {
    advised.filter(|&bytes| role == Role::BoundsFlight || u64::from(bytes) > adapted)
}

impl Buffer {
    /// A buffer that advice has not touched yet.
    pub(super) fn of(side: Direction) -> Self {
        Self { side, set: None }
    }

    /// Does what is advised, where it gains something.
    pub(super) fn follow(
        &mut self,
        socket: BorrowedFd<'_>,
        advised: Option<u32>,
        role: Role,
        log: &mut EventLog<'_>,
    ) {
        let wanted = wanted(advised, role, self.side.buffer_limits().adapted);
        if wanted == self.set.map(|(asked, _)| asked) || self.is_foreign(socket) {
            return;
        }
        let from = self.words();
        match wanted {
            Some(bytes) => self.set(socket, bytes, log),
            None => self.give_back(socket),
        }
        if from != self.words() {
            log.change(Setting::buffer(self.side), from, self.words());
        }
    }

    fn set(&mut self, socket: BorrowedFd<'_>, bytes: u32, log: &mut EventLog<'_>) {
        let Ok(granted) = buffers::set(socket, self.side, bytes) else {
            return;
        };
        let seen = buffers::size(socket, self.side).unwrap_or_default();
        self.set = match granted {
            Granted::Autotuned(_) => None,
            Granted::Whole | Granted::Cut(_) => Some((bytes, seen)),
        };
        if let Granted::Cut(limit) | Granted::Autotuned(limit) = granted {
            log.events.push(Event::Refused {
                what: Setting::buffer(self.side),
                wanted: bytes.to_string(),
                reason: format!("the kernel grants {limit} bytes"),
                fix: format!("sysctl -w {}={bytes}", self.side.buffer_sysctl()),
            });
        }
    }

    fn give_back(&mut self, socket: BorrowedFd<'_>) {
        if buffers::give_back(socket, self.side).is_ok() {
            self.set = None;
        }
    }

    /// Whether something else has set it, or that cannot be told.
    fn is_foreign(&self, socket: BorrowedFd<'_>) -> bool {
        match (buffers::is_set(socket, self.side), self.set) {
            (Ok(set), None) => set,
            (Ok(true), Some((_, seen))) => buffers::size(socket, self.side).ok() != Some(seen),
            (Ok(false), Some(_)) => false,
            (Err(_), _) => true,
        }
    }

    fn words(&self) -> String {
        match self.set {
            None => "autotuned".into(),
            Some((_, seen)) => seen.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_autotuning_can_give_is_left_to_it() {
        assert_eq!(wanted(None, Role::FollowsWindow, 2 << 20), None);
        assert_eq!(wanted(Some(2 << 20), Role::FollowsWindow, 2 << 20), None);
        assert_eq!(
            wanted(Some(3 << 20), Role::FollowsWindow, 2 << 20),
            Some(3 << 20)
        );
    }

    #[test]
    fn without_congestion_control_the_buffer_is_the_one_advised() {
        assert_eq!(
            wanted(Some(1 << 20), Role::BoundsFlight, 2 << 20),
            Some(1 << 20)
        );
        assert_eq!(wanted(None, Role::BoundsFlight, 2 << 20), None);
    }
}
