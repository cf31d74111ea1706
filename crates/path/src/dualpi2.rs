//! DualPI2 (RFC 9332, appendix A): a queue for L4S traffic with hardly any delay and one for classic traffic,
//! coupled so that flows of both kinds get about the same.
//!
//! A proportional-integral controller of the delay updates a probability p. A classic packet is dropped or marked
//! with p squared, an L4S packet is marked with k times p, or if it has waited too long. What is ECT(1) or CE is
//! L4S.
//!
//! | original | here |
//! |---|---|
//! | the RFC's native L4S AQM is a ramp, Linux's a step | a step, which spares a packet with none behind it |
//! | updates by a timer | at the multiples of `tupdate`, however late the pipe is called; departures of the same moment come first, arrivals last |
//! | RFC: the delay of the classic queue; Linux: the longer of both | the longer of both, of the packets at the head |
//! | RFC: time-shifted FIFO or weighted round robin; Linux: weighted round robin | weighted round robin by bytes, as in Linux: the classic queue has a share of a tenth while both have packets |
//! | RFC: on overload, either drops in both queues or a full queue | drops in both queues, with p squared |
//! | Linux spares packets while less than two full ones wait behind | the same, for p; of 1500 bytes |

use std::collections::VecDeque;

use crate::ecn::Ecn;
use crate::pie::MIN_UPDATE;
use crate::queue::Waiting;
use crate::random::Random;
use crate::red::Verdict;
use crate::units::{Duration, Time};

/// A full packet in bytes; while less than two wait, p does nothing.
const FULL_PACKET: u64 = 1500;

/// Shares of the classic and the L4S queue while both have packets, in percent.
const SHARES: (i64, i64) = (10, 90);

/// The parameters of DualPI2.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct DualPi2Config {
    /// Queueing delay of classic traffic that is aimed at, above 0.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Duration>", extend("default" = DualPi2Config::default().target.to_string()))
    )]
    pub target: Duration,
    /// Time between two updates of the probability, at least 100 us.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Duration>", extend("default" = DualPi2Config::default().tupdate.to_string()))
    )]
    pub tupdate: Duration,
    /// Change of the probability at each update, for a second of delay above `target`; above 0.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<f64>", extend("default" = DualPi2Config::default().alpha))
    )]
    pub alpha: f64,
    /// Change of the probability at each update, for a second of delay more than at the last; above 0.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<f64>", extend("default" = DualPi2Config::default().beta))
    )]
    pub beta: f64,
    /// k: by what the probability is multiplied for L4S packets, above 0.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<f64>", extend("default" = DualPi2Config::default().coupling))
    )]
    pub coupling: f64,
    /// Time in the queue beyond which L4S packets are marked, unless none waits behind.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Duration>", extend("default" = DualPi2Config::default().step.to_string()))
    )]
    pub step: Duration,
}

impl Default for DualPi2Config {
    /// The RFC's and Linux's: 15 ms, 16 ms, 0.16, 3.2, 2, 1 ms.
    fn default() -> DualPi2Config {
        DualPi2Config {
            target: Duration::from_millis(15),
            tupdate: Duration::from_millis(16),
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            step: Duration::from_millis(1),
        }
    }
}

/// Both queues and their controller.
#[derive(Clone, Debug)]
pub(crate) struct DualPi2<T> {
    config: DualPi2Config,
    l4s: VecDeque<Waiting<T>>,
    classic: VecDeque<Waiting<T>>,
    /// IP bytes in both.
    bytes: u64,
    next_update: Time,
    /// The delay at the last update.
    old_delay: Duration,
    probability: f64,
    /// Whose turn it is, in hundredths of a byte: the classic queue's if positive.
    credit: i64,
}

impl<T: Copy> DualPi2<T> {
    pub(crate) fn new(config: &DualPi2Config) -> DualPi2<T> {
        let tupdate = config.tupdate.max(MIN_UPDATE);
        DualPi2 {
            config: DualPi2Config { tupdate, ..*config },
            l4s: VecDeque::new(),
            classic: VecDeque::new(),
            bytes: 0,
            next_update: Time::ZERO + tupdate,
            old_delay: Duration::ZERO,
            probability: 0.0,
            credit: FIRST_CREDIT,
        }
    }

