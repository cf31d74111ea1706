//! A pipe and the packets that have left its transmitter.

use fairwind_path::pipe::Pipe;
use fairwind_path::units::Time;

use super::arena::PacketId;
use super::capture::Recorder;
use super::classifier::Tag;
use super::departures::Departures;
use super::statistics::PipeSample;
use crate::network::PipePlan;

pub(super) struct Transit {
    /// Index in the network.
    pub index: usize,
    pub name: String,
    pub pipe: Pipe<PacketId>,
    pub departures: Departures,
    /// The node at the pipe's far end.
    pub to: usize,
    /// The time of its valid entry on the agenda.
    pub armed: Option<Time>,
    pub recorder: Option<Recorder>,
    default_class: u16,
    /// By [`Tag::index`].
    classes: Option<Box<[u16]>>,
}

impl Transit {
    /// The pipe with this index, in a network of `flows` flows.
    pub(super) fn new(index: usize, plan: &PipePlan, flows: usize, seed: u64) -> Transit {
        let pipe = Pipe::new(&plan.config, seed);
        let classes = (!plan.classes.is_empty()).then(|| {
            let mut classes = vec![plan.default_class; 2 * flows];
            for (&(flow, acknowledges), &class) in &plan.classes {
                classes[2 * flow + usize::from(acknowledges)] = class;
            }
            classes.into_boxed_slice()
        });
        Transit {
            index,
            name: plan.name.clone(),
            departures: Departures::new(pipe.keeps_order()),
            pipe,
            to: plan.to,
            armed: None,
            recorder: None,
            default_class: plan.default_class,
            classes,
        }
    }

    /// The scheduler's class of a packet.
    #[inline]
    pub(super) fn class(&self, tag: Tag) -> u16 {
        match (&self.classes, tag.index()) {
            (Some(classes), Some(index)) => classes[index],
            _ => self.default_class,
        }
    }

    /// Time of the next event.
    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        let pair = (self.departures.next(), self.pipe.next_departure());
        match pair {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The pipe's state at `time`, up to which everything has been processed.
    pub(super) fn sample(&mut self, time: Time) -> PipeSample {
        let queue = self.pipe.queue(time);
        PipeSample {
            pipe: self.index,
            time,
            queue_packets: queue.packets,
            queue_bytes: queue.bytes,
            drops: self.pipe.losses(),
            bytes: self.pipe.bytes_out(time),
        }
    }
}
