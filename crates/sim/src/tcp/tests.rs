//! Packet scripts: a segment in, a segment out, at a time. The expected values follow from the RFCs
//! and kernel functions that the tests name.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "often there is one SACK block"
)]

mod classic;
mod cwnd_validation;
mod delayed_ack;
mod ecn;
mod frto;
mod handshake;
mod instruments;
mod jiffies;
mod operations;
mod pacing;
mod prr;
mod rack;
mod rate;
mod rto;
mod runs;
mod sack;
mod scoreboard;
mod script;
mod slow_start;
mod switch;
mod tlp;
mod tso;
mod undo;
mod window;
