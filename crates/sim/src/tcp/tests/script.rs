//! The script language. Segments are full-sized and counted from 0, so that `ack(2)` acknowledges
//! segments 0 and 1, and `2..4` are segments 2 and 3.
//!
//! Everything an endpoint sends must be asserted at the moment it is sent: `at` fails if a timer
//! sent something in between, and the end of a script fails if anything is left.

use fairwind_cc::native::find;
use fairwind_path::ecn::Ecn;
use fairwind_path::units::{Bytes, Time};

use crate::packet::{Kind, Packet, SackPool};
use crate::scenario::{Stack, TcpConfig};

mod receiving;
mod sending;

pub(super) use receiving::Receiving;
pub(super) use sending::Sending;

/// Payload of a segment.
pub(super) const MSS: u64 = 1448;

pub(super) fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// The configuration of a connection of this stack with Linux's defaults, but that nothing waits for a larger burst.
pub(super) fn tcp(control: &str, stack: Stack) -> TcpConfig {
    let control = find(control).expect("a control of cc/");
    TcpConfig {
        stack,
        tso_win_divisor: u32::MAX,
        ..TcpConfig::new(control.default_parameters())
    }
}

pub(super) fn reno() -> TcpConfig {
    tcp("reno", Stack::Linux)
}

pub(super) fn classic() -> TcpConfig {
    tcp("reno", Stack::Classic2005)
}

pub(super) fn blank(kind: Kind) -> Packet {
    Packet {
        seq: 0,
        connection: 0,
        len: 0,
        window: 0,
        ts_val: 0,
        ts_ecr: 0,
        sack: SackPool::NONE,
        size: 0,
        generation: 0,
        hop: 0,
        kind,
        push: false,
        ecn: Ecn::NotEct,
        ece: false,
        cwr: false,
    }
}

/// With this fixed receive buffer, bytes.
pub(super) fn with_buffer(bytes: u64) -> TcpConfig {
    TcpConfig {
        receive_buffer: Some(Bytes(bytes)),
        ..reno()
    }
}
