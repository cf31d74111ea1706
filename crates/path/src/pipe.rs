//! A pipe: a queue, a transmitter and a delay, in one direction.
//!
//! A packet arrives; random loss may take it; the queue takes it in or drops it; it is sent at the
//! pipe's bandwidth; then the delay passes, and it is at the far end.

use crate::accounting::Accounting;
use crate::codel::CoDelConfig;
use crate::delay::{Delay, DelayConfig, ReorderConfig};
use crate::loss::LossConfig;
use crate::queue::{Backlog, Capacity, QueueState};
use crate::rate::{Rate, Transmitter};
use crate::red::RedConfig;
use crate::scheduler::SchedulerConfig;
use crate::statistics::Record;
use crate::units::{Duration, Time};

pub use crate::statistics::PipeStatistics;

/// What a pipe is like. The default has no limit, no delay and no loss.
#[derive(Clone, Debug, Default)]
pub struct PipeConfig {
    /// How fast packets are sent.
    pub bandwidth: Rate,
    /// Which bytes the bandwidth counts.
    pub accounting: Accounting,
    /// The time from the end of a transmission to the far end.
    pub delay: DelayConfig,
    /// How much may wait.
    pub capacity: Capacity,
    /// Who is dropped before the queue is full.
    pub aqm: Aqm,
    /// Who is sent next.
    pub scheduler: SchedulerConfig,
    /// Random loss.
    pub loss: LossConfig,
    /// Probability, 0 to 1, that a packet reaches the far end twice.
    pub duplicate: f64,
    /// Packets taken out of their order.
    pub reorder: Option<ReorderConfig>,
}

/// Active queue management; with several scheduler classes each has its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Aqm {
    /// Drops only what does not fit.
    #[default]
    DropTail,
    /// Random early detection.
    Red(RedConfig),
    /// Controlled delay.
    CoDel(CoDelConfig),
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It reaches the far end at this time ([`Time::MAX`]: never, the bandwidth stays 0).
    Leaves(Time),
    /// It reaches the far end twice.
    Duplicated(Time, Time),
    /// It waits; [`Pipe::depart`] will tell.
    Held,
    /// It is gone.
    Lost(LossCause),
}

/// Why a packet is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossCause {
    /// The queue was full.
    QueueFull,
    /// RED dropped it early.
    Red,
    /// CoDel dropped it because it had waited too long.
    CoDel,
    /// It was lost at random.
    Random,
}

/// A packet that a pipe held and gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// What was given to [`Pipe::arrive`].
    pub packet: T,
    /// Its size in IP bytes.
    pub size: u32,
    /// When its transmission ended, or it was dropped; not after the time of the call.
    pub time: Time,
    /// What becomes of it: anything but [`Arrival::Held`].
    pub outcome: Arrival,
}

/// A pipe at work. Packets are whatever the caller wants back.
#[derive(Clone, Debug)]
pub struct Pipe<T> {
    transmitter: Transmitter,
    accounting: Accounting,
    capacity: Capacity,
    delay: Duration,
    backlog: Backlog,
    record: Record,
    held: Vec<T>,
}

impl<T: Copy> Pipe<T> {
    /// A pipe at rest. The same configuration and seed make the same random choices.
    pub fn new(config: &PipeConfig, seed: u64) -> Pipe<T> {
        let _ = seed;
        Pipe {
            transmitter: Transmitter::new(&config.bandwidth),
            accounting: config.accounting,
            capacity: config.capacity,
            delay: match config.delay.base {
                Delay::Constant(delay) => delay,
                Delay::Steps(ref steps) => steps.at(Time::ZERO),
            },
            backlog: Backlog::default(),
            record: Record::new(),
            held: Vec::new(),
        }
    }

