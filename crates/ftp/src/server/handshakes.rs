//! Handshakes of TLS on control connections, which cost the server more than its clients: each address has a number of
//! them a minute.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fairwind_origin::Origin;
use parking_lot::Mutex;

use super::origins::make_room;

/// The time that a number a minute is for.
const MINUTE: Duration = Duration::from_secs(60);

/// For each origin, the time by which its handshakes would have come evenly (the generic cell rate algorithm,
/// ITU-T I.371).
#[derive(Debug, Default)]
pub(super) struct Handshakes(Mutex<HashMap<Origin, Instant>>);

impl Handshakes {
    /// Whether an origin may have another handshake; counts it if so. At most `per_minute` come at once; 0: no limit.
    pub(super) fn admit(&self, origin: Origin, now: Instant, per_minute: u32) -> bool {
        if per_minute == 0 {
            return true;
        }
        let mut due = self.0.lock();
        // Who has had the fewest is forgotten first.
        make_room(&mut due, origin, |next| *next <= now, |next| *next);
        let next = due.entry(origin).or_insert(now);
        let begin = (*next).max(now);
        let end = begin + MINUTE / per_minute;
        if end - now > MINUTE {
            return false;
        }
        *next = end;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::super::origins::MOST;
    use super::*;

    fn origin(number: u32) -> Origin {
        Origin::from(IpAddr::from(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn an_origin_has_a_number_at_once_and_then_one_at_a_time() {
        let (handshakes, begin) = (Handshakes::default(), Instant::now());
        let admitted = |origin, seconds| {
            let now = begin + Duration::from_secs(seconds);
            (0..100)
                .take_while(|_| handshakes.admit(origin, now, 6))
                .count()
        };
        assert_eq!(admitted(origin(1), 0), 6);
        assert_eq!(admitted(origin(2), 0), 6);
        assert_eq!(admitted(origin(1), 9), 0);
        assert_eq!(admitted(origin(1), 10), 1);
        assert_eq!(admitted(origin(1), 40), 3);
        assert_eq!(admitted(origin(1), 200), 6);
        assert!((0..1_000).all(|_| handshakes.admit(origin(3), begin, 0)));
    }

    #[test]
    fn who_has_had_most_is_remembered_when_there_is_no_room() {
        let (handshakes, now) = (Handshakes::default(), Instant::now());
        assert!(handshakes.admit(origin(0), now, 2) && handshakes.admit(origin(0), now, 2));
        for number in 1..=2 * MOST as u32 {
            assert!(handshakes.admit(origin(number), now, 2));
        }
        assert_eq!(handshakes.0.lock().len(), MOST);
        assert!(!handshakes.admit(origin(0), now, 2));
    }
}
