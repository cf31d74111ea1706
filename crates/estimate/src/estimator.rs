//! The history of a connection's trains, and what follows from it.

use std::collections::VecDeque;

use crate::train::{Limit, Tail, Train};

/// Fast trains that the capacity is estimated from.
const CAPACITY_TRAINS: usize = 24;
/// Slow trains that the available bandwidth is estimated from.
const AVAILABLE_TRAINS: usize = 12;
/// A train with less slope has not met a queue that it filled.
const FLAT: f64 = 0.05;
/// Losses of less than this share of a train count as random.
const AT_RANDOM: f64 = 0.1;
/// A train whose receive rate is known no better than this, as a share of it, tells nothing.
const BLURRED: f64 = 0.25;
/// Error of a capacity that is known from one or two trains, as a share of it, and the greatest of one
/// that is known from more.
const VAGUE: f64 = 0.25;
/// Of the standard error of a train's receive rate, what trains have in common.
const COMMON: f64 = 0.4;
/// 80 % of a normal distribution lie within as many standard deviations.
const NORMAL_80: f64 = 1.2816;

/// A value with the interval that holds it with a probability of 80 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// What is known of the path.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Capacity for IP packets of this connection's size, bit/s.
    pub capacity: Figure,
    /// Of the capacity, what other traffic left, bit/s; the connection's own packets are not other
    /// traffic. The mean of the time from `from_s` to `to_s`.
    pub available: Figure,
    /// When the oldest train in `available` ended, seconds of the caller's clock.
    pub from_s: f64,
    /// When the latest one ended.
    pub to_s: f64,
    /// Whether a policer drops what exceeds both, once its burst has passed.
    pub is_policed: bool,
}

/// Why there is no estimate.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Unknown {
    /// Too few trains have shown a rising delay.
    #[error("too few trains so far")]
    TooFew,
    /// Something at the hosts limits the trains, so they show no more than that.
    #[error("{}", limited(*.0))]
    Limited(Limit),
    /// Most trains are too short to show anything.
    #[error("too few packets or bursts in a train")]
    TooShort,
    /// Trains lose packets and their delay does not rise: a policer, or a queue as short as a burst.
    #[error("packets are lost before any delay shows")]
    Losses,
    /// Trains are received at one rate, whatever theirs is, as if there were no other traffic; but
    /// their first packets pass faster than a link of that capacity lets them.
    #[error(
        "fair queueing: first packets pass faster than the trains behind them, so these get this \
         connection's share"
    )]
    FairQueueing,
    /// What trains show differs too much from one to the next.
    #[error("the delay is too noisy")]
    Noise,
}

fn limited(limit: Limit) -> &'static str {
    match limit {
        Limit::Application => "the application has too little to send",
        Limit::Receiver => "the receiver's window is full",
        Limit::Host => "this host sends no faster",
    }
}

/// Round trips of first packets that are kept.
const OPENINGS: usize = 24;
/// Packets that leave at once, at least.
const PAIR: u32 = 2;
/// Cross traffic of less than this share of the capacity may be none.
const NO_CROSS: f64 = 0.1;
/// First packets pass faster if their round trip falls short of what a link of this capacity would make
/// it by these packets' times, a time that clocks and hosts may be wrong by, seconds, and as many
/// standard deviations of the times of ACKs.
const SHORT_PACKETS: f64 = 0.2;
const SHORT_S: f64 = 60e-6;
const SHORT_DEVIATIONS: f64 = 4.0;
/// Trains among which those with the tail that a policer leaves are counted: as many, and as large a
/// share of all, mean that there is one.
const TAILS: usize = 24;
const POLICED: usize = 4;
const POLICED_SHARE: f64 = 0.2;
/// Such a tail has packets and has lost a share of them, and what it is slower by is due to that. It
/// ends where the queue is as short as this, packets or seconds, or the delay has fallen by this share of
/// its time: a queue that overflows is long and stays so, and trains of which packets are lost at random
/// are delayed as ever.
const TAIL_PACKETS: u32 = 6;
const TAIL_LOST: f64 = 0.13;
const SHORT_QUEUE: f64 = 2.0;
const SHORT_QUEUE_S: f64 = 1.2e-3;
const TAIL_FALL: f64 = 0.25;
/// Least error of its rate: tokens that bursts leave over are many or few in each train alike.
const POLICED_ERROR: f64 = 0.012;
/// A policer passes all at one rate: its quartiles are no further apart than this share of it.
const ONE_RATE: f64 = 0.15;
/// Bits of the smallest packet that may have shown the least round-trip time: a SYN's.
const SYN_BITS: f64 = 480.0;

