//! Limits on all right-sized buffers of a server together, and on those of one client's address: a client
//! that asks for the largest buffer pins that much kernel memory.

use std::sync::Arc;

use fairwind_origin::{Origin, Tally};
use parking_lot::Mutex;

/// Limits on buffers, in bytes as passed to setsockopt; the kernel takes up to twice as much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// All buffers together.
    pub all: u64,
    /// The buffers of one address (of one [`Origin`]).
    pub own: u64,
}

/// The bytes taken by each origin.
#[derive(Debug, Clone, Default)]
pub struct Budget(Arc<Mutex<Tally>>);

/// One connection's part of the budget, returned when it is dropped.
#[derive(Debug)]
pub struct Share {
    /// None if there is no budget.
    budget: Option<(Budget, Caps, Origin)>,
    bytes: u64,
}

impl Default for Caps {
    /// No limits.
    fn default() -> Self {
        Self {
            all: u64::MAX,
            own: u64::MAX,
        }
    }
}

impl Budget {
    /// The share of a connection from `origin`, empty at first.
    pub fn share(&self, caps: Caps, origin: Origin) -> Share {
        Share {
            budget: Some((self.clone(), caps, origin)),
            bytes: 0,
        }
    }
}

impl Share {
    /// A share that grants every request.
    pub fn unlimited() -> Self {
        Self {
            budget: None,
            bytes: 0,
        }
    }

    /// Whether there is a budget.
    pub fn is_limited(&self) -> bool {
        self.budget.is_some()
    }

    /// Brings this share as close to `wanted` bytes as the budget allows; returns its size then.
    pub fn resize(&mut self, wanted: u64) -> u64 {
        let Some((budget, caps, origin)) = &self.budget else {
            return wanted;
        };
        let mut taken = budget.0.lock();
        let (all, own) = (taken.total(), taken.of(*origin));
        let left = |cap: u64, taken: u64| cap.saturating_sub(taken - self.bytes);
        let left = left(caps.all, all).min(left(caps.own, own));
        let bytes = wanted.min(left);
        taken.set(*origin, own - self.bytes + bytes);
        self.bytes = bytes;
        bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const CAPS: Caps = Caps { all: 100, own: 60 };

    fn share(budget: &Budget, last: u8) -> Share {
        budget.share(CAPS, Origin::from(IpAddr::from([192, 0, 2, last])))
    }

    #[test]
    fn an_address_has_its_part_and_all_have_the_whole() {
        let budget = Budget::default();
        let (mut one, mut two) = (share(&budget, 1), share(&budget, 1));
        let mut other = share(&budget, 2);
        assert_eq!(one.resize(40), 40);
        assert_eq!(two.resize(40), 20);
        assert_eq!(other.resize(80), 40);
        // What one gives back, others may have.
        assert_eq!(one.resize(10), 10);
        assert_eq!(two.resize(40), 40);
        assert_eq!(other.resize(80), 50);
        drop((one, two));
        assert_eq!(other.resize(80), 60);
        drop(other);
        assert_eq!(*budget.0.lock(), Tally::default());
    }

    #[test]
    fn without_a_budget_there_is_no_bound() {
        assert_eq!(Share::unlimited().resize(u64::MAX), u64::MAX);
    }
}
