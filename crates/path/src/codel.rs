//! CoDel (RFC 8289): drops or marks at the head once the queueing delay has exceeded a target for an interval.
//!
//! | original | here |
//! |---|---|
//! | the RFC's largest packet starts at 512 bytes and grows with those seen | the same |
//! | Linux: interval / sqrt(count) by Newton steps in 16-bit fixed point, times of 1.024 us | exact to a nanosecond |
//! | Linux marks ECN-capable packets where it would drop them, one each time that a drop is due | the same, with `ecn` |
//! | Linux can mark above `ce_threshold` | not here |
//! | Linux never drops while less than the device's MTU waits | as in the RFC: less than the largest packet seen |

use std::collections::VecDeque;

use crate::queue::Waiting;
use crate::units::{Duration, Time};

/// The parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct CoDelConfig {
    /// Time in the queue that is tolerated, above 0.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Duration>", extend("default" = CoDelConfig::default().target.to_string()))
    )]
    pub target: Duration,
    /// How long `target` must be exceeded before packets are dropped, above `target`.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Duration>", extend("default" = CoDelConfig::default().interval.to_string()))
    )]
    pub interval: Duration,
    /// ECN-capable packets are marked instead of dropped.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<bool>", extend("default" = CoDelConfig::default().ecn))
    )]
    pub ecn: bool,
}

impl Default for CoDelConfig {
    /// 5 ms and 100 ms, recommended for the Internet by RFC 8289, section 4; without ECN.
    fn default() -> CoDelConfig {
        CoDelConfig {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: false,
        }
    }
}

/// The state of CoDel on one queue.
#[derive(Clone, Debug)]
pub(crate) struct CoDel {
    config: CoDelConfig,
    /// When the delay will have been above target for a whole interval.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    count: u32,
    last_count: u32,
    max_packet: u32,
}

impl CoDel {
    pub(crate) fn new(config: &CoDelConfig) -> CoDel {
        CoDel {
            config: *config,
            first_above: None,
            dropping: false,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
            max_packet: 512,
        }
    }

    /// The next packet to send at `now`, perhaps marked; packets dropped before it go to `dropped`. `bytes` is the content
    /// of the queue and is updated. RFC 8289, section 5.5: `deque`.
    pub(crate) fn dequeue<T: Copy>(
        &mut self,
        now: Time,
        queue: &mut VecDeque<Waiting<T>>,
        bytes: &mut u64,
        mut dropped: impl FnMut(Waiting<T>),
    ) -> Option<Waiting<T>> {
        let (mut packet, mut may_drop) = self.take(now, queue, bytes);
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if self.marks(&mut packet) {
                    self.drop_next = self.control_law(self.drop_next);
                    break;
                }
                packet.into_iter().for_each(&mut dropped);
                (packet, may_drop) = self.take(now, queue, bytes);
                self.dropping = may_drop;
                if may_drop {
                    self.drop_next = self.control_law(self.drop_next);
                }
            }
        } else if may_drop {
            if !self.marks(&mut packet) {
                packet.into_iter().for_each(&mut dropped);
                (packet, _) = self.take(now, queue, bytes);
            }
            self.dropping = true;
            // If dropping stopped recently, start from the rate that controlled the queue then.
            let more = self.count.saturating_sub(self.last_count);
            let recent = now - self.drop_next < self.config.interval * 16;
            self.count = if recent && more > 1 { more } else { 1 };
            self.drop_next = self.control_law(now);
            self.last_count = self.count;
        }
        packet
    }

    /// Marks the packet that is to be dropped, and returns whether that was possible.
    fn marks<T>(&self, packet: &mut Option<Waiting<T>>) -> bool {
        let capable = |waiting: &&mut Waiting<T>| self.config.ecn && waiting.ecn.is_capable();
        match packet.as_mut().filter(capable) {
            Some(waiting) => {
                waiting.marked = true;
                true
            }
            None => false,
        }
    }

    /// The packet at the head, and whether it may be dropped. RFC 8289, section 5.6: `dodequeue`.
    fn take<T: Copy>(
        &mut self,
        now: Time,
        queue: &mut VecDeque<Waiting<T>>,
        bytes: &mut u64,
    ) -> (Option<Waiting<T>>, bool) {
        let Some(packet) = queue.pop_front() else {
            self.first_above = None;
            return (None, false);
        };
        *bytes -= u64::from(packet.size);
        self.max_packet = self.max_packet.max(packet.size);
        let waited = now - packet.arrived;
        if waited < self.config.target || *bytes <= u64::from(self.max_packet) {
            self.first_above = None;
            return (Some(packet), false);
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.config.interval);
                (Some(packet), false)
            }
            Some(first_above) => (Some(packet), now >= first_above),
        }
    }

    /// When the next drop is due: drops get closer with the square root of their number.
    fn control_law(&self, from: Time) -> Time {
        let interval = self.config.interval.as_nanos() as f64;
        from + Duration::from_nanos((interval / f64::from(self.count).sqrt()) as u64)
    }
}