    /// Appends a packet to its queue.
    #[inline(never)]
    pub(crate) fn push(&mut self, packet: Waiting<T>) {
        self.update_until(packet.arrived + Duration::from_nanos(1));
        self.bytes += u64::from(packet.size);
        match is_l4s(packet.ecn) {
            true => self.l4s.push_back(packet),
            false => self.classic.push_back(packet),
        }
    }

    /// The packet to send at `now`, perhaps marked; packets dropped before it go to `dropped`.
    #[inline(never)]
    pub(crate) fn next(
        &mut self,
        now: Time,
        random: &mut Random,
        mut dropped: impl FnMut(Waiting<T>),
    ) -> Option<Waiting<T>> {
        self.update_until(now);
        loop {
            let contended = !self.l4s.is_empty() && !self.classic.is_empty();
            let l4s = self.classic.is_empty() || !self.l4s.is_empty() && self.credit <= 0;
            let queue = if l4s {
                &mut self.l4s
            } else {
                &mut self.classic
            };
            let Some(mut packet) = queue.pop_front() else {
                self.credit = FIRST_CREDIT;
                return None;
            };
            self.bytes -= u64::from(packet.size);
            let verdict = match self.coupled(l4s, packet.ecn, random) {
                Verdict::Pass if l4s && self.exceeds_step(now, &packet) => Verdict::Mark,
                verdict => verdict,
            };
            match verdict {
                Verdict::Pass => {}
                Verdict::Mark => packet.marked = true,
                Verdict::Drop => {
                    dropped(packet);
                    continue;
                }
            }
            if contended {
                let share = if l4s { SHARES.0 } else { -SHARES.1 };
                self.credit += share * i64::from(packet.size);
            }
            return Some(packet);
        }
    }

    /// What the coupled probability does to a packet.
    fn coupled(&self, l4s: bool, ecn: Ecn, random: &mut Random) -> Verdict {
        if self.bytes < 2 * FULL_PACKET {
            return Verdict::Pass;
        }
        let p = self.probability;
        let coupled = self.config.coupling * p;
        let overload = coupled > 1.0;
        let both = |random: &mut Random| random.chance(p) && random.chance(p);
        match (l4s, overload) {
            (true, true) if both(random) => Verdict::Drop,
            (true, true) => Verdict::Mark,
            (true, false) if random.chance(coupled) => Verdict::Mark,
            (false, _) if both(random) => match overload || ecn == Ecn::NotEct {
                true => Verdict::Drop,
                false => Verdict::Mark,
            },
            _ => Verdict::Pass,
        }
    }

    /// Whether an L4S packet has waited too long, and others wait behind it.
    fn exceeds_step(&self, now: Time, packet: &Waiting<T>) -> bool {
        now - packet.arrived > self.config.step && !self.l4s.is_empty()
    }

    /// The updates before `end`.
    fn update_until(&mut self, end: Time) {
        while self.next_update < end {
            let before = (self.probability, self.old_delay);
            self.update();
            if before == (self.probability, self.old_delay) && self.bytes == 0 {
                // All further updates change nothing either.
                self.next_update = self.next_update.in_steps_to(self.config.tupdate, end);
            }
        }
    }

    /// RFC 9332, appendix A.1: `dualpi2_update`.
    fn update(&mut self) {
        let DualPi2Config {
            target,
            alpha,
            beta,
            ..
        } = self.config;
        let waited = |queue: &VecDeque<Waiting<T>>| {
            let head = queue.front();
            head.map_or(Duration::ZERO, |head| self.next_update - head.arrived)
        };
        let delay = waited(&self.l4s).max(waited(&self.classic));
        let above = delay.as_secs_f64() - target.as_secs_f64();
        let growth = delay.as_secs_f64() - self.old_delay.as_secs_f64();
        let probability = self.probability + alpha * above + beta * growth;
        self.probability = probability.clamp(0.0, 1.0);
        self.old_delay = delay;
        self.next_update += self.config.tupdate;
    }
}

/// The L4S queue goes first.
const FIRST_CREDIT: i64 = (SHARES.0 - SHARES.1) * FULL_PACKET as i64;

