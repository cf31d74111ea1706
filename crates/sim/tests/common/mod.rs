//! What several tests build their networks from.

use fairwind_path::delay::{Delay, DelayConfig};
use fairwind_path::pipe::PipeConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::units::{Bandwidth, Duration};

/// A drop-tail pipe with a queue of `slots` packets.
pub(crate) fn pipe(mbps: u64, delay: Duration, slots: u32) -> PipeConfig {
    PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(mbps)),
        delay: DelayConfig {
            base: Delay::Constant(delay),
            ..DelayConfig::default()
        },
        capacity: Capacity::Packets(slots),
        ..PipeConfig::default()
    }
}
