//! WF2Q+: each class gets its share of the bandwidth, and none is served ahead of it.
//!
//! Source: J. C. R. Bennett and H. Zhang, "Hierarchical packet fair queueing algorithms", 1997.
//! Among the classes whose head packet would have started by now in the ideal fluid system (start
//! S <= virtual time V), the one whose packet would finish first (smallest finish F) is served. A class
//! of weight w, where W is the sum of all weights, is guaranteed w / W of the bandwidth. A packet of
//! traffic that conforms to a token bucket of sigma bytes at that rate waits no longer than
//! sigma / (its rate) plus the time of one largest packet at the full rate.
//!
//! | original | here |
//! |---|---|
//! | the paper's V advances while a packet is being sent; Dummynet adds the whole packet when it starts | as in the paper: in proportion to the part already sent |
//! | Dummynet: W sums the weights of the classes in use | as in the paper: of all classes |
//! | Dummynet: a class whose only packet is being sent counts as idle | as in the paper: as backlogged |
//! | Dummynet: V and the classes' tags restart at 0 when nothing waits | V moves beyond all tags, which is equivalent |
//! | Dummynet: weights 1 to 100, 28 bits of fraction in 64 | weights from 1, 31 bits of fraction in 128: V never wraps |
//! | | a packet dropped by CoDel yields its place to the one behind it |

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::units::Time;

/// Virtual time: bytes per weight, in units of 2^-31.
type Virtual = u128;

#[derive(Clone, Debug)]
pub(crate) struct Wf2q {
    classes: Vec<Tags>,
    weights: u64,
    /// Virtual time at the start of the current transmission.
    now: Virtual,
    sending: Option<Sending>,
    /// The largest finish tag so far: where virtual time resumes after an idle period.
    beyond: Virtual,
    /// Backlogged classes: `eligible` ones by finish, those too `early` to be served by start.
    eligible: BinaryHeap<Reverse<(Virtual, usize)>>,
    early: BinaryHeap<Reverse<(Virtual, usize)>>,
}

#[derive(Clone, Debug)]
struct Tags {
    weight: u64,
    start: Virtual,
    finish: Virtual,
}

#[derive(Clone, Debug)]
struct Sending {
    class: usize,
    from: Time,
    until: Time,
    /// What the whole packet adds to virtual time.
    gain: Virtual,
}

/// Virtual time that `bytes` take at `weight`.
fn per_weight(bytes: u64, weight: u64) -> Virtual {
    (Virtual::from(bytes) << 31) / Virtual::from(weight.max(1))
}

impl Wf2q {
    pub(crate) fn new(weights: &[u32]) -> Wf2q {
        let tags = |&weight| Tags {
            weight: u64::from(weight),
            start: 0,
            finish: 0,
        };
        Wf2q {
            classes: weights.iter().map(tags).collect(),
            weights: weights.iter().map(|&weight| u64::from(weight)).sum(),
            now: 0,
            sending: None,
            beyond: 0,
            eligible: BinaryHeap::with_capacity(weights.len()),
            early: BinaryHeap::with_capacity(weights.len()),
        }
    }

    /// A packet has arrived in an empty class. A class whose last packet is still being sent has not been
    /// idle, so it continues at that packet's finish.
    pub(crate) fn activate(&mut self, class: usize, bytes: u64, now: Time) {
        let working = self
            .sending
            .as_ref()
            .is_some_and(|sending| sending.class == class && now < sending.until);
        let virtual_now = if working { 0 } else { self.virtual_time(now) };
        let tags = &mut self.classes[class];
        tags.start = tags.finish.max(virtual_now);
        self.enter(class, bytes);
    }

    /// The class to serve at `now`, when no packet is being sent.
    pub(crate) fn choose(&mut self, now: Time) -> Option<usize> {
        self.now = self.virtual_time(now);
        self.sending = None;
        if self.eligible.is_empty()
            && let Some(&Reverse((start, _))) = self.early.peek()
        {
            self.now = self.now.max(start);
        }
        while let Some(&Reverse((start, class))) = self.early.peek()
            && start <= self.now
        {
            self.early.pop();
            self.eligible
                .push(Reverse((self.classes[class].finish, class)));
        }
        self.eligible.pop().map(|Reverse((_, class))| class)
    }

    /// The chosen class sends a packet from `from` to `until`; `next` is the size of the one behind it.
    pub(crate) fn send(
        &mut self,
        class: usize,
        bytes: u64,
        next: Option<u64>,
        (from, until): (Time, Time),
    ) {
        let gain = per_weight(bytes, self.weights);
        self.sending = Some(Sending {
            class,
            from,
            until,
            gain,
        });
        let tags = &mut self.classes[class];
        tags.finish = tags.start + per_weight(bytes, tags.weight);
        self.beyond = self.beyond.max(tags.finish);
        if let Some(next) = next {
            tags.start = tags.finish;
            self.enter(class, next);
        }
    }

    /// The chosen class turned out to have nothing to send.
    pub(crate) fn abandon(&mut self, class: usize) {
        let tags = &mut self.classes[class];
        tags.finish = tags.start;
    }

    fn enter(&mut self, class: usize, bytes: u64) {
        let tags = &mut self.classes[class];
        tags.finish = tags.start + per_weight(bytes, tags.weight);
        self.early.push(Reverse((tags.start, class)));
    }

