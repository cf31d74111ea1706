//! The agenda: which source of events is due next.
//!
//! A source is anything with a next time: the far end of a pipe, a connection's timers, the
//! sampler. However many packets it holds, a source has only a few entries here, so the agenda
//! grows with the topology and not with the number of packets in transit.

use fairwind_path::units::Time;

/// Index of a source, chosen by the owner of the agenda.
pub(crate) type Source = u32;

/// The time of a source that is not due.
pub(crate) const NEVER: Time = Time::MAX;

/// Time in the upper bits, source in the lower: compared at once, without a branch.
type Entry = u128;

#[inline]
fn entry(time: Time, source: Source) -> Entry {
    u128::from(time.as_nanos()) << 32 | u128::from(source)
}

#[inline]
fn parts(entry: Entry) -> (Time, Source) {
    (Time::from_nanos((entry >> 32) as u64), entry as Source)
}

/// The next due source, of two kinds.
///
/// Steady sources `0..steady` nearly always have a time and change it with every packet: a tree of
/// minima holds them. The others are timers, most of which are pushed back before they are due: a
/// heap holds those that may be due. Sources due at the same time come in the order of their
/// indices, so that a run does not depend on the history of either structure.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Entry `i` is the lesser of entries `2 i` and `2 i + 1`; the steady sources are the last half.
    tree: Vec<Entry>,
    /// A 4-ary heap.
    heap: Vec<Entry>,
    steady: Source,
    /// The earliest entry of each timer in the heap; other entries of that timer are stale.
    armed: Vec<Time>,
}

impl Agenda {
    /// An agenda for sources `0..steady` and timers `steady..steady + timers`, none of them due.
    pub(crate) fn new(steady: usize, timers: usize) -> Self {
        Agenda {
            tree: vec![entry(NEVER, Source::MAX); 2 * steady.next_power_of_two()],
            heap: Vec::with_capacity(timers),
            steady: steady as Source,
            armed: vec![NEVER; timers],
        }
    }

    /// Sets the time of a steady source.
    #[inline]
    pub(crate) fn set(&mut self, source: Source, time: Time) {
        debug_assert!(source < self.steady);
        let mut at = self.tree.len() / 2 + source as usize;
        let mut least = entry(time, source);
        self.tree[at] = least;
        while at > 1 {
            least = least.min(self.tree[at ^ 1]);
            at /= 2;
            self.tree[at] = least;
        }
    }

    /// Makes sure that a timer comes up at `time` or earlier. It may come up early: its handler
    /// must check whether anything is due and arm it again if not. This makes timers that are
    /// pushed back with every packet cheap.
    #[inline]
    pub(crate) fn arm(&mut self, timer: Source, time: Time) {
        let armed = &mut self.armed[(timer - self.steady) as usize];
        if time < *armed {
            *armed = time;
            self.heap.push(entry(time, timer));
            self.sift_up(self.heap.len() - 1);
        }
    }

    /// The next source and its time. A timer is disarmed; a steady source stays until it is set again.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(Time, Source)> {
        let steady = self.tree[1];
        while let Some(&first) = self.heap.first()
            && first < steady
        {
            let (time, timer) = parts(first);
            self.remove_first();
            let armed = &mut self.armed[(timer - self.steady) as usize];
            if *armed == time {
                *armed = NEVER;
                return Some((time, timer));
            }
        }
        let (time, source) = parts(steady);
        (time != NEVER).then_some((time, source))
    }

    fn remove_first(&mut self) {
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.heap[0] = last;
            self.sift_down(0);
        }
    }

    #[inline]
    fn sift_up(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.heap[parent] <= entry {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = entry;
    }

    #[inline]
    fn sift_down(&mut self, mut at: usize) {
        let heap = self.heap.as_mut_slice();
        let entry = heap[at];
        loop {
            let first = 4 * at + 1;
            let least = match heap.get(first..first + 4) {
                Some(&[a, b, c, d]) => {
                    let (left, right) =
                        (first + usize::from(b < a), first + 2 + usize::from(d < c));
                    if heap[right] < heap[left] {
                        right
                    } else {
                        left
                    }
                }
                _ => match (first..heap.len()).min_by_key(|&child| heap[child]) {
                    Some(least) => least,
                    None => break,
                },
            };
            if entry <= heap[least] {
                break;
            }
            heap[at] = heap[least];
            at = least;
        }
        heap[at] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain(agenda: &mut Agenda) -> Vec<(u64, Source)> {
        let mut order = Vec::new();
        while let Some((time, source)) = agenda.next() {
            order.push((time.as_nanos(), source));
            if source < agenda.steady {
                agenda.set(source, NEVER);
            }
        }
        order
    }

    #[test]
    fn sources_come_in_order_of_time_and_then_of_index() {
        let mut agenda = Agenda::new(3, 2);
        for (source, time) in [(2, 10), (0, 30), (1, 20)] {
            agenda.set(source, Time::from_nanos(time));
        }
        for (timer, time) in [(4, 20), (3, 30)] {
            agenda.arm(timer, Time::from_nanos(time));
        }
        let order = [(10, 2), (20, 1), (20, 4), (30, 0), (30, 3)];
        assert_eq!(drain(&mut agenda), order);
    }

    #[test]
    fn a_steady_source_may_be_set_later_and_earlier() {
        let mut agenda = Agenda::new(2, 0);
        agenda.set(0, Time::from_nanos(10));
        agenda.set(1, Time::from_nanos(20));
        agenda.set(0, Time::from_nanos(30));
        assert_eq!(agenda.next(), Some((Time::from_nanos(20), 1)));
        agenda.set(0, Time::from_nanos(5));
        assert_eq!(agenda.next(), Some((Time::from_nanos(5), 0)));
    }

    #[test]
    fn arming_a_timer_later_than_armed_changes_nothing() {
        let mut agenda = Agenda::new(0, 1);
        agenda.arm(0, Time::from_nanos(10));
        agenda.arm(0, Time::from_nanos(15));
        assert_eq!(drain(&mut agenda), [(10, 0)]);
    }

    #[test]
    fn arming_a_timer_earlier_supersedes_the_later_entry() {
        let mut agenda = Agenda::new(0, 2);
        agenda.arm(0, Time::from_nanos(10));
        agenda.arm(0, Time::from_nanos(5));
        agenda.arm(1, Time::from_nanos(7));
        assert_eq!(drain(&mut agenda), [(5, 0), (7, 1)]);
    }

    proptest! {
        #[test]
        fn any_set_of_times_comes_out_sorted(
            steady in prop::collection::vec(0u64..1000, 0..50),
            timers in prop::collection::vec(0u64..1000, 0..150),
        ) {
            let mut agenda = Agenda::new(steady.len(), timers.len());
            let mut expected = Vec::new();
            for (source, &time) in steady.iter().chain(&timers).enumerate() {
                let source = source as Source;
                if source < agenda.steady {
                    agenda.set(source, Time::from_nanos(time));
                } else {
                    agenda.arm(source, Time::from_nanos(time));
                }
                expected.push((time, source));
            }
            expected.sort_unstable();
            prop_assert_eq!(drain(&mut agenda), expected);
        }
    }
}