/// A train and when it ended.
#[derive(Clone, Debug)]
struct Past {
    at_s: f64,
    delivered: u32,
    train: Train,
}

/// Estimates from the trains of one connection, in the order of their ends.
#[derive(Clone, Debug)]
pub struct Estimator {
    /// Bits on the wire, from the IP header on, for each byte of payload.
    bits: f64,
    /// Bits of a packet.
    packet: f64,
    slow: VecDeque<Past>,
    /// Capacities by a fast train and the slow ones before it, bit/s.
    capacities: VecDeque<f64>,
    latest: VecDeque<Past>,
    /// First packets of trains: their number, their round-trip time, and the noise of the train, s.
    openings: VecDeque<(u32, f64, f64)>,
    /// When trains ended, and the rate at which a policer passed what it left of them, bit/s.
    tails: VecDeque<(f64, Option<f64>)>,
    /// Least round-trip time of the connection, s.
    least_rtt_s: f64,
}

impl Estimator {
    /// No trains yet. Packets have `payload` bytes, and `headers` bytes more from the IP header on.
    pub fn new(payload: u32, headers: u32) -> Estimator {
        Estimator {
            packet: 8.0 * f64::from(payload + headers),
            bits: 8.0 * f64::from(payload + headers) / f64::from(payload.max(1)),
            slow: VecDeque::new(),
            capacities: VecDeque::new(),
            latest: VecDeque::new(),
            openings: VecDeque::new(),
            tails: VecDeque::new(),
            least_rtt_s: f64::INFINITY,
        }
    }

    /// The least round-trip time of the connection, seconds, of which packet ever. Without it, fair
    /// queueing is not noticed.
    pub fn set_least_rtt(&mut self, seconds: f64) {
        self.least_rtt_s = seconds;
    }

    /// Adds a train that has ended at `at_s`, seconds of the caller's clock, when the connection had
    /// delivered as many packets; that count may wrap.
    pub fn add(&mut self, at_s: f64, delivered: u32, train: Train) {
        let past = Past {
            at_s,
            delivered,
            train,
        };
        push(&mut self.latest, past.clone(), 8);
        let train = &past.train;
        if (1..=PAIR).contains(&train.open) && !train.is_first {
            let opening = (train.open, train.open_rtt_s, train.noise_s);
            push(&mut self.openings, opening, OPENINGS);
        }
        if !train.is_first {
            let rate = self.policed_rate(train);
            push(&mut self.tails, (at_s, rate), TAILS);
        }
        if train.is_first || train.limit.is_some_and(|limit| limit != Limit::Host) {
            return;
        }
        let whole = self.latest.iter().filter(|past| past.train.lost == 0);
        if train.lost > 0 && 2 * whole.count() >= self.latest.len() {
            // A packet that is lost before the bottleneck was sent and not received. Others tell enough.
            return;
        }
        if train.received_error > BLURRED || ratio(train).is_none_or(|ratio| ratio < 1.0 + FLAT) {
            return;
        }
        if train.is_fast {
            if let Some(capacity) = self.capacity_with(train) {
                push(&mut self.capacities, capacity, CAPACITY_TRAINS);
            }
            return;
        }
        push(&mut self.slow, past, AVAILABLE_TRAINS);
        self.forget();
    }