    /// Gives a packet of `size` IP bytes to the pipe. `now` must not decrease from call to call.
    #[inline]
    pub fn arrive(&mut self, now: Time, size: u32, class: u16, packet: T) -> Arrival {
        let _ = (class, packet);
        self.backlog.advance(now, &mut self.record);
        self.record.counts.arrived += 1;
        if !self
            .capacity
            .admits(self.backlog.packets(), self.backlog.bytes(), size)
        {
            self.record.counts.drops += 1;
            return Arrival::Lost(LossCause::QueueFull);
        }
        let wire_bytes = self.accounting.wire_bytes(size);
        self.record.counts.wire_bytes += wire_bytes;
        let sent = self.transmitter.transmit(now, wire_bytes);
        self.backlog.push(now, sent, size, &mut self.record);
        Arrival::Leaves(sent + self.delay)
    }

    /// When [`Pipe::depart`] has something to give, if packets are held.
    pub fn next_departure(&self) -> Option<Time> {
        None
    }

    /// The next packet that was held and has been sent or dropped by `now`. Call it until it answers
    /// `None`. A late call delays nobody: departures follow from arrivals.
    pub fn depart(&mut self, now: Time) -> Option<Departure<T>> {
        let (packet, time) = (self.held.pop()?, now);
        Some(Departure {
            packet,
            size: 0,
            time,
            outcome: Arrival::Leaves(now),
        })
    }

    /// True if `arrive` never answers [`Arrival::Held`]: departures are known at arrival.
    pub fn is_immediate(&self) -> bool {
        true
    }

    /// True if far-end times never decrease from packet to packet.
    pub fn keeps_order(&self) -> bool {
        true
    }

    /// What waits or is being sent at `now`.
    pub fn queue(&mut self, now: Time) -> QueueState {
        self.backlog.advance(now, &mut self.record);
        QueueState {
            packets: self.backlog.packets() as u64,
            bytes: self.backlog.bytes(),
        }
    }

    /// Packets that the queue dropped since the start, those lost at random not among them.
    pub fn drops(&self) -> u64 {
        self.record.counts.drops
    }

    /// Packets lost at random since the start.
    pub fn random_losses(&self) -> u64 {
        self.record.counts.random_losses
    }

    /// IP bytes of the packets whose transmission ended by `now`, since the start.
    pub fn bytes_out(&mut self, now: Time) -> u64 {
        self.backlog.advance(now, &mut self.record);
        self.record.counts.bytes
    }

    /// Lets the statistics begin at `now`, the end of the warm-up.
    pub fn reset_statistics(&mut self, now: Time) {
        self.backlog.advance(now, &mut self.record);
        self.record.reset(self.backlog.packets(), now);
    }

    /// The statistics from the start, or the last reset, to `end`.
    pub fn statistics(&mut self, end: Time) -> PipeStatistics {
        self.backlog.advance(end, &mut self.record);
        self.record.statistics(self.backlog.packets(), end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bandwidth;

    #[test]
    fn a_packet_leaves_after_its_transmission_and_the_delay() {
        let config = PipeConfig {
            bandwidth: Rate::Constant(Bandwidth::from_mbps(12)),
            delay: DelayConfig {
                base: Delay::Constant(Duration::from_millis(10)),
                ..DelayConfig::default()
            },
            capacity: Capacity::Packets(2),
            ..PipeConfig::default()
        };
        let mut pipe = Pipe::new(&config, 1);
        let now = Time::from_millis(5);
        assert_eq!(
            pipe.arrive(now, 1500, 0, 'a'),
            Arrival::Leaves(Time::from_millis(16))
        );
        assert_eq!(
            pipe.arrive(now, 1500, 0, 'b'),
            Arrival::Leaves(Time::from_millis(17))
        );
        assert_eq!(
            pipe.arrive(now, 1500, 0, 'c'),
            Arrival::Lost(LossCause::QueueFull)
        );
        assert_eq!(
            pipe.queue(Time::from_millis(6)),
            QueueState {
                packets: 1,
                bytes: 1500
            }
        );
    }
}
