//! Starts that are advised of destinations by an advisor's forecasts: Careful Resume (RFC 9959), by the controls of `cc/`.

use std::collections::HashMap;

use fairwind_cc::AdvisedStart;
use fairwind_cc::kernel::{AdviceError, AdvisedStarts, Destination};
use serde::{Deserialize, Serialize};

/// For so long after a connection has found a forecast wrong, no other of more than half its rate is advised. The next one
/// would most often come from the same measurements.
const WRONG_FOR_NS: u64 = 300_000_000_000;

/// A destination whose new connections start as is forecast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdvisedDestination {
    /// An address, or a prefix such as `192.0.2.0/24`.
    pub destination: String,
    /// The inode of the network namespace from which connections to it begin.
    pub namespace: u32,
    /// The kernel's name of the congestion control that they need.
    pub congestion_control: String,
    /// The rate that is promised, Mbit/s, packets' headers included.
    pub rate_mbps: f64,
    /// The round-trip time of the path, milliseconds.
    pub rtt_ms: f64,
    /// Seconds until it ends; `None` if a connection has found it wrong.
    pub holds_for_s: Option<f64>,
}

/// The destinations, until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// Where connections look them up, by the kernel's name of their control.
    maps: HashMap<String, AdvisedStarts>,
    all: HashMap<Destination, Advised>,
    found_wrong: u64,
}

#[derive(Debug)]
struct Advised {
    control: String,
    start: AdvisedStart,
    /// When it may be forgotten that a connection has found it wrong, nanoseconds of `CLOCK_MONOTONIC`.
    wrong_until_ns: Option<u64>,
}

impl Starts {
    /// Advises the destination for connections with this control, in place of what was advised before. What others have
    /// advised of exactly this destination stays.
    pub(crate) fn advise(
        &mut self,
        to: Destination,
        control: &str,
        maps: AdvisedStarts,
        mut start: AdvisedStart,
        now_ns: u64,
    ) -> Result<(), AdviceError> {
        self.maps.insert(control.to_owned(), maps);
        self.note_if_wrong(&to, now_ns);
        if self.all.get(&to).is_some_and(|before| {
            let is_wrong = before
                .wrong_until_ns
                .is_some_and(|until_ns| now_ns < until_ns);
            is_wrong && start.rate() > before.start.rate() / 2
        }) {
            return Ok(());
        }
        if self
            .all
            .get(&to)
            .is_some_and(|before| before.control == control)
        {
            if let Some(held) = self.in_kernel(&to) {
                start = start.held_until(held.held_until_ns());
            }
        } else {
            self.withdraw(&to)?;
            let others = self.maps[control].of(&to)?;
            let others = others.and_then(|start| start.until_ns());
            if others.is_some_and(|until_ns| now_ns < until_ns) {
                return Ok(());
            }
        }
        let maps = &self.maps[control];
        if maps.advise(&to, &start).is_err() {
            forget_ended_in(maps, now_ns)?;
            maps.advise(&to, &start)?;
        }
        let advised = Advised {
            control: control.to_owned(),
            start,
            wrong_until_ns: None,
        };
        self.all.insert(to, advised);
        Ok(())
    }

    /// What the kernel has of it, unless somebody has advised something else since.
    fn in_kernel(&self, to: &Destination) -> Option<AdvisedStart> {
        let Advised { control, start, .. } = self.all.get(to)?;
        let found = self.maps.get(control)?.find(to).ok().flatten()?;
        let is_same = (found.rate(), found.rtt_us()) == (start.rate(), start.rtt_us());
        is_same.then_some(found)
    }

    fn note_if_wrong(&mut self, to: &Destination, now_ns: u64) {
        let is_wrong = self
            .in_kernel(to)
            .is_some_and(|start| start.until_ns().is_none());
        if let Some(advised) = self.all.get_mut(to)
            && is_wrong
            && advised.wrong_until_ns.is_none()
        {
            advised.wrong_until_ns = Some(now_ns + WRONG_FOR_NS);
            self.found_wrong += 1;
        }
    }

    /// Nothing is forecast of the destination any more.
    pub(crate) fn withdraw(&mut self, to: &Destination) -> Result<(), AdviceError> {
        let is_there = self.in_kernel(to).is_some();
        if let Some(advised) = self.all.remove(to)
            && is_there
        {
            self.maps[&advised.control].withdraw(to)?;
        }
        Ok(())
    }

    /// Withdraws what an answer about this peer replaces by one for this destination: of longer prefixes it would count
    /// more. What a connection has found wrong stays so.
    pub(crate) fn replace(&mut self, peer: &Destination, by: &Destination, now_ns: u64) {
        let is_replaced = |one: &&Destination| *one != by && by.covers(one) && one.covers(peer);
        let replaced: Vec<Destination> = self.all.keys().filter(is_replaced).copied().collect();
        for to in replaced {
            self.note_if_wrong(&to, now_ns);
            if self.all[&to].wrong_until_ns.is_none() {
                // If the kernel keeps it, it ends by its time.
                let _ = self.withdraw(&to);
            }
        }
    }