    fn virtual_time(&self, now: Time) -> Virtual {
        match &self.sending {
            Some(sending) if now < sending.until => {
                let sent = (now - sending.from).as_nanos();
                let whole = (sending.until - sending.from).as_nanos();
                self.now + sending.gain * Virtual::from(sent) / Virtual::from(whole)
            }
            Some(sending) if !self.eligible.is_empty() || !self.early.is_empty() => {
                self.now + sending.gain
            }
            Some(sending) => self.beyond.max(self.now + sending.gain),
            None if self.eligible.is_empty() && self.early.is_empty() => self.beyond.max(self.now),
            None => self.now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which classes are served at 1 byte a nanosecond until nothing waits.
    /// `packets[class]` are the sizes of the packets waiting at the start.
    fn order(weights: &[u32], mut packets: Vec<Vec<u64>>) -> Vec<usize> {
        let mut wf2q = Wf2q::new(weights);
        packets.iter_mut().for_each(|sizes| sizes.reverse());
        for (class, sizes) in packets.iter().enumerate() {
            if let Some(&first) = sizes.last() {
                wf2q.activate(class, first, Time::ZERO);
            }
        }
        let (mut now, mut order) = (0, Vec::new());
        while let Some(class) = wf2q.choose(Time::from_nanos(now)) {
            let bytes = packets[class].pop().unwrap();
            let from = Time::from_nanos(now);
            now += bytes;
            let next = packets[class].last().copied();
            wf2q.send(class, bytes, next, (from, Time::from_nanos(now)));
            order.push(class);
        }
        order
    }

    /// Bennett and Zhang's example: a class of weight 10 and ten of weight 1. WFQ would send the
    /// first ten packets of the heavy class in a row; WF2Q+ interleaves the others.
    #[test]
    fn a_heavy_class_does_not_run_ahead_of_its_share() {
        let mut packets = vec![vec![100; 11]];
        packets.extend(vec![vec![100]; 10]);
        let mut weights = vec![10];
        weights.extend([1; 10]);
        let order = order(&weights, packets);
        let expected = [
            0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0,
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn weights_of_40_and_20_give_two_packets_to_one() {
        let order = order(&[40, 20], vec![vec![1500; 6], vec![1500; 3]]);
        // Starts and finishes in packets per weight of 60: class 0 (0, 1.5), (1.5, 3), ...;
        // class 1 (0, 3), (3, 6), ... V grows by 1 a packet.
        assert_eq!(order, [0, 1, 0, 0, 1, 0, 0, 1, 0]);
    }

    #[test]
    fn equal_classes_share_bytes_and_not_packets() {
        let order = order(&[1, 1], vec![vec![1500; 2], vec![500; 6]]);
        // In units of 500 bytes: class 0 (0, 3), (3, 6); class 1 (0, 1), (1, 2), ... V grows by half
        // of what is sent.
        assert_eq!(order, [1, 0, 1, 1, 1, 0, 1, 1]);
    }

    #[test]
    fn an_idle_class_saves_nothing_up() {
        let mut wf2q = Wf2q::new(&[1, 1]);
        let mut now = 0;
        wf2q.activate(0, 100, Time::ZERO);
        for _ in 0..100 {
            assert_eq!(wf2q.choose(Time::from_nanos(now)), Some(0));
            let span = (Time::from_nanos(now), Time::from_nanos(now + 100));
            wf2q.send(0, 100, Some(100), span);
            now += 100;
        }
        wf2q.activate(1, 100, Time::from_nanos(now));
        let mut served = [0; 2];
        for _ in 0..10 {
            let class = wf2q.choose(Time::from_nanos(now)).unwrap();
            let span = (Time::from_nanos(now), Time::from_nanos(now + 100));
            wf2q.send(class, 100, Some(100), span);
            now += 100;
            served[class] += 1;
        }
        assert_eq!(served, [5, 5]);
    }

    #[test]
    fn virtual_time_goes_on_while_a_packet_is_being_sent() {
        let mut wf2q = Wf2q::new(&[1, 1, 1]);
        let nanos = Time::from_nanos;
        wf2q.activate(0, 900, nanos(0));
        assert_eq!(wf2q.choose(nanos(0)), Some(0));
        wf2q.send(0, 900, None, (nanos(0), nanos(900)));
        // Virtual time is 30 at 90 ns and 200 at 600 ns: finishes 30 + 300 and 200 + 150.
        wf2q.activate(1, 300, nanos(90));
        wf2q.activate(2, 150, nanos(600));
        assert_eq!(wf2q.choose(nanos(900)), Some(1));
    }

    #[test]
    fn nobody_pays_for_what_he_used_while_nobody_else_wanted_it() {
        let mut wf2q = Wf2q::new(&[1, 1]);
        let nanos = Time::from_nanos;
        wf2q.activate(0, 1000, nanos(0));
        assert_eq!(wf2q.choose(nanos(0)), Some(0));
        wf2q.send(0, 1000, None, (nanos(0), nanos(1000)));
        assert_eq!(wf2q.choose(nanos(1000)), None);
        wf2q.activate(0, 100, nanos(1500));
        wf2q.activate(1, 200, nanos(1500));
        assert_eq!(wf2q.choose(nanos(1500)), Some(0));
    }
}
