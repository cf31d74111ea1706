//! What is advised of destinations, where the kernel's programs look it up: by the longest prefix.

use fairwind_cc::kernel::Destination;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::answers::{Answers, Held, Times};

/// The destinations, until this is dropped.
#[derive(Debug)]
pub(crate) struct Told {
    map: MapHandle,
    answers: Answers<()>,
}

impl Told {
    /// By this map, `advised` of `bpf/advice.h`.
    pub(crate) fn by(map: MapHandle) -> Told {
        let answers = Answers::at_most(map.max_entries() as usize);
        Told { map, answers }
    }

    /// Whether what is told of a peer need not be asked about yet.
    pub(crate) fn is_known(&mut self, peer: &Destination, now_ns: u64) -> bool {
        let held = self.answers.of(peer);
        held.is_some_and(|held| now_ns < held.times.asks_ns)
    }

    /// Tells `struct advice` of a destination, as the answer to a question about this peer in it. If that fails, nothing is
    /// known of the destination.
    pub(crate) fn tell(
        &mut self,
        peer: &Destination,
        to: Destination,
        advice: &[u8],
        times: Times,
        now_ns: u64,
    ) -> libbpf_rs::Result<()> {
        let held = Held { value: (), times };
        for gone in self.answers.hold(peer, to, held, now_ns) {
            self.withdraw(&gone);
        }
        let told = self.map.update(&to.key(), advice, MapFlags::ANY);
        if told.is_err() {
            self.answers.remove(&to);
            self.withdraw(&to);
        }
        told
    }

    /// Removes what no longer holds.
    pub(crate) fn forget_ended(&mut self, now_ns: u64) {
        for gone in self.answers.forget_ended(now_ns) {
            self.withdraw(&gone);
        }
    }

    fn withdraw(&self, to: &Destination) {
        // What the kernel keeps ends by its time.
        let _ = self.map.delete(&to.key());
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        // It names congestion controls that are loaded for this.
        for to in self.answers.destinations() {
            self.withdraw(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use fairwind_testing::{or_skip, permitted, root};
    use libbpf_rs::MapType;
    use libbpf_rs::libbpf_sys::bpf_map_create_opts;

    use super::*;

    fn told(entries: u32) -> Option<Told> {
        if !permitted(root()) {
            return None;
        }
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as _,
            // BPF_F_NO_PREALLOC
            map_flags: 1,
            ..Default::default()
        };
        let map = MapHandle::create(MapType::LpmTrie, Some("told"), 24, 8, entries, &options);
        or_skip(map).map(Told::by)
    }

    fn to(address: &str, bits: u32) -> Destination {
        Destination::new(7, address.parse().unwrap(), bits).unwrap()
    }

    impl Told {
        fn says(&mut self, peer: &str, bits: u32, number: u64, ends_ns: u64) {
            let of = to(peer, bits);
            let peer = to(peer, 32);
            let times = Times {
                asks_ns: ends_ns / 2,
                ends_ns,
            };
            self.tell(&peer, of, &number.to_ne_bytes(), times, 1)
                .unwrap();
        }

        fn of(&self, peer: &str) -> Option<u64> {
            let value = self.map.lookup(&to(peer, 32).key(), MapFlags::ANY).unwrap();
            value.map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap()))
        }
    }

    #[test]
    fn the_longest_prefix_counts_and_the_latest_answer_about_a_peer() {
        let Some(mut told) = told(8) else { return };
        told.says("192.0.2.1", 24, 1, 100);
        told.says("192.0.2.200", 25, 2, 100);
        assert_eq!(
            (told.of("192.0.2.7"), told.of("192.0.2.201")),
            (Some(1), Some(2))
        );
        assert_eq!(told.of("192.0.3.1"), None);
        told.says("192.0.2.1", 32, 3, 100);
        assert_eq!(told.of("192.0.2.1"), Some(3));
        // The path has become all of it.
        told.says("192.0.2.1", 16, 4, 100);
        assert_eq!(
            (told.of("192.0.2.1"), told.of("192.0.2.201")),
            (Some(4), Some(2))
        );
        assert_eq!(told.of("192.0.3.1"), Some(4));
        let elsewhere = Destination::new(8, "192.0.2.1".parse().unwrap(), 32).unwrap();
        assert!(!told.is_known(&elsewhere, 2));
        assert!(told.is_known(&to("192.0.9.9", 32), 2));
        assert!(!told.is_known(&to("192.0.9.9", 32), 50), "ask again");
    }

    #[test]
    fn what_could_not_be_told_is_not_known() {
        let Some(mut told) = told(8) else { return };
        told.says("192.0.2.1", 24, 1, 100);
        let times = Times {
            asks_ns: 50,
            ends_ns: 100,
        };
        let peer = to("192.0.2.1", 32);
        let of = to("192.0.2.1", 24);
        // Shorter than the map's values.
        told.tell(&peer, of, &[0; 3], times, 1).unwrap_err();
        assert!(!told.is_known(&peer, 2));
        assert_eq!(told.of("192.0.2.1"), None);
    }

    #[test]
    fn what_has_ended_goes_and_when_it_is_full_what_ends_soonest() {
        let Some(mut told) = told(3) else { return };
        told.says("192.0.2.1", 24, 1, 10);
        told.says("192.0.3.1", 24, 2, 30);
        told.says("192.0.4.1", 24, 3, 20);
        told.forget_ended(10);
        assert_eq!(told.of("192.0.2.1"), None);
        told.says("192.0.5.1", 24, 4, 40);
        told.says("192.0.6.1", 24, 5, 50);
        assert_eq!(
            (told.of("192.0.3.1"), told.of("192.0.4.1")),
            (Some(2), None)
        );
        assert_eq!(
            (told.of("192.0.5.1"), told.of("192.0.6.1")),
            (Some(4), Some(5))
        );
    }
}