    /// Removes what has ended.
    pub(crate) fn forget_ended(&mut self, now_ns: u64) {
        let ended = |(to, advised): (&Destination, &Advised)| {
            let until_ns = advised.wrong_until_ns.or(advised.start.until_ns());
            until_ns
                .is_none_or(|until_ns| until_ns <= now_ns)
                .then_some(*to)
        };
        let ended: Vec<Destination> = self.all.iter().filter_map(ended).collect();
        for to in ended {
            self.note_if_wrong(&to, now_ns);
            let wrong_until_ns = self.all.get(&to).and_then(|advised| advised.wrong_until_ns);
            if wrong_until_ns.is_none_or(|until_ns| until_ns <= now_ns) {
                // If the kernel keeps it, no connection uses it: it has ended.
                let _ = self.withdraw(&to);
            }
        }
    }

    /// All of them, by their addresses.
    pub(crate) fn list(&mut self, now_ns: u64) -> Vec<AdvisedDestination> {
        let all: Vec<Destination> = self.all.keys().copied().collect();
        for to in all {
            self.note_if_wrong(&to, now_ns);
        }
        let one = |(to, advised): (&Destination, &Advised)| {
            let until_ns = advised.start.until_ns().unwrap_or_default();
            let holds_for_s = until_ns.saturating_sub(now_ns) as f64 / 1e9;
            AdvisedDestination {
                destination: to.prefix().in_words(),
                namespace: to.netns(),
                congestion_control: advised.control.clone(),
                rate_mbps: advised.start.rate() as f64 * 8e-6,
                rtt_ms: f64::from(advised.start.rtt_us()) / 1e3,
                holds_for_s: advised.wrong_until_ns.is_none().then_some(holds_for_s),
            }
        };
        let mut all: Vec<_> = self.all.iter().collect();
        all.sort_by_key(|(to, _)| {
            let prefix = to.prefix();
            (prefix.address(), prefix.bits(), to.netns())
        });
        all.into_iter().map(one).collect()
    }

    /// How often connections have found a forecast wrong.
    pub(crate) fn found_wrong(&self) -> u64 {
        self.found_wrong
    }
}

/// Those of agents that have been killed stay until the kernel takes no more.
fn forget_ended_in(maps: &AdvisedStarts, now_ns: u64) -> Result<(), AdviceError> {
    for (to, start) in maps.destinations()? {
        if start.until_ns().is_some_and(|until_ns| until_ns <= now_ns) {
            maps.withdraw(&to)?;
        }
    }
    Ok(())
}

impl Drop for Starts {
    fn drop(&mut self) {
        let all: Vec<Destination> = self.all.keys().copied().collect();
        for to in all {
            // What the kernel keeps ends by its time.
            let _ = self.withdraw(&to);
        }
    }
}

#[cfg(test)]
mod tests {
    use fairwind_cc::kernel::{Loaded, check_requirements, load_private};
    use fairwind_cc::native;
    use fairwind_testing::permitted;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn start(rate: u64, until_s: u64) -> AdvisedStart {
        AdvisedStart::new(rate, 100_000, until_s * SECOND).unwrap()
    }

    fn to(address: &str) -> Destination {
        Destination::new(7, address.parse().unwrap(), 32).unwrap()
    }

    struct Kernel {
        loaded: Loaded,
        maps: AdvisedStarts,
        starts: Starts,
    }

    impl Kernel {
        fn new() -> Option<Kernel> {
            if !permitted(check_requirements()) {
                return None;
            }
            let parameters = native::find("cubic").unwrap().default_parameters();
            let loaded = load_private(&parameters).unwrap();
            let maps = loaded.advised_starts().unwrap();
            Some(Kernel {
                loaded,
                maps,
                starts: Starts::default(),
            })
        }

        fn advise(&mut self, address: &str, start: AdvisedStart, now_s: u64) {
            let now_ns = now_s * SECOND;
            let maps = self.loaded.advised_starts().unwrap();
            let advised = self.starts.advise(to(address), "c", maps, start, now_ns);
            advised.unwrap();
        }

        fn rate(&self, address: &str) -> Option<u64> {
            let found = self.maps.of(&to(address)).unwrap();
            found.map(|start| start.rate())
        }

        /// As a connection does that retreats.
        fn find_wrong(&self, address: &str) {
            let found = self.maps.of(&to(address)).unwrap().unwrap();
            self.maps.advise(&to(address), &found.until(0)).unwrap();
        }
    }

