//! FQ-CoDel (RFC 8290): flows hashed into queues with CoDel on each, served by deficit round robin, new flows
//! first.
//!
//! | original | here |
//! |---|---|
//! | the RFC counts a queue's deficit in the bytes that the device sees, 1514 for a full packet | in IP bytes and 14 more, whatever the link's accounting |
//! | the RFC's limit is of packets, 10240 by default | the pipe's queue, in packets or bytes, with the packet being sent |
//! | RFC, section 4.1: an overflow drops half of the fattest queue, but at most 64 packets | the same; of equally fat queues, the first |
//! | hash of addresses and ports with a random number | hash of the caller's flow with the pipe's seed |

use std::collections::VecDeque;

use crate::codel::{CoDel, CoDelConfig};
use crate::queue::Waiting;
use crate::units::{Bytes, Duration, Time};

/// What a device counts of a packet beside its IP bytes.
const HEADER: i64 = 14;

/// The most packets that an overflow drops.
const DROP_BATCH: usize = 64;

/// The most queues.
pub(crate) const MOST_FLOWS: u32 = 65_536;

/// The parameters of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct FqCoDelConfig {
    /// Number of queues, 1 to 65536.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<u32>", range(min = 1, max = 65_536), extend("default" = FqCoDelConfig::default().flows))
    )]
    pub flows: u32,
    /// Bytes that a queue may send in its turn, above 0. A full packet counts as 1514.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Bytes>", extend("default" = FqCoDelConfig::default().quantum.to_string()))
    )]
    pub quantum: Bytes,
    /// Time in the queue that is tolerated, above 0.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Duration>", extend("default" = FqCoDelConfig::default().target.to_string()))
    )]
    pub target: Duration,
    /// How long `target` must be exceeded before packets are dropped, above `target`.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Duration>", extend("default" = FqCoDelConfig::default().interval.to_string()))
    )]
    pub interval: Duration,
    /// ECN-capable packets are marked instead of dropped, except when the queue is full.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<bool>", extend("default" = FqCoDelConfig::default().ecn))
    )]
    pub ecn: bool,
}

impl Default for FqCoDelConfig {
    /// The RFC's: 1024 queues, 1514 bytes, 5 ms, 100 ms, with ECN.
    fn default() -> FqCoDelConfig {
        let CoDelConfig {
            target, interval, ..
        } = CoDelConfig::default();
        FqCoDelConfig {
            flows: 1024,
            quantum: Bytes(1514),
            target,
            interval,
            ecn: true,
        }
    }
}

/// A queue, and its place in the round.
#[derive(Clone, Debug)]
struct FlowQueue<T> {
    waiting: VecDeque<Waiting<T>>,
    bytes: u64,
    codel: CoDel,
    /// Bytes that it may still send in this turn.
    deficit: i64,
    /// Whether it is in one of the two lists.
    listed: bool,
}

/// All queues.
#[derive(Clone, Debug)]
pub(crate) struct FqCoDel<T> {
    queues: Vec<FlowQueue<T>>,
    /// Queues whose flow has just begun, and the others that have packets or had some in this round.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    quantum: i64,
    perturbation: u64,
}

impl<T: Copy> FqCoDel<T> {
    pub(crate) fn new(config: &FqCoDelConfig, seed: u64) -> FqCoDel<T> {
        let queue = FlowQueue {
            waiting: VecDeque::new(),
            bytes: 0,
            codel: CoDel::new(&CoDelConfig {
                target: config.target,
                interval: config.interval,
                ecn: config.ecn,
            }),
            deficit: 0,
            listed: false,
        };
        let quantum = i64::try_from(config.quantum.get()).unwrap_or(i64::MAX / 4);
        FqCoDel {
            queues: vec![queue; config.flows.clamp(1, MOST_FLOWS) as usize],
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum: quantum.clamp(1, i64::MAX / 4),
            perturbation: seed,
        }
    }

    /// Appends a packet to the queue of its flow. RFC 8290, section 4.1.
    #[inline(never)]
    pub(crate) fn push(&mut self, flow: u32, packet: Waiting<T>) {
        let hash = mixed(u64::from(flow) ^ self.perturbation);
        let index = (hash % self.queues.len() as u64) as usize;
        let queue = &mut self.queues[index];
        queue.bytes += u64::from(packet.size);
        queue.waiting.push_back(packet);
        if !queue.listed {
            queue.listed = true;
            queue.deficit = self.quantum;
            self.new.push_back(index);
        }
    }

    /// Makes room: drops packets at the head of the fattest queue.
    #[inline(never)]
    pub(crate) fn shed(&mut self, mut dropped: impl FnMut(Waiting<T>)) {
        let listed = self.new.iter().chain(&self.old).copied();
        let fattest =
            listed.max_by_key(|&index| (self.queues[index].bytes, std::cmp::Reverse(index)));
        let Some(fattest) = fattest else { return };
        let queue = &mut self.queues[fattest];
        let packets = queue.waiting.len().div_ceil(2).min(DROP_BATCH);
        for packet in queue.waiting.drain(..packets) {
            queue.bytes -= u64::from(packet.size);
            dropped(packet);
        }
    }

    /// The packet to send at `now`; packets that CoDel drops before it go to `dropped`. RFC 8290, section 4.2.
    #[inline(never)]
    pub(crate) fn next(
        &mut self,
        now: Time,
        mut dropped: impl FnMut(Waiting<T>),
    ) -> Option<Waiting<T>> {
        loop {
            let list = match self.new.is_empty() {
                true => &mut self.old,
                false => &mut self.new,
            };
            let index = *list.front()?;
            let queue = &mut self.queues[index];
            if queue.deficit <= 0 {
                queue.deficit += self.quantum;
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let FlowQueue {
                waiting,
                bytes,
                codel,
                ..
            } = queue;
            if let Some(packet) = codel.dequeue(now, waiting, bytes, &mut dropped) {
                queue.deficit -= i64::from(packet.size) + HEADER;
                return Some(packet);
            }
            // A new queue that runs empty waits a round, or it could starve the old ones.
            if self.new.is_empty() {
                self.old.pop_front();
                queue.listed = false;
            } else {
                self.new.pop_front();
                self.old.push_back(index);
            }
        }
    }
}

/// A hash of a number: the last step of SplitMix64.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
