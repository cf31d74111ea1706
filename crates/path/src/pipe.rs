//! A pipe: a queue, a transmitter and a delay, in one direction.
//!
//! An arriving packet may be lost at random or exceed a policer; the queue admits or drops it; it is sent at the pipe's
//! bandwidth; it may wait for the end of an interval; after the delay it reaches the far end.
//!
//! If packets depart in order of arrival and are dropped only on arrival, the far-end time is known at
//! once and the pipe holds no packets: it is *immediate*. With CoDel, FQ-CoDel, DualPI2, or a scheduler other than FIFO,
//! it holds packets and returns them through [`Pipe::next_departure`] and [`Pipe::depart`].
//!
//! | original | here |
//! |---|---|
//! | Dummynet and netem work in ticks or timer events | each packet has its own times, exact to a nanosecond, however late the caller is |
//! | at the same moment, arrivals and departures in any order | departures first |
//! | netem's duplicate is queued like a packet | the copy is made after transmission and uses no bandwidth |

use std::collections::VecDeque;

use crate::accounting::Accounting;
use crate::aggregation::Aggregation;
use crate::delay::DelayLine;
use crate::ecn::Ecn;
use crate::held::Held;
use crate::loss::Loss;
use crate::pie::Pie;
use crate::policer::Policer;
use crate::queue::{Backlog, Capacity, QueueState, Waiting};
use crate::random::Random;
use crate::rate::{Transmitter, mean_time_for};
use crate::red::{Red, Verdict};
use crate::statistics::{Counts, Lengths};
use crate::units::{Duration, Time};

pub use crate::config::{Aqm, ConfigError, PipeConfig};
pub use crate::statistics::PipeStatistics;

/// What a pipe has to know of a packet that arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Its size in IP bytes.
    pub size: u32,
    /// Its class; one beyond the scheduler's last counts as the last.
    pub class: u16,
    /// The codepoint with which it arrives.
    pub ecn: Ecn,
    /// A number that all packets of a flow have in common, and few of other flows. Its bits need not be
    /// evenly spread.
    pub flow: u32,
}

impl Offer {
    /// A packet of `size` IP bytes in the first class, not ECN-capable.
    pub fn of(size: u32) -> Offer {
        Offer {
            size,
            ..Offer::default()
        }
    }
}

/// The outcome for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It reaches the far end at this time, with this codepoint: CE if the queue marked it, otherwise the
    /// one with which it arrived. [`Time::MAX`] means never, because the bandwidth stays 0.
    Leaves(Time, Ecn),
    /// It reaches the far end twice, at these times, the earlier first; the codepoint as above.
    Duplicated(Time, Time, Ecn),
    /// The pipe holds it; [`Pipe::depart`] returns it with its outcome.
    Held,
    /// It is lost.
    Lost(LossCause),
}

/// Why a packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossCause {
    /// The queue was full.
    QueueFull,
    /// RED dropped it early.
    Red,
    /// CoDel dropped it because it had waited too long.
    CoDel,
    /// PIE dropped it early.
    Pie,
    /// DualPI2 dropped it early.
    DualPi2,
    /// It was lost at random.
    Random,
    /// It exceeded the policer's rate and burst.
    Policer,
}

/// A packet that a pipe held, and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// The value passed to [`Pipe::arrive`].
    pub packet: T,
    /// Its size in IP bytes.
    pub size: u32,
    /// When its transmission ended or CoDel dropped it; not later than the call.
    pub time: Time,
    /// Its outcome, never [`Arrival::Held`].
    pub outcome: Arrival,
}

impl<T> Departure<T> {
    /// A packet that was held, and dropped at `time`.
    fn lost(waiting: Waiting<T>, time: Time, cause: LossCause) -> Departure<T> {
        Departure {
            packet: waiting.packet,
            size: waiting.size,
            time,
            outcome: Arrival::Lost(cause),
        }
    }
}

/// A pipe and its state. `T` identifies a packet to the caller; the pipe only returns it.
#[derive(Clone, Debug)]
pub struct Pipe<T> {
    /// The constant delay, if the pipe is immediate, has neither jitter, reordering, duplicates
    /// nor aggregation, and drops packets only when the queue is full: the fast path of `arrive`.
    plain: Option<Duration>,
    accounting: Accounting,
    capacity: Capacity,
    transmitter: Transmitter,
    backlog: Backlog,
    lengths: Lengths,
    /// Counts since the start; `counts` completes them for an immediate pipe.
    counts: Counts,
    /// The counts at the last reset.
    before: Counts,
    chances: Impairments,
    policer: Option<Box<Policer>>,
    red: Option<Red>,
    pie: Option<Box<Pie>>,
    held: Option<Box<Held<T>>>,
    /// Packets sent or dropped, but not yet returned by `depart`.
    out: VecDeque<Departure<T>>,
}