    /// The rate at which a policer passed the tail of a train, if it looks like that, bit/s.
    fn policed_rate(&self, train: &Train) -> Option<f64> {
        // The link that has the queue is at least as fast.
        let received = self.latest.iter().map(|past| past.train.received);
        let fastest = received.fold(train.received, f64::max);
        let is_one = |tail: &Tail| {
            let short_s = SHORT_QUEUE_S.max(SHORT_QUEUE * self.packet / (fastest * self.bits));
            let is_short = train.end_rtt_s - self.least_rtt_s < short_s;
            // What is sent again in between is no part of the tail.
            let lost = tail.lost.max(train.lost_share());
            tail.packets >= TAIL_PACKETS
                && lost > TAIL_LOST
                && (tail.fall > TAIL_FALL || is_short && tail.fall > -lost)
        };
        // What comes together has no rate of its own.
        let tail = train
            .tail
            .filter(|tail| !train.is_together && is_one(tail))?;
        self.least_rtt_s
            .is_finite()
            .then_some(tail.received * self.bits)
    }

    /// The capacity by a fast train and the slow ones of its cycle, bit/s.
    fn capacity_with(&self, fast: &Train) -> Option<f64> {
        let slow: Vec<&Train> = self.slow.iter().rev().take(3).map(|p| &p.train).collect();
        if slow.is_empty() {
            return None;
        }
        let n = slow.len() as f64;
        let rate = slow.iter().map(|train| train.sent).sum::<f64>() / n;
        let slow_ratio = slow.iter().filter_map(|train| ratio(train)).sum::<f64>() / n;
        let rise = ratio(fast)? - slow_ratio;
        (fast.sent > rate && rise > 0.0).then(|| (fast.sent - rate) / rise * self.bits)
    }

    /// Forgets slow trains from before a change.
    fn forget(&mut self) {
        let Some(capacity) = median(&self.capacities) else {
            return;
        };
        let values: Vec<f64> = self
            .slow
            .iter()
            .filter_map(|p| self.available_by(&p.train, capacity))
            .collect();
        if values.len() < 6 {
            return;
        }
        let (old, new) = values.split_at(values.len() - 2);
        let (mean, deviation) = moments(old);
        let bound = 3.0 * deviation.max(0.02 * capacity);
        let above = new.iter().all(|value| *value > mean + bound);
        let below = new.iter().all(|value| *value < mean - bound);
        if above || below {
            self.slow.drain(..self.slow.len() - 2);
        }
    }

    /// The available bandwidth by one train, bit/s.
    fn available_by(&self, train: &Train, capacity: f64) -> Option<f64> {
        Some(train.sent * self.bits - (ratio(train)? - 1.0) * capacity)
    }

