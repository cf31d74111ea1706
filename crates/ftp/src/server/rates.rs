//! Limits on the rate of a user, of an address and of all transfers together, uploads and downloads alike.
//!
//! A limit is a clock ([`RateClock`]) that all its transfers share: whoever is to move the next piece waits until the time
//! has caught up. So they get the same share of it.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use fairwind_origin::Origin;
use fairwind_transfer::{Gate, RateClock};
use parking_lot::Mutex;

use super::config::Limits;

/// Time that a piece takes at the limit.
const PIECE: Duration = Duration::from_millis(50);

/// Smallest and largest piece, bytes.
const PIECES: (u64, u64) = (1 << 10, 256 << 10);

/// The limits in force, bytes per second; 0: none. A later configuration changes them for running transfers,
/// too.
#[derive(Debug, Default)]
struct Tariff {
    all: AtomicU64,
    user: AtomicU64,
    address: AtomicU64,
}

type Clocks<K> = Mutex<HashMap<K, Weak<RateClock>>>;

/// What all transfers have used of the limits.
#[derive(Debug, Default)]
pub(super) struct Rates {
    tariff: Arc<Tariff>,
    all: Arc<RateClock>,
    users: Clocks<String>,
    addresses: Clocks<Origin>,
}

impl Rates {
    /// Puts these limits into force.
    pub(super) fn set(&self, limits: &Limits) {
        let Tariff { all, user, address } = &*self.tariff;
        all.store(limits.rate, Ordering::Relaxed);
        user.store(limits.rate_per_user, Ordering::Relaxed);
        address.store(limits.rate_per_address, Ordering::Relaxed);
    }

    /// The gate of a transfer of this user, or of somebody without a name, from this address.
    pub(super) fn gate(&self, user: Option<&str>, address: IpAddr) -> RateGate {
        RateGate {
            tariff: Arc::clone(&self.tariff),
            all: Arc::clone(&self.all),
            user: user.map(|user| shared(&self.users, user.to_owned())),
            address: shared(&self.addresses, Origin::from(address)),
        }
    }
}

/// The clock of all transfers with the same key.
fn shared<K: Eq + Hash>(clocks: &Clocks<K>, key: K) -> Arc<RateClock> {
    let mut clocks = clocks.lock();
    if let Some(clock) = clocks.get(&key).and_then(Weak::upgrade) {
        return clock;
    }
    clocks.retain(|_, clock| clock.strong_count() > 0);
    let clock = Arc::default();
    clocks.insert(key, Arc::downgrade(&clock));
    clock
}

/// The limits that hold for one transfer.
#[derive(Debug)]
pub(super) struct RateGate {
    tariff: Arc<Tariff>,
    all: Arc<RateClock>,
    user: Option<Arc<RateClock>>,
    address: Arc<RateClock>,
}

impl RateGate {
    /// The limits in force, bytes per second, and their clocks.
    fn limits(&self) -> impl Iterator<Item = (u64, &RateClock)> {
        let Tariff { all, user, address } = &*self.tariff;
        let limits = [
            Some((all, &*self.all)),
            self.user.as_deref().map(|clock| (user, clock)),
            Some((address, &*self.address)),
        ];
        let limits = limits.into_iter().flatten();
        limits
            .map(|(rate, clock)| (rate.load(Ordering::Relaxed), clock))
            .filter(|(rate, _)| *rate > 0)
    }
}

impl Gate for RateGate {
    fn piece(&self) -> usize {
        let pieces = self.limits().map(|(rate, _)| {
            let piece = rate.saturating_mul(PIECE.as_millis() as u64) / 1_000;
            piece.clamp(PIECES.0, PIECES.1) as usize
        });
        pieces.min().unwrap_or(usize::MAX)
    }

    fn wait(&self, now: Instant) -> Duration {
        let waits = self.limits().map(|(_, clock)| clock.wait(now));
        waits.max().unwrap_or_default()
    }

    fn spent(&self, bytes: usize, now: Instant) {
        for (rate, clock) in self.limits() {
            // What was not used is not saved up, except for a piece.
            clock.spent(bytes, rate, PIECE, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(limits: Limits) -> Rates {
        let rates = Rates::default();
        rates.set(&limits);
        rates
    }

    /// When these gates, used in turn, have moved `bytes` each, seconds.
    fn seconds(gates: &[RateGate], bytes: usize) -> f64 {
        let begin = Instant::now();
        let mut now = begin;
        let mut moved = 0;
        while moved < bytes {
            let piece = gates[0].piece().min(bytes - moved);
            for gate in gates {
                now += gate.wait(now);
                gate.spent(piece, now);
            }
            moved += piece;
        }
        for gate in gates {
            now += gate.wait(now);
        }
        (now - begin).as_secs_f64()
    }

    fn address(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    fn is_near(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 0.001
    }

    #[test]
    fn a_rate_is_kept_and_pieces_take_a_twentieth_of_a_second() {
        let rates = rates(Limits {
            rate: 100_000,
            ..Limits::default()
        });
        let gate = rates.gate(None, address(1));
        assert_eq!(gate.piece(), 5_000);
        assert!(is_near(seconds(&[gate], 300_000), 3.0));
    }

    #[test]
    fn transfers_of_one_user_share_its_rate_and_others_have_their_own() {
        let rates = rates(Limits {
            rate_per_user: 100_000,
            ..Limits::default()
        });
        let gate = |user, number| rates.gate(Some(user), address(number));
        assert!(is_near(
            seconds(&[gate("alice", 1), gate("alice", 2)], 100_000),
            2.0
        ));
        assert!(is_near(
            seconds(&[gate("alice", 1), gate("bob", 1)], 100_000),
            1.0
        ));
        assert!(rates.gate(None, address(1)).wait(Instant::now()).is_zero());
    }

    #[test]
    fn the_tightest_limit_holds_and_a_later_one_at_once() {
        let rates = rates(Limits {
            rate: 1_000_000,
            rate_per_address: 100_000,
            ..Limits::default()
        });
        let gate = rates.gate(Some("alice"), address(1));
        assert_eq!(gate.piece(), 5_000);
        rates.set(&Limits::default());
        assert_eq!(gate.piece(), usize::MAX);
    }

    #[test]
    fn clocks_that_nothing_uses_are_forgotten() {
        let rates = Rates::default();
        for number in 0..=255 {
            rates.gate(Some(&number.to_string()), address(number));
        }
        assert!(rates.users.lock().len() <= 1 && rates.addresses.lock().len() <= 1);
    }
}