/// The random elements of a pipe.
#[derive(Clone, Debug)]
struct Impairments {
    random: Random,
    loss: Loss,
    aggregation: Option<Aggregation>,
    travel: DelayLine,
    duplicate: f64,
}

impl Impairments {
    /// The outcome for a packet whose transmission ends at `sent`.
    fn deliver(&mut self, sent: Time, ecn: Ecn, counts: &mut Counts) -> Arrival {
        let sent = match &mut self.aggregation {
            Some(aggregation) => aggregation.turn(sent),
            None => sent,
        };
        let (first, displaced) = self.travel.pass(sent, &mut self.random);
        counts.reordered += u64::from(displaced);
        if !self.random.chance(self.duplicate) {
            return Arrival::Leaves(first, ecn);
        }
        counts.duplicates += 1;
        let second = self.travel.pass_in_order(sent, &mut self.random);
        Arrival::Duplicated(first.min(second), first.max(second), ecn)
    }
}

impl<T: Copy> Pipe<T> {
    /// An empty pipe. The same configuration and seed make the same random choices.
    pub fn new(config: &PipeConfig, seed: u64) -> Pipe<T> {
        let red = match &config.aqm {
            Aqm::Red(red) => {
                let by_bytes = matches!(config.capacity, Capacity::Bytes(_));
                let step = mean_time_for(&config.bandwidth, red.mean_packet.get());
                Some(Red::new(red, by_bytes, step))
            }
            _ => None,
        };
        let pie = match &config.aqm {
            Aqm::Pie(pie) => Some(Box::new(Pie::new(pie))),
            _ => None,
        };
        let at_arrival = (red.as_ref(), pie.as_deref());
        let held = Held::new(config, at_arrival, seed).map(Box::new);
        let chances = Impairments {
            random: Random::new(seed),
            loss: Loss::new(&config.loss),
            aggregation: config.aggregation.as_ref().map(Aggregation::new),
            travel: DelayLine::new(&config.delay, config.reorder),
            duplicate: config.duplicate,
        };
        let policer = config.policer.as_ref();
        let policer = policer.map(|policer| Box::new(Policer::new(policer)));
        let certain = matches!(chances.loss, Loss::None) && chances.duplicate <= 0.0;
        let only_full = policer.is_none() && red.is_none() && pie.is_none();
        let plain = certain && only_full && held.is_none() && chances.aggregation.is_none();
        Pipe {
            plain: chances.travel.constant().filter(|_| plain),
            accounting: config.accounting,
            capacity: config.capacity,
            transmitter: Transmitter::new(&config.bandwidth),
            backlog: Backlog::new(),
            lengths: Lengths::new(),
            counts: Counts::default(),
            before: Counts::default(),
            chances,
            policer,
            red,
            pie,
            held,
            out: VecDeque::new(),
        }
    }

    /// Passes a packet to the pipe. `now` must not decrease from call to call.
    #[inline(always)]
    pub fn arrive(&mut self, now: Time, offer: Offer, packet: T) -> Arrival {
        if let Some(delay) = self.plain {
            return match self.transmit(now, offer.size) {
                Some(sent) => Arrival::Leaves(sent + delay, offer.ecn),
                None => Arrival::Lost(LossCause::QueueFull),
            };
        }
        self.arrive_slow(now, offer, packet)
    }

    /// The end of transmission of a packet that arrives at `now`, or `None` if the queue is full.
    #[inline(always)]
    fn transmit(&mut self, now: Time, size: u32) -> Option<Time> {
        self.backlog.advance(now, &mut self.lengths);
        if !self
            .capacity
            .admits(self.backlog.packets(), || self.backlog.bytes(), size)
        {
            self.counts.drops += 1;
            return None;
        }
        let wire_bytes = self.accounting.wire_bytes(size);
        self.counts.wire_bytes += wire_bytes;
        let sent = self.transmitter.transmit(now, wire_bytes);
        self.backlog.push(now, sent, size, &mut self.lengths);
        Some(sent)
    }

