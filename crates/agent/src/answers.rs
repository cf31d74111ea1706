//! What is known of destinations by answers about them: the longest prefix counts, until its answer ends.

use std::collections::HashMap;
use std::time::Duration;

use fairwind_advice::wire::Answer;
use fairwind_cc::kernel::Destination;

/// An answer holds for so long after the moment at which to ask again, in which the next one comes.
const GRACE: Duration = Duration::from_secs(30);

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// When to ask again.
    pub asks_ns: u64,
    /// When the answer no longer holds.
    pub ends_ns: u64,
}

impl Times {
    /// Of an answer that has come now.
    pub(crate) fn of(answer: &Answer, now_ns: u64) -> Times {
        let asks_ns = now_ns + answer.ask_again_after().as_nanos() as u64;
        let ends_ns = asks_ns + GRACE.as_nanos() as u64;
        Times { asks_ns, ends_ns }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Held<T> {
    pub value: T,
    pub times: Times,
}

/// As many of them as there is room for.
#[derive(Debug)]
pub(crate) struct Answers<T> {
    all: HashMap<Destination, Held<T>>,
    most: usize,
}

impl<T> Answers<T> {
    pub(crate) fn at_most(most: usize) -> Answers<T> {
        Answers {
            all: HashMap::new(),
            most,
        }
    }

    /// What is held of a peer.
    pub(crate) fn of(&mut self, peer: &Destination) -> Option<&mut Held<T>> {
        let covering = self.all.iter_mut().filter(|(to, _)| to.covers(peer));
        let longest = covering.max_by_key(|(to, _)| to.prefix().mapped().1);
        longest.map(|(_, held)| held)
    }

    /// Holds the answer to a question about a peer, of all destinations that it is for. Returns those of which nothing is
    /// held any more.
    pub(crate) fn hold(
        &mut self,
        peer: &Destination,
        to: Destination,
        held: Held<T>,
        now_ns: u64,
    ) -> Vec<Destination> {
        let mut gone = self.forget_ended(now_ns);
        // As of longer prefixes, it would count more.
        gone.extend(self.forget(|one, _| one != to && to.covers(&one) && one.covers(peer)));
        if self.all.len() >= self.most && !self.all.contains_key(&to) {
            let soonest = self.all.iter().min_by_key(|(_, held)| held.times.ends_ns);
            let soonest = soonest.map(|(to, _)| *to);
            gone.extend(self.forget(|one, _| Some(one) == soonest));
        }
        self.all.insert(to, held);
        gone
    }

    /// Forgets what no longer holds, and returns of whom that was.
    pub(crate) fn forget_ended(&mut self, now_ns: u64) -> Vec<Destination> {
        self.forget(|_, held| held.times.ends_ns <= now_ns)
    }

    /// Forgets what is held of exactly this destination.
    pub(crate) fn remove(&mut self, to: &Destination) {
        self.all.remove(to);
    }

    /// All destinations.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = &Destination> {
        self.all.keys()
    }

    fn forget(&mut self, goes: impl Fn(Destination, &Held<T>) -> bool) -> Vec<Destination> {
        let gone = self.all.extract_if(|to, held| goes(*to, held));
        gone.map(|(to, _)| to).collect()
    }
}
