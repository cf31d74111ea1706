//! A queue of timers.

use std::collections::BTreeMap;

use fairwind_path::units::Time;

/// Values due at certain times. Those due at the same time come in the order in which they were
/// set.
#[derive(Debug)]
pub(super) struct Timers<T> {
    /// By time and number.
    due: BTreeMap<(Time, u64), T>,
    set: u64,
}

impl<T> Timers<T> {
    pub(super) fn new() -> Timers<T> {
        Timers {
            due: BTreeMap::new(),
            set: 0,
        }
    }

    pub(super) fn set(&mut self, time: Time, value: T) {
        self.set += 1;
        self.due.insert((time, self.set), value);
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.first_key_value().map(|(&(time, _), _)| time)
    }

    /// Removes the next one if it is due by `now`.
    pub(super) fn take_due(&mut self, now: Time) -> Option<T> {
        let next = self.due.first_entry()?;
        (next.key().0 <= now).then(|| next.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_the_order_of_time_and_setting() {
        let mut timers = Timers::new();
        let at = Time::from_secs;
        timers.set(at(2), 'c');
        timers.set(at(1), 'a');
        timers.set(at(1), 'b');
        assert_eq!(timers.take_due(at(0)), None);
        assert_eq!(timers.take_due(at(1)), Some('a'));
        assert_eq!(timers.take_due(at(1)), Some('b'));
        assert_eq!(timers.take_due(at(1)), None);
        assert_eq!(timers.next(), Some(at(2)));
    }
}