    #[inline(never)]
    fn arrive_slow(&mut self, now: Time, offer: Offer, packet: T) -> Arrival {
        let size = offer.size;
        self.catch_up(now);
        if self.chances.loss.takes(now, &mut self.chances.random) {
            self.counts.random_losses += 1;
            return Arrival::Lost(LossCause::Random);
        }
        if let Some(policer) = &mut self.policer
            && !policer.passes(now, self.accounting.wire_bytes(size))
        {
            self.counts.policed += 1;
            return Arrival::Lost(LossCause::Policer);
        }
        if self.held.is_some() {
            return self.hold(now, offer, packet);
        }
        let mut ecn = offer.ecn;
        if let Some(red) = &mut self.red {
            let queue = (self.backlog.packets(), self.backlog.bytes());
            let idle = self.backlog.idle(now);
            match red.judge(queue, idle, offer, &mut self.chances.random) {
                Verdict::Pass => {}
                Verdict::Mark => ecn = Ecn::Ce,
                Verdict::Drop => {
                    self.counts.drops += 1;
                    return Arrival::Lost(LossCause::Red);
                }
            }
        }
        match self.pie_judges(now, offer) {
            Verdict::Pass => {}
            Verdict::Mark => ecn = Ecn::Ce,
            Verdict::Drop => {
                self.counts.drops += 1;
                return Arrival::Lost(LossCause::Pie);
            }
        }
        let free = self.backlog.free_at();
        let Some(sent) = self.transmit(now, offer.size) else {
            return Arrival::Lost(LossCause::QueueFull);
        };
        if let Some(pie) = &mut self.pie {
            pie.will_send(now, free.max(now));
        }
        self.counts.marks += u64::from(ecn != offer.ecn);
        self.chances.deliver(sent, ecn, &mut self.counts)
    }

    /// What PIE does with a packet that arrives in an immediate pipe.
    fn pie_judges(&mut self, now: Time, offer: Offer) -> Verdict {
        let Some(pie) = &mut self.pie else {
            return Verdict::Pass;
        };
        pie.advance(now);
        let (packets, bytes) = (self.backlog.packets(), self.backlog.bytes());
        if !self.capacity.admits(packets, || bytes, offer.size) {
            pie.overflows();
            return Verdict::Pass;
        }
        pie.judge(bytes, offer.ecn, &mut self.chances.random)
    }

    /// Queues a packet, unless there is no room for it.
    fn hold(&mut self, now: Time, offer: Offer, packet: T) -> Arrival {
        let Some(held) = &mut self.held else {
            return Arrival::Lost(LossCause::QueueFull);
        };
        let judged = held.judge(now, offer, self.capacity, &mut self.chances.random);
        let marked = match judged {
            Ok(marked) => marked,
            Err(cause) => {
                self.counts.drops += 1;
                return Arrival::Lost(cause);
            }
        };
        let size = offer.size;
        let wire_bytes = self.accounting.wire_bytes(size);
        self.lengths.held(held.packets, now);
        let waiting = Waiting {
            packet,
            size,
            wire_bytes,
            arrived: now,
            ecn: offer.ecn,
            marked,
        };
        held.push(offer, waiting);
        let cause = LossCause::QueueFull;
        held.shed(self.capacity, |dropped, packets_before| {
            self.lengths.held(packets_before, now);
            self.counts.drops += 1;
            self.out.push_back(Departure::lost(dropped, now, cause));
        });
        if held.in_service.is_none() {
            self.serve(now);
        }
        Arrival::Held
    }

    /// Starts the transmission of the next packet at `now`.
    fn serve(&mut self, now: Time) {
        let Pipe {
            held,
            transmitter,
            lengths,
            counts,
            chances,
            out,
            ..
        } = self;
        let Some(held) = held else { return };
        let transmit =
            |waiting: &Waiting<T>| transmitter.transmit(waiting.arrived, waiting.wire_bytes);
        let cause = held.cause();
        held.serve(
            now,
            transmit,
            &mut chances.random,
            |dropped, packets_before| {
                lengths.held(packets_before, now);
                counts.drops += 1;
                out.push_back(Departure::lost(dropped, now, cause));
            },
        );
    }

    /// Processes the departures up to `now`.
    #[inline]
    fn catch_up(&mut self, now: Time) {
        match self.held {
            None => self.backlog.advance(now, &mut self.lengths),
            Some(_) => self.catch_up_held(now),
        }
    }