    /// What follows from the trains so far.
    ///
    /// # Errors
    ///
    /// If it is unknown; says why.
    pub fn estimate(&self) -> Result<Estimate, Unknown> {
        if let Some(policed) = self.policed() {
            return policed;
        }
        let capacity = median(&self.capacities);
        let (Some(capacity), Some(first), Some(last)) =
            (capacity, self.slow.front(), self.slow.back())
        else {
            return Err(self.why());
        };
        let mut capacities: Vec<f64> = self.capacities.iter().copied().collect();
        capacities.sort_by(f64::total_cmp);
        // Where a fast train hardly differs from slow ones, its capacity is far off: quartiles do not mind.
        let capacity_error = median_error(&capacities);
        let capacity_error = match capacities.len() {
            1 | 2 => VAGUE * capacity,
            _ => capacity_error.max(0.005 * capacity),
        };
        if capacities.len() > 2 && capacity_error > VAGUE * capacity {
            return Err(Unknown::Noise);
        }
        let values: Vec<f64> = self
            .slow
            .iter()
            .filter_map(|p| self.available_by(&p.train, capacity))
            .collect();
        let (mean, deviation) = moments(&values);
        let n = values.len() as f64;
        let error = if values.len() < 3 {
            0.1 * capacity
        } else {
            deviation / n.sqrt() * student(n - 1.0)
        };
        let slope = self
            .slow
            .iter()
            .filter_map(|p| ratio(&p.train))
            .sum::<f64>()
            / n
            - 1.0;
        let error = (error.powi(2) + (slope * capacity_error).powi(2)).sqrt();
        let error = error.hypot(self.common_error() * capacity);
        let error = error.max(0.005 * capacity);
        let may_be_none = (NO_CROSS * capacity).max(NORMAL_80 * error);
        if capacity - mean < may_be_none && self.opens_fast(capacity) {
            return Err(Unknown::FairQueueing);
        }
        // What the connection itself got was available.
        let own = f64::from(last.delivered.wrapping_sub(first.delivered)) * self.packet
            / (last.at_s - first.at_s).max(1e-9);
        let mean = if self.slow.len() > 1 {
            mean.max(own)
        } else {
            mean
        };
        if error > 0.5 * capacity {
            return Err(Unknown::Noise);
        }
        Ok(Estimate {
            capacity: within(capacity, capacity_error, f64::INFINITY),
            available: within(mean, error, capacity),
            from_s: first.at_s,
            to_s: last.at_s,
            is_policed: false,
        })
    }

    /// The rate of a policer, if trains have met one; or that they lose packets as if there were one, but
    /// at rates that differ.
    fn policed(&self) -> Option<Result<Estimate, Unknown>> {
        let with_rate = |(at_s, rate): &(f64, Option<f64>)| rate.map(|rate| (*at_s, rate));
        let tails: Vec<(f64, f64)> = self.tails.iter().filter_map(with_rate).collect();
        let enough = (POLICED_SHARE * self.tails.len() as f64).max(POLICED as f64);
        let (first, last) = (tails.first()?, tails.last()?);
        if (tails.len() as f64) < enough {
            return None;
        }
        let mut rates: Vec<f64> = tails.iter().map(|(_, rate)| *rate).collect();
        rates.sort_by(f64::total_cmp);
        if quartiles_apart(&rates) > ONE_RATE * rates[rates.len() / 2] {
            return Some(Err(Unknown::Losses));
        }
        let rate = median(&rates.iter().copied().collect())?;
        let error = median_error(&rates).max(POLICED_ERROR * rate);
        let rate = within(rate, error, f64::INFINITY);
        Some(Ok(Estimate {
            capacity: rate,
            available: rate,
            from_s: first.0,
            to_s: last.0,
            is_policed: true,
        }))
    }

    /// Error that slow trains have in common where bursts come together, as a share of the capacity: how
    /// long the first and the last of them wait depends on when the train begins, which trains keep to.
    fn common_error(&self) -> f64 {
        let together = self.slow.iter().filter(|past| past.train.is_together);
        if 2 * together.count() <= self.slow.len() {
            return 0.0;
        }
        let errors = self.slow.iter().map(|past| past.train.received_error);
        COMMON * median(&errors.collect()).unwrap_or(0.0)
    }

    /// Whether first packets pass faster than a link of this capacity, bit/s, lets them.
    fn opens_fast(&self, capacity: f64) -> bool {
        let expected = |packets: u32| (f64::from(packets) * self.packet - SYN_BITS) / capacity;
        let mut short: Vec<f64> = self
            .openings
            .iter()
            .map(|(packets, rtt, _)| expected(*packets) - (rtt - self.least_rtt_s))
            .collect();
        short.sort_by(f64::total_cmp);
        // Of the quicker ones, as the least round-trip time is that of a packet which met no delay.
        let Some(short) = short.get(short.len() * 3 / 4) else {
            return false;
        };
        let noise: VecDeque<f64> = self.openings.iter().map(|(_, _, noise)| *noise).collect();
        let bound = SHORT_PACKETS * self.packet / capacity
            + SHORT_S
            + SHORT_DEVIATIONS * median(&noise).unwrap_or(0.0);
        self.least_rtt_s.is_finite() && *short > bound
    }

