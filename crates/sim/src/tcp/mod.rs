//! A TCP connection: [`Sender`] and `Receiver`, two state machines that are given the time and the
//! arriving packets, and return what to send and when to wake them.
//!
//! Data flows one way, so a connection has one of each. Behaviour and names follow Linux 6.x
//! (`net/ipv4/tcp_input.c`, `tcp_output.c`, `tcp_recovery.c`, `tcp_rate.c`, `tcp_timer.c`); the
//! head of each file lists its deviations. `Stack::Classic2005` follows Linux 2.4.
//!
//! Not modelled: FIN, Accurate ECN, urgent data, window probes (the application reads at once), path MTU
//! discovery, TCP small queues (the path takes each packet at once, as a TUN device does), TSO
//! (every segment is a packet), PAWS (no segment is old enough), and Linux 2.4's retransmission of
//! segments not known to be lost when nothing new may be sent.

use fairwind_path::units::Time;

use crate::packet::{Packet, SackBlocks};

mod ack_policy;
mod constants;
mod ecn;
mod jiffies;
mod receive_window;
mod receiver;
mod sender;
mod stack;

pub use sender::Sender;

pub(crate) use receiver::Receiver;
pub(crate) use sender::Statistics;

#[cfg(test)]
mod tests;

/// A packet from a receiver, with its SACK blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    /// The packet; its `sack` handle is not set yet.
    pub packet: Packet,
    /// Its blocks.
    pub sack: SackBlocks,
}

/// Every host has been up for this long when a run starts, as a time stamp of 0 means "none" in
/// many places, in the kernel too.
const UPTIME_NS: u64 = 1_000_000_000;

/// The host's clock in nanoseconds.
#[inline]
fn clock_ns(now: Time) -> u64 {
    now.as_nanos() + UPTIME_NS
}

/// The clock of the timestamp option, milliseconds.
#[inline]
fn milliseconds(now: Time) -> u32 {
    (clock_ns(now) / 1_000_000) as u32
}

/// Microseconds since an echoed time stamp was sent; `None` if they do not fit into 31 bits, which is
/// longer than the kernel takes for a round trip (`tcp_rtt_tsopt_us`).
#[inline]
fn since_echoed_us(now: Time, ts_ecr: u32) -> Option<u32> {
    const LONGEST_MS: u32 = i32::MAX as u32 / 1000;
    let elapsed_ms = milliseconds(now).wrapping_sub(ts_ecr);
    (elapsed_ms < LONGEST_MS).then(|| 1000 * elapsed_ms)
}