    fn catch_up_held(&mut self, now: Time) {
        while let Some(held) = &mut self.held
            && let Some(sent) = held.finish(now)
        {
            let (time, waiting) = (sent.until, sent.waiting);
            let Waiting { packet, size, .. } = waiting;
            let ecn = if waiting.marked { Ecn::Ce } else { waiting.ecn };
            self.lengths.held(held.packets + 1, time);
            self.counts.packets += 1;
            self.counts.bytes += u64::from(size);
            self.counts.wire_bytes += self.accounting.wire_bytes(size);
            self.counts.marks += u64::from(ecn != waiting.ecn);
            let outcome = self.chances.deliver(time, ecn, &mut self.counts);
            self.out.push_back(Departure {
                packet,
                size,
                time,
                outcome,
            });
            self.serve(time);
        }
    }

    /// When [`Pipe::depart`] next has a packet to return; `None` if the pipe holds no packet or will never
    /// send it.
    #[inline]
    pub fn next_departure(&self) -> Option<Time> {
        if let Some(departure) = self.out.front() {
            return Some(departure.time);
        }
        let sending = self.held.as_ref()?.in_service.as_ref()?;
        Some(sending.until).filter(|&until| until < Time::MAX)
    }

    /// The next held packet that was sent or dropped by `now`. Call it until it returns `None`. A late
    /// call delays no packet: departures follow from arrivals alone.
    #[inline]
    pub fn depart(&mut self, now: Time) -> Option<Departure<T>> {
        self.catch_up(now);
        self.out.pop_front()
    }

    /// Whether [`Pipe::arrive`] never returns [`Arrival::Held`]: departures are known at arrival.
    #[inline]
    pub fn is_immediate(&self) -> bool {
        self.held.is_none()
    }

    /// Whether the flow of a packet matters.
    pub fn tells_flows_apart(&self) -> bool {
        self.held
            .as_ref()
            .is_some_and(|held| held.tells_flows_apart())
    }

    /// Whether far-end times never decrease in the order in which the pipe reports them.
    pub fn keeps_order(&self) -> bool {
        self.chances.travel.keeps_order()
    }

    /// The packets waiting or being sent at `now`.
    pub fn queue(&mut self, now: Time) -> QueueState {
        self.catch_up(now);
        let (packets, bytes) = self.occupancy();
        QueueState {
            packets: packets as u64,
            bytes,
        }
    }

    /// Packets dropped by the queue since the start, without those lost at random or to the policer.
    pub fn drops(&self) -> u64 {
        self.counts.drops
    }

    /// Packets lost since the start, whatever the cause.
    pub fn losses(&self) -> u64 {
        self.counts.losses()
    }

    /// IP bytes of the packets whose transmission ended by `now`, counted from the start.
    pub fn bytes_out(&mut self, now: Time) -> u64 {
        self.catch_up(now);
        match self.held {
            None => self.backlog.bytes_out(),
            Some(_) => self.counts.bytes,
        }
    }

    /// Starts the statistics anew at `now`, the end of the warm-up.
    pub fn reset_statistics(&mut self, now: Time) {
        self.catch_up(now);
        self.lengths.reset(self.occupancy().0, now);
        self.before = self.counts();
    }

    /// The statistics from the start or the last reset to `end`.
    pub fn statistics(&mut self, end: Time) -> PipeStatistics {
        self.catch_up(end);
        self.lengths.held(self.occupancy().0, end);
        let offered = self.transmitter.offered_bits(self.lengths.from(), end);
        PipeStatistics::new(&self.lengths, (&self.before, &self.counts()), offered, end)
    }

    /// The complete counts. An immediate pipe counts wire bytes at arrival, so those of the packets still
    /// in the backlog are subtracted; the backlog has counted the departures.
    fn counts(&self) -> Counts {
        let mut counts = self.counts;
        if self.is_immediate() {
            let waiting = self.backlog.sizes();
            let waiting = waiting.map(|size| self.accounting.wire_bytes(size));
            counts.packets = self.backlog.packets_out();
            counts.bytes = self.backlog.bytes_out();
            counts.wire_bytes -= waiting.sum::<u64>();
        }
        counts.arrived = counts.packets + self.occupancy().0 as u64 + counts.losses();
        counts
    }

    fn occupancy(&self) -> (usize, u64) {
        match &self.held {
            None => (self.backlog.packets(), self.backlog.bytes()),
            Some(held) => (held.packets, held.bytes),
        }
    }
}