    /// Why there is no estimate.
    fn why(&self) -> Unknown {
        let most = |is: &dyn Fn(&Train) -> bool| {
            let count = self.latest.iter().filter(|past| is(&past.train)).count();
            count > 0 && 2 * count > self.latest.len()
        };
        for limit in [Limit::Receiver, Limit::Application, Limit::Host] {
            if most(&|train| train.limit == Some(limit)) {
                return Unknown::Limited(limit);
            }
        }
        if most(&|train| train.lost > 0) {
            return Unknown::Losses;
        }
        if self.latest.len() > 4 && most(&|train| train.samples < 3) {
            return Unknown::TooShort;
        }
        if self.latest.len() > 4 && most(&|train| train.received_error > BLURRED) {
            return Unknown::Noise;
        }
        Unknown::TooFew
    }
}

/// Rate of sending over rate of receiving: 1 plus the rise of the delay. Few losses are such as come at
/// random, which tell nothing of the rate; what overflows a queue was sent and delays others.
fn ratio(train: &Train) -> Option<f64> {
    let lost = train.lost_share();
    let arrived = if lost < AT_RANDOM { 1.0 - lost } else { 1.0 };
    (train.sent > 0.0 && train.received > 0.0).then(|| train.sent * arrived / train.received)
}

fn push<T>(queue: &mut VecDeque<T>, value: T, most: usize) {
    if queue.len() == most {
        queue.pop_front();
    }
    queue.push_back(value);
}