/// RFC 9331, section 5.1.
fn is_l4s(ecn: Ecn) -> bool {
    matches!(ecn, Ecn::Ect1 | Ecn::Ce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dual(probability: f64) -> DualPi2<()> {
        let mut dual = DualPi2::new(&DualPi2Config::default());
        dual.probability = probability;
        dual
    }

    fn packet(arrived: Time, ecn: Ecn) -> Waiting<()> {
        Waiting {
            packet: (),
            size: 1500,
            wire_bytes: 1500,
            arrived,
            ecn,
            marked: false,
        }
    }

    /// The shares of marks and drops among many packets.
    fn shares(probability: f64, ecn: Ecn) -> [f64; 2] {
        let mut random = Random::new(3);
        let mut dual = dual(probability);
        dual.bytes = 2 * FULL_PACKET;
        let verdicts = (0..100_000).map(|_| dual.coupled(is_l4s(ecn), ecn, &mut random));
        let verdicts: Vec<Verdict> = verdicts.collect();
        [Verdict::Mark, Verdict::Drop].map(|wanted| {
            let found = verdicts.iter().filter(|&&verdict| verdict == wanted);
            found.count() as f64 / 1e5
        })
    }

    #[track_caller]
    fn close(found: [f64; 2], expected: [f64; 2]) {
        // Four standard deviations are at most 4 * sqrt(0.25 / 10^5) = 0.0063.
        let far = |(found, expected): (&f64, &f64)| (found - expected).abs() > 0.0063;
        assert!(
            !found.iter().zip(&expected).any(far),
            "{found:?}, {expected:?}"
        );
    }

    #[test]
    fn classic_packets_meet_the_square_and_l4s_packets_k_times_the_probability() {
        close(shares(0.3, Ecn::NotEct), [0.0, 0.09]);
        close(shares(0.3, Ecn::Ect0), [0.09, 0.0]);
        close(shares(0.3, Ecn::Ect1), [0.6, 0.0]);
        close(shares(0.3, Ecn::Ce), [0.6, 0.0]);
    }

    #[test]
    fn an_overload_drops_in_both_queues() {
        // 2 * 0.6 > 1.
        close(shares(0.6, Ecn::Ect0), [0.0, 0.36]);
        close(shares(0.6, Ecn::Ect1), [0.64, 0.36]);
    }

    #[test]
    fn less_than_two_full_packets_are_left_alone() {
        let mut dual = dual(1.0);
        dual.bytes = 2 * FULL_PACKET - 1;
        let verdict = dual.coupled(false, Ecn::NotEct, &mut Random::new(1));
        assert_eq!(verdict, Verdict::Pass);
    }

    #[test]
    fn the_controller_follows_the_packet_at_the_head() {
        let mut dual = dual(0.0);
        dual.push(packet(Time::ZERO, Ecn::NotEct));
        dual.update_until(Time::from_nanos(16_000_001));
        // 0.16 * (0.016 - 0.015) + 3.2 * 0.016
        assert!((dual.probability - 0.051_36).abs() < 1e-12);
        dual.update_until(Time::from_nanos(32_000_001));
        // and 0.16 * (0.032 - 0.015) + 3.2 * (0.032 - 0.016)
        assert!((dual.probability - 0.105_28).abs() < 1e-12);
    }

    #[test]
    fn late_updates_see_what_there_was_at_their_time() {
        let (mut exact, mut late) = (dual(0.3), dual(0.3));
        for dual in [&mut exact, &mut late] {
            dual.push(packet(Time::from_millis(1), Ecn::Ect0));
        }
        for millis in 0..900 {
            exact.update_until(Time::from_millis(millis));
        }
        let mut random = Random::new(1);
        for dual in [&mut exact, &mut late] {
            assert!(
                dual.next(Time::from_millis(900), &mut random, |_| ())
                    .is_some()
            );
            dual.update_until(Time::from_secs(1_000_000));
        }
        assert_eq!(exact.probability, late.probability);
        assert_eq!(exact.next_update, late.next_update);
        assert_eq!(exact.next_update, Time::from_secs(1_000_000));
    }
}
