//! Packets that wait behind the transmitter and go on together, as in a Wi-Fi aggregate (A-MPDU) or a grant of a
//! cable modem's upstream (MAP): at the end of each interval, all that were sent in it, in order.
//!
//! The times follow from the interval and the packets alone, so they are known at once.
//!
//! | original | here |
//! |---|---|
//! | IEEE 802.11 and DOCSIS: the medium is shared, the next turn depends on others | turns at the multiples of the interval |
//! | an aggregate is limited in time and bytes, too | in packets |
//! | what waits for its turn fills the queue | it has left the queue: the bandwidth alone decides how long that is |

use crate::units::{Duration, Time};

/// The parameters of an aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Aggregation", deny_unknown_fields)
)]
pub struct AggregationConfig {
    /// Time between two turns, above 0. A packet waits for the first one after its transmission.
    pub interval: Duration,
    /// Most packets in a turn, at least 1; the others wait for the next. Default: no limit.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u32>", range(min = 1)))]
    pub packets: Option<u32>,
}

/// The latest turn that has packets.
#[derive(Clone, Debug)]
pub(crate) struct Aggregation {
    interval: Duration,
    limit: u32,
    turn: Time,
    packets: u32,
}

impl Aggregation {
    pub(crate) fn new(config: &AggregationConfig) -> Aggregation {
        Aggregation {
            interval: config.interval.max(Duration::from_nanos(1)),
            limit: config.packets.unwrap_or(u32::MAX).max(1),
            turn: Time::ZERO,
            packets: 0,
        }
    }

    /// When a packet goes on whose transmission ended at `sent`, which must not decrease.
    pub(crate) fn turn(&mut self, sent: Time) -> Time {
        if sent == Time::MAX {
            return sent;
        }
        let first = Time::ZERO.in_steps_to(self.interval, sent);
        if first > self.turn {
            (self.turn, self.packets) = (first, 0);
        } else if self.packets == self.limit {
            (self.turn, self.packets) = (self.turn + self.interval, 0);
        }
        self.packets += 1;
        self.turn
    }
}
