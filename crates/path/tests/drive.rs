//! Drives a pipe through a list of arrivals and records the outcome of each packet.

use fairwind_path::ecn::Ecn;
use fairwind_path::pipe::{Arrival, LossCause, Offer, Pipe, PipeConfig};
use fairwind_path::units::{Duration, Time};

/// A packet that is to arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub at: Time,
    pub size: u32,
    pub class: u16,
    pub ecn: Ecn,
}

impl Packet {
    /// A flow for each class.
    pub(crate) fn offer(&self) -> Offer {
        Offer {
            size: self.size,
            class: self.class,
            ecn: self.ecn,
            flow: self.class.into(),
        }
    }
}

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    /// It reached the far end at this time, and its copy, if any, at the second.
    Arrived(Time, Option<Time>),
    Lost(LossCause),
}

pub(crate) struct Run {
    /// One for each packet, in order of arrival.
    pub fates: Vec<Fate>,
    /// The codepoint with which each arrived at the far end; of those lost, that with which they came.
    pub codepoints: Vec<Ecn>,
    /// Packets that reached the far end, in the order in which that became known.
    pub order: Vec<usize>,
    pub pipe: Pipe<usize>,
}

impl Run {
    /// Far-end times in the order in which they became known.
    pub(crate) fn far_ends(&self) -> Vec<Time> {
        self.order
            .iter()
            .map(|&packet| self.far_end(packet).unwrap())
            .collect()
    }

    pub(crate) fn far_end(&self, packet: usize) -> Option<Time> {
        match self.fates[packet] {
            Fate::Arrived(time, _) => Some(time),
            Fate::Lost(_) => None,
        }
    }

    pub(crate) fn lost_to(&self, wanted: LossCause) -> Vec<usize> {
        let lost = |&packet: &usize| self.fates[packet] == Fate::Lost(wanted);
        (0..self.fates.len()).filter(lost).collect()
    }

    /// Packets that the queue marked.
    pub(crate) fn marked(&self, packets: &[Packet]) -> Vec<usize> {
        let marked = |&packet: &usize| self.codepoints[packet] != packets[packet].ecn;
        (0..packets.len()).filter(marked).collect()
    }
}

/// Packets of one size and class that arrive at the same moment.
pub(crate) fn burst(at: Time, count: usize, size: u32) -> Vec<Packet> {
    burst_with(Ecn::NotEct, at, count, size)
}

/// The same, with a codepoint.
pub(crate) fn burst_with(ecn: Ecn, at: Time, count: usize, size: u32) -> Vec<Packet> {
    let class = 0;
    let packet = Packet {
        at,
        size,
        class,
        ecn,
    };
    vec![packet; count]
}

/// Runs until the fate of every packet is known, calling `depart` at each `next_departure`.
pub(crate) fn run(config: &PipeConfig, packets: &[Packet], seed: u64) -> Run {
    run_late(config, packets, seed, Duration::ZERO)
}

/// As `run`, with each call of `depart` late by `late`.
pub(crate) fn run_late(config: &PipeConfig, packets: &[Packet], seed: u64, late: Duration) -> Run {
    config.check().unwrap();
    let mut pipe = Pipe::new(config, seed);
    let mut fates = vec![None; packets.len()];
    let mut codepoints: Vec<Ecn> = packets.iter().map(|packet| packet.ecn).collect();
    let mut order = Vec::new();
    let mut note = |packet: usize, outcome: Arrival| {
        let fate = match outcome {
            Arrival::Held => return,
            Arrival::Lost(cause) => Fate::Lost(cause),
            Arrival::Leaves(time, ecn) => {
                codepoints[packet] = ecn;
                Fate::Arrived(time, None)
            }
            Arrival::Duplicated(first, second, ecn) => {
                codepoints[packet] = ecn;
                Fate::Arrived(first, Some(second))
            }
        };
        if matches!(fate, Fate::Arrived(..)) {
            order.push(packet);
        }
        assert_eq!(
            fates[packet].replace(fate),
            None,
            "packet {packet} has two fates"
        );
    };
    let depart = |pipe: &mut Pipe<usize>, until: Time, note: &mut dyn FnMut(usize, Arrival)| {
        while let Some(time) = pipe.next_departure().filter(|&time| time + late <= until) {
            while let Some(departure) = pipe.depart(time + late) {
                assert!(departure.time >= time && departure.time <= time + late);
                assert_ne!(departure.outcome, Arrival::Held);
                note(departure.packet, departure.outcome);
            }
        }
    };
    for (index, packet) in packets.iter().enumerate() {
        depart(&mut pipe, packet.at, &mut note);
        let outcome = pipe.arrive(packet.at, packet.offer(), index);
        assert!(!pipe.is_immediate() || outcome != Arrival::Held);
        note(index, outcome);
    }
    depart(&mut pipe, Time::MAX, &mut note);
    let fates = fates
        .into_iter()
        .map(|fate| fate.expect("a packet has no fate"))
        .collect();
    Run {
        fates,
        codepoints,
        order,
        pipe,
    }
}
