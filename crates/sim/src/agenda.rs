//! The agenda: which source of events is due next.
//!
//! A source is anything that has a next time: the far end of a pipe, a connection's timers, the
//! sampler. It has at most a few entries here, whatever it holds itself, so the heap stays as small
//! as the topology and not as large as the number of packets on the way.

use fairwind_path::units::Time;

/// Index of a source, chosen by the owner of the agenda.
pub type Source = u32;

/// Never due.
pub const NEVER: Time = Time::MAX;

/// Time in the upper bits, source in the lower: one comparison without a branch.
type Entry = u128;

#[inline]
fn entry(time: Time, source: Source) -> Entry {
    u128::from(time.as_nanos()) << 32 | u128::from(source)
}

#[inline]
fn parts(entry: Entry) -> (Time, Source) {
    (Time::from_nanos((entry >> 32) as u64), entry as Source)
}

/// A 4-ary heap of (time, source). Sources due at the same time come in the order of their
/// indices, so that a run does not depend on the history of the heap.
#[derive(Debug)]
pub struct Agenda {
    heap: Vec<Entry>,
    /// The earliest entry of each source in the heap; other entries of that source are stale.
    armed: Vec<Time>,
}

impl Agenda {
    /// An agenda for sources `0..sources`, none of them due.
    pub fn new(sources: usize) -> Self {
        Agenda {
            heap: Vec::with_capacity(sources),
            armed: vec![NEVER; sources],
        }
    }

    /// Sees to it that `source` comes up at `time` or before. It may come up early: whoever handles
    /// a source looks whether it has anything due and arms it again if not. This is what makes
    /// timers that are pushed back at every packet cheap.
    #[inline]
    pub fn arm(&mut self, source: Source, time: Time) {
        if time < self.armed[source as usize] {
            self.armed[source as usize] = time;
            self.heap.push(entry(time, source));
            self.sift_up(self.heap.len() - 1);
        }
    }

    /// The next source and its time, without taking it off.
    #[inline]
    pub fn peek(&mut self) -> Option<(Time, Source)> {
        while let Some(&first) = self.heap.first() {
            let (time, source) = parts(first);
            if self.armed[source as usize] == time {
                return Some((time, source));
            }
            self.remove_first();
        }
        None
    }

    /// Replaces the first entry, which [`Agenda::peek`] has just returned, by the source's next
    /// time, or takes it off where that is [`NEVER`].
    #[inline]
    pub fn rearm_first(&mut self, next: Time) {
        let (_, source) = parts(self.heap[0]);
        self.armed[source as usize] = next;
        if next == NEVER {
            self.remove_first();
        } else {
            self.heap[0] = entry(next, source);
            self.sift_down(0);
        }
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
        while let Some((time, source)) = agenda.peek() {
            order.push((time.as_nanos(), source));
            agenda.rearm_first(NEVER);
        }
        order
    }

    #[test]
    fn sources_come_in_order_of_time_and_then_of_index() {
        let mut agenda = Agenda::new(4);
        for (source, time) in [(3, 20), (0, 30), (2, 10), (1, 20)] {
            agenda.arm(source, Time::from_nanos(time));
        }
        assert_eq!(drain(&mut agenda), [(10, 2), (20, 1), (20, 3), (30, 0)]);
    }

    #[test]
    fn arming_later_than_armed_changes_nothing() {
        let mut agenda = Agenda::new(1);
        agenda.arm(0, Time::from_nanos(10));
        agenda.arm(0, Time::from_nanos(15));
        assert_eq!(drain(&mut agenda), [(10, 0)]);
    }

    #[test]
    fn arming_earlier_supersedes_the_later_entry() {
        let mut agenda = Agenda::new(2);
        agenda.arm(0, Time::from_nanos(10));
        agenda.arm(0, Time::from_nanos(5));
        agenda.arm(1, Time::from_nanos(7));
        assert_eq!(drain(&mut agenda), [(5, 0), (7, 1)]);
    }

    proptest! {
        #[test]
        fn any_set_of_times_comes_out_sorted(times in prop::collection::vec(0u64..1000, 1..200)) {
            let mut agenda = Agenda::new(times.len());
            for (source, &time) in times.iter().enumerate() {
                agenda.arm(source as Source, Time::from_nanos(time));
            }
            let mut expected: Vec<_> =
                times.iter().enumerate().map(|(s, &t)| (t, s as Source)).collect();
            expected.sort_unstable();
            prop_assert_eq!(drain(&mut agenda), expected);
        }
    }
}