fn median(values: &VecDeque<f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The interval by a standard error, from 0 to `most`.
fn within(value: f64, error: f64, most: f64) -> Figure {
    Figure {
        value: value.clamp(0.0, most),
        low: (value - NORMAL_80 * error).clamp(0.0, most),
        high: (value + NORMAL_80 * error).clamp(0.0, most),
    }
}

/// From the lower quartile to the upper one; the values are sorted and not none.
fn quartiles_apart(sorted: &[f64]) -> f64 {
    let quarter = sorted.len() / 4;
    sorted[sorted.len() - 1 - quarter] - sorted[quarter]
}

/// Standard error of the median: 5/4 of the mean's. Quartiles are 1.35 standard deviations apart.
fn median_error(sorted: &[f64]) -> f64 {
    1.25 * quartiles_apart(sorted) / 1.35 / (sorted.len() as f64).sqrt()
}

/// How much wider the 80 % of Student's distribution with this many degrees of freedom, 2 or more, are
/// than those of the normal one; within a hundredth.
fn student(freedom: f64) -> f64 {
    1.0 + 0.66 / freedom + 0.57 / freedom.powi(2)
}

/// Mean and standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>();
    (mean, (squares / (n - 1.0).max(1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: f64 = 100e6;

    /// As if at a link of this capacity that is idle, with first pairs this much earlier, s.
    fn opening_early(early_s: f64, noise_s: f64) -> Estimator {
        let mut estimator = Estimator::new(1448, 52);
        estimator.set_least_rtt(0.020 + 480.0 / CAPACITY);
        for index in 0..12 {
            let is_fast = index % 4 == 3;
            let mut train = train(if is_fast { 4.0 } else { 1.25 } * CAPACITY, 0.0, is_fast);
            train.open = 2;
            train.open_rtt_s = 0.020 + 24_000.0 / CAPACITY - early_s;
            train.noise_s = noise_s;
            estimator.add(0.1 * f64::from(index), 0, train);
        }
        estimator
    }

    #[test]
    fn first_packets_that_pass_faster_than_their_train_mean_fair_queueing() {
        // A packet takes 120 us. A fair share of a link eight times as fast lets the first one pass in 15 us.
        assert!(opening_early(0.0, 0.0).estimate().is_ok());
        assert_eq!(
            opening_early(105e-6, 0.0).estimate(),
            Err(Unknown::FairQueueing)
        );
        // What clocks may be wrong by, and what lies within the noise of the delay, tell nothing.
        assert!(opening_early(60e-6, 0.0).estimate().is_ok());
        // What lies within the noise of the delay tells nothing.
        assert!(opening_early(105e-6, 20e-6).estimate().is_ok());
    }

    #[test]
    fn first_packets_tell_nothing_beside_cross_traffic() {
        let mut estimator = after(3, 70e6);
        estimator.set_least_rtt(0.020);
        for train in estimator.latest.clone() {
            let mut train = train.train;
            (train.open, train.open_rtt_s) = (2, 0.020);
            estimator.add(2.0, 0, train);
        }
        assert!(estimator.estimate().is_ok());
    }

    /// A train of this rate, bit/s with headers, beside cross traffic of this rate.
    fn train(rate: f64, cross: f64, is_fast: bool) -> Train {
        let received = if rate + cross > CAPACITY {
            rate * CAPACITY / (rate + cross)
        } else {
            rate
        };
        let payload = 1448.0 / 1500.0 / 8.0;
        Train {
            samples: 10,
            sent: rate * payload,
            received: received * payload,
            is_fast,
            ..Train::default()
        }
    }

    /// After cycles beside cross traffic of this rate, 0.1 s for a train.
    fn after(cycles: usize, cross: f64) -> Estimator {
        let mut estimator = Estimator::new(1448, 52);
        add(&mut estimator, cycles, cross);
        estimator
    }

    fn add(estimator: &mut Estimator, cycles: usize, cross: f64) {
        let mut now = estimator.latest.back().map_or(0.0, |past| past.at_s);
        for index in 0..4 * cycles {
            now += 0.1;
            let is_fast = index % 4 == 3;
            let rate = if is_fast { 4.0 } else { 1.25 } * CAPACITY - cross;
            estimator.add(now, 0, train(rate, cross, is_fast));
        }
    }

    #[test]
    fn two_rates_give_both_unknowns() {
        let estimate = after(3, 70e6).estimate().unwrap();
        assert!((estimate.capacity.value - 100e6).abs() < 1.0);
        assert!((estimate.available.value - 30e6).abs() < 1.0);
        assert!(estimate.available.low < 30e6 && estimate.available.high > 30e6);
    }

    #[test]
    fn what_the_connection_itself_got_was_available() {
        let mut estimator = Estimator::new(1448, 52);
        for index in 0..8 {
            let is_fast = index % 4 == 3;
            let rate = if is_fast { 300e6 } else { 25e6 };
            // 100 packets of 12,000 bit in 0.1 s.
            estimator.add(
                0.1 * f64::from(index),
                100 * index as u32,
                train(rate, 100e6, is_fast),
            );
        }
        let estimate = estimator.estimate().unwrap();
        assert!((estimate.available.value - 12e6).abs() < 1.0);
    }

    #[test]
    fn after_a_change_what_was_before_is_forgotten() {
        let mut estimator = after(4, 20e6);
        add(&mut estimator, 1, 60e6);
        let available = estimator.estimate().unwrap().available;
        assert!((available.value - 40e6).abs() < 1e6, "{available:?}");
    }

    #[test]
    fn slow_trains_alone_do_not_tell_the_capacity() {
        let mut estimator = Estimator::new(1448, 52);
        for _ in 0..9 {
            estimator.add(1.0, 0, train(55e6, 70e6, false));
        }
        assert_eq!(estimator.estimate(), Err(Unknown::TooFew));
    }

    #[test]
    fn capacities_that_differ_are_noise() {
        let mut estimator = Estimator::new(1448, 52);
        let mut now = 0.0;
        for index in 0..24 {
            now += 0.1;
            let mut train = train(
                if index % 4 == 3 { 400e6 } else { 80e6 },
                50e6,
                index % 4 == 3,
            );
            if train.is_fast && index % 8 == 3 {
                train.received *= 3.0;
            }
            estimator.add(now, 0, train);
        }
        assert_eq!(estimator.estimate(), Err(Unknown::Noise));
    }

    #[test]
    fn trains_that_are_known_badly_are_noise() {
        let mut estimator = Estimator::new(1448, 52);
        for _ in 0..8 {
            let mut train = train(140e6, 0.0, true);
            train.received_error = 0.3;
            estimator.add(1.0, 0, train);
        }
        assert_eq!(estimator.estimate(), Err(Unknown::Noise));
    }

    #[test]
    fn trains_that_lost_a_packet_do_not_count_among_whole_ones() {
        let mut estimator = after(3, 70e6);
        let mut lossy = train(45e6, 70e6, false);
        lossy.lost = 1;
        lossy.received *= 0.9;
        estimator.add(2.0, 0, lossy);
        let available = estimator.estimate().unwrap().available;
        assert!((available.value - 30e6).abs() < 1.0, "{available:?}");
    }

    #[test]
    fn what_limits_the_sender_is_told() {
        for limit in [Limit::Application, Limit::Receiver, Limit::Host] {
            let mut estimator = Estimator::new(1448, 52);
            for _ in 0..8 {
                let mut train = train(40e6, 0.0, false);
                train.limit = Some(limit);
                estimator.add(1.0, 0, train);
            }
            assert_eq!(estimator.estimate(), Err(Unknown::Limited(limit)));
        }
    }

    /// After trains whose tails passed at these rates, bit/s, having lost half, in a queue of this many
    /// packets.
    fn after_tails(rates: &[f64], queue: f64) -> Estimator {
        let mut estimator = Estimator::new(1448, 52);
        estimator.set_least_rtt(0.020);
        for rate in rates {
            let mut train = train(2.0 * CAPACITY, 0.0, false);
            train.lost = 20;
            train.packets = 40;
            train.end_rtt_s = 0.020 + queue * 12_000.0 / CAPACITY;
            train.tail = Some(Tail {
                packets: 20,
                received: rate * 1448.0 / 12_000.0,
                lost: 0.5,
                fall: 0.0,
            });
            estimator.add(1.0, 0, train);
        }
        estimator
    }

    #[test]
    fn tails_that_pass_at_one_rate_through_a_short_queue_mean_a_policer() {
        let rates = [8.0e6, 8.1e6, 7.9e6, 8.0e6];
        let estimate = after_tails(&rates, 1.0).estimate().unwrap();
        assert!(estimate.is_policed);
        assert!((estimate.available.value - 8e6).abs() < 1.0);
        assert_eq!(estimate.available, estimate.capacity);
        // Three may be chance.
        assert!(after_tails(&rates[..3], 1.0).estimate().is_err());
        // A long queue has overflowed.
        let overflown = after_tails(&rates, 20.0).estimate();
        assert!(overflown.is_err_and(|why| why == Unknown::Losses));
    }

    #[test]
    fn tails_that_pass_at_different_rates_are_losses_without_delay() {
        let rates = [8e6, 4e6, 12e6, 3e6, 9e6, 15e6];
        assert_eq!(after_tails(&rates, 1.0).estimate(), Err(Unknown::Losses));
    }

    #[test]
    fn trains_that_only_lose_packets_are_told() {
        let mut estimator = Estimator::new(1448, 52);
        for _ in 0..8 {
            let mut train = train(40e6, 0.0, false);
            train.lost = 5;
            estimator.add(1.0, 0, train);
        }
        assert_eq!(estimator.estimate(), Err(Unknown::Losses));
    }
}
