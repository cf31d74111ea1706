//! Wrong passwords, remembered by origin beyond the session: each makes the next one wait longer, and
//! after a number of them named users cannot log in from there for a while.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fairwind_origin::Origin;
use parking_lot::Mutex;

use super::config::Limits;
use super::origins::make_room;

/// Most doublings of the pause.
const DOUBLINGS: u32 = 4;

/// The wrong guesses of each origin.
#[derive(Debug, Default)]
pub(super) struct Guesses(Mutex<HashMap<Origin, Wrong>>);

#[derive(Debug, Clone, Copy)]
struct Wrong {
    count: u32,
    last: Instant,
}

impl Wrong {
    fn is_over(&self, now: Instant, limits: &Limits) -> bool {
        now.saturating_duration_since(self.last) >= ban(limits)
    }
}

fn ban(limits: &Limits) -> Duration {
    Duration::from_secs(limits.login_ban_s)
}

impl Guesses {
    /// Counts another wrong password; returns how long to delay the reply.
    pub(super) fn add(&self, origin: Origin, now: Instant, limits: &Limits) -> Duration {
        let mut guesses = self.0.lock();
        // Who has the fewest and oldest guesses is forgotten first.
        let is_over = |wrong: &Wrong| wrong.is_over(now, limits);
        make_room(&mut guesses, origin, is_over, |wrong| {
            (wrong.count, wrong.last)
        });
        let wrong = guesses.entry(origin).or_insert(Wrong {
            count: 0,
            last: now,
        });
        if wrong.is_over(now, limits) {
            wrong.count = 0;
        }
        wrong.count = wrong.count.saturating_add(1);
        wrong.last = now;
        let doublings = (wrong.count - 1).min(DOUBLINGS);
        Duration::from_millis(limits.login_pause_ms) * (1 << doublings)
    }

    /// Number of wrong passwords remembered for `origin`.
    pub(super) fn count(&self, origin: Origin, now: Instant, limits: &Limits) -> u32 {
        match self.0.lock().get(&origin) {
            Some(wrong) if !wrong.is_over(now, limits) => wrong.count,
            _ => 0,
        }
    }

    /// How much longer named users cannot log in from there; none if they can.
    pub(super) fn banned(&self, origin: Origin, now: Instant, limits: &Limits) -> Option<Duration> {
        let guesses = self.0.lock();
        let wrong = guesses.get(&origin)?;
        let banned = limits.login_ban_failures > 0
            && wrong.count >= limits.login_ban_failures
            && !wrong.is_over(now, limits);
        banned.then(|| (wrong.last + ban(limits)).saturating_duration_since(now))
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

    fn limits() -> Limits {
        Limits {
            login_pause_ms: 500,
            login_ban_failures: 3,
            login_ban_s: 600,
            ..Limits::default()
        }
    }

    #[test]
    fn each_wrong_password_waits_twice_as_long_up_to_eight_seconds() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        let pauses: Vec<u128> = (0..7)
            .map(|_| guesses.add(origin(1), now, &limits()).as_millis())
            .collect();
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000]);
        assert_eq!(guesses.add(origin(2), now, &limits()).as_millis(), 500);
    }

    #[test]
    fn some_wrong_passwords_ban_an_origin_for_a_time_after_the_last_one() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        let seconds = Duration::from_secs;
        guesses.add(origin(1), now, &limits());
        guesses.add(origin(1), now, &limits());
        assert_eq!(guesses.banned(origin(1), now, &limits()), None);
        guesses.add(origin(1), now + seconds(10), &limits());
        assert_eq!(
            guesses.banned(origin(1), now + seconds(70), &limits()),
            Some(seconds(540))
        );
        assert_eq!(guesses.banned(origin(2), now, &limits()), None);
        let counted = |after| guesses.count(origin(1), now + seconds(after), &limits());
        assert_eq!([counted(70), counted(610)], [3, 0]);
        assert_eq!(
            guesses.banned(origin(1), now + seconds(610), &limits()),
            None
        );
        // Everything is forgotten by then.
        guesses.add(origin(1), now + seconds(611), &limits());
        assert_eq!(
            guesses.banned(origin(1), now + seconds(611), &limits()),
            None
        );
    }

    #[test]
    fn the_memory_is_bounded_and_keeps_who_guessed_most() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        for _ in 0..3 {
            guesses.add(origin(0), now, &limits());
        }
        for number in 1..20_000 {
            guesses.add(origin(number), now, &limits());
        }
        assert_eq!(guesses.0.lock().len(), MOST);
        assert!(guesses.banned(origin(0), now, &limits()).is_some());
    }
}
