//! A queue of timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fairwind_path::units::Time;

/// Values due at certain times. Those due at the same time come in the order in which they were
/// set.
#[derive(Debug)]
pub struct Timers<T> {
    heap: BinaryHeap<Reverse<Timer<T>>>,
    set: u64,
}

#[derive(Debug)]
struct Timer<T> {
    time: Time,
    number: u64,
    value: T,
}

impl<T> Timers<T> {
    pub fn new() -> Timers<T> {
        Timers {
            heap: BinaryHeap::new(),
            set: 0,
        }
    }

    pub fn set(&mut self, time: Time, value: T) {
        self.set += 1;
        let number = self.set;
        self.heap.push(Reverse(Timer {
            time,
            number,
            value,
        }));
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(timer)| timer.time)
    }

    /// Removes the next one if it is due by `now`.
    pub fn take_due(&mut self, now: Time) -> Option<T> {
        match self.next() {
            Some(time) if time <= now => self.heap.pop().map(|Reverse(timer)| timer.value),
            _ => None,
        }
    }
}

impl<T> Timer<T> {
    fn order(&self) -> (Time, u64) {
        (self.time, self.number)
    }
}

impl<T> PartialEq for Timer<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<T> Eq for Timer<T> {}

impl<T> PartialOrd for Timer<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Timer<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
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