    #[test]
    fn what_has_ended_is_removed_and_so_is_everything_at_the_end() {
        let Some(mut kernel) = Kernel::new() else {
            return;
        };
        kernel.advise("192.0.2.1", start(1000, 10), 0);
        kernel.advise("192.0.2.2", start(1000, 20), 0);
        kernel.starts.forget_ended(10 * SECOND);
        assert_eq!(kernel.rate("192.0.2.1"), None);
        assert_eq!(kernel.rate("192.0.2.2"), Some(1000));
        let list = kernel.starts.list(10 * SECOND);
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].destination, "192.0.2.2");
        assert_eq!(list[0].holds_for_s, Some(10.0));
        kernel.starts = Starts::default();
        assert_eq!(kernel.rate("192.0.2.2"), None);
    }

    #[test]
    fn what_a_connection_has_found_wrong_is_not_promised_again_at_once() {
        let Some(mut kernel) = Kernel::new() else {
            return;
        };
        kernel.advise("192.0.2.1", start(1000, 10), 0);
        kernel.find_wrong("192.0.2.1");
        kernel.advise("192.0.2.1", start(501, 20), 5);
        let found = kernel.maps.of(&to("192.0.2.1")).unwrap().unwrap();
        assert_eq!((found.rate(), found.until_ns()), (1000, None));
        assert_eq!(kernel.starts.list(5 * SECOND)[0].holds_for_s, None);
        // After the end of the forecast, too.
        kernel.starts.forget_ended(30 * SECOND);
        kernel.advise("192.0.2.1", start(900, 40), 30);
        assert_eq!(kernel.rate("192.0.2.1"), Some(1000));
        kernel.advise("192.0.2.1", start(500, 40), 30);
        assert_eq!(kernel.rate("192.0.2.1"), Some(500));
        kernel.find_wrong("192.0.2.1");
        kernel.advise("192.0.2.1", start(500, 50), 40);
        kernel.advise("192.0.2.1", start(1000, 400), 340);
        assert_eq!(kernel.rate("192.0.2.1"), Some(1000));
        assert_eq!(kernel.starts.found_wrong(), 2);
    }

    #[test]
    fn a_newer_forecast_stays_with_the_connection_that_has_it() {
        let Some(mut kernel) = Kernel::new() else {
            return;
        };
        kernel.advise("192.0.2.1", start(1000, 10), 0);
        let held = start(1000, 10).held_until(5);
        kernel.maps.advise(&to("192.0.2.1"), &held).unwrap();
        kernel.advise("192.0.2.1", start(2000, 20), 1);
        let held = kernel.maps.of(&to("192.0.2.1")).unwrap().unwrap();
        assert_eq!((held.rate(), held.held_until_ns()), (2000, 5));
    }

    #[test]
    fn an_answer_for_a_prefix_replaces_what_was_advised_of_the_peer() {
        let Some(mut kernel) = Kernel::new() else {
            return;
        };
        kernel.advise("192.0.2.1", start(1000, 10), 0);
        kernel.advise("192.0.2.2", start(1000, 10), 0);
        let prefix = Destination::new(7, "192.0.2.0".parse().unwrap(), 24).unwrap();
        for (peer, rate) in [("192.0.2.1", 2000), ("192.0.2.2", 1000)] {
            let maps = kernel.loaded.advised_starts().unwrap();
            if peer == "192.0.2.2" {
                kernel.find_wrong(peer);
            }
            kernel.starts.replace(&to(peer), &prefix, SECOND);
            let advised = kernel
                .starts
                .advise(prefix, "c", maps, start(2000, 20), SECOND);
            advised.unwrap();
            assert_eq!(kernel.maps.find(&to(peer)).unwrap().unwrap().rate(), rate);
        }
        let list = kernel.starts.list(2 * SECOND);
        let told: Vec<_> = list
            .iter()
            .map(|one| (one.destination.as_str(), one.holds_for_s))
            .collect();
        assert_eq!(told, [("192.0.2.0/24", Some(18.0)), ("192.0.2.2", None)]);
    }

    #[test]
    fn what_others_have_advised_of_a_destination_stays() {
        let Some(mut kernel) = Kernel::new() else {
            return;
        };
        let others = start(3000, 60);
        kernel.maps.advise(&to("192.0.2.1"), &others).unwrap();
        kernel.advise("192.0.2.1", start(1000, 10), 0);
        assert_eq!(kernel.rate("192.0.2.1"), Some(3000));
        // A shorter prefix is another destination.
        let wide = Destination::new(7, "198.51.100.0".parse().unwrap(), 24).unwrap();
        kernel.maps.advise(&wide, &others).unwrap();
        kernel.advise("198.51.100.1", start(1000, 10), 0);
        assert_eq!(kernel.rate("198.51.100.1"), Some(1000));
        // It has been replaced since.
        kernel.maps.advise(&to("198.51.100.1"), &others).unwrap();
        kernel.starts = Starts::default();
        assert_eq!(kernel.rate("192.0.2.1"), Some(3000));
        assert_eq!(kernel.rate("198.51.100.1"), Some(3000));
    }
}
