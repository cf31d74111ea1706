//! The result of a run: totals for every flow and pipe, and samples along the way.

use fairwind_cc::native::TcpSock;
use fairwind_path::pipe::PipeStatistics;
use fairwind_path::units::{Duration, Time};

pub use fairwind_instruments::{CongestionState, Instruments};

/// The totals of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// In the order of `Scenario::flows`.
    pub flows: Vec<FlowOutcome>,
    /// In the order of `Scenario::pipes`.
    pub pipes: Vec<PipeStatistics>,
    /// Data packets that reached a receiver, retransmissions included.
    pub data_packets: u64,
    /// Events handled.
    pub events: u64,
}

/// The totals of a flow after the warm-up, except where a field says otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowOutcome {
    /// Payload bytes delivered in order to the receiving application after the warm-up.
    pub bytes: u64,
    /// The same in each whole second after the warm-up (or the flow's start, if later) until its
    /// completion or the end of the run.
    pub bytes_per_second: Vec<u64>,
    /// The time in which `bytes` were delivered: from the later of warm-up and start to completion
    /// or the end of the run.
    pub active: Duration,
    /// From start to the delivery of the last byte, if the flow has a last byte and it arrived.
    pub completion: Option<Duration>,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Segments delivered while the receiver echoed a mark (ECN).
    pub ecn_signals: u64,
    /// Smallest round-trip time of the whole run, warm-up included, if any was measured.
    pub rtt_min: Option<Duration>,
    /// Mean of the round-trip times measured after the warm-up.
    pub rtt_mean: Option<Duration>,
    /// Datagrams or segments of data sent.
    pub packets_sent: u64,
    /// Datagrams or segments of data that a pipe dropped or lost.
    pub packets_lost: u64,
    /// How long each web object that was delivered took, from the opening of its connection to the delivery of its
    /// last byte; a finished transfer counts as one.
    pub object_times: Vec<Duration>,
}

/// Receives samples and progress during a run. Every method ignores its event by default.
pub trait Observer {
    /// The instruments of a connection. `connection` is its index within the flow; a flow of web
    /// sessions has one connection per session, and the bytes that it has received are those of all
    /// of the session's connections. Datagrams have no other instrument than these bytes. Times
    /// never decrease within a flow.
    fn flow(&mut self, flow: usize, connection: usize, now: Time, instruments: &Instruments) {
        let _ = (flow, connection, now, instruments);
    }
    /// The socket of an open connection's sender, with the private state of its congestion control:
    /// right after `flow`.
    fn socket(&mut self, flow: usize, connection: usize, now: Time, socket: &TcpSock) {
        let _ = (flow, connection, now, socket);
    }
    /// Asked when a stream of datagrams may send: what it does instead of what its application says, as
    /// tools do that send by what arrives. `None`: as the application says.
    fn datagram(&mut self, flow: usize, now: Time) -> Option<NextDatagram> {
        let _ = (flow, now);
        None
    }
    /// A datagram has arrived that was sent by such an answer, with its number.
    fn arrival(&mut self, flow: usize, now: Time, number: u64) {
        let _ = (flow, now, number);
    }
    /// The state of a pipe.
    fn pipe(&mut self, pipe: usize, now: Time, sample: &PipeSample) {
        let _ = (pipe, now, sample);
    }
    /// Simulated time has reached `now`; called about 200 times per run. Returning false stops the run.
    fn progress(&mut self, now: Time) -> bool {
        let _ = now;
        true
    }
}

/// What a stream of datagrams does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextDatagram {
    /// A datagram to send now: its IP bytes, 28 or more, and its number.
    pub send: Option<(u32, u64)>,
    /// When to ask again.
    pub again: Time,
}

/// Ignores every event.
impl Observer for () {}

/// The state of a pipe at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PipeSample {
    /// Packets waiting or being sent.
    pub queue_packets: u64,
    /// Bytes of those packets.
    pub queue_bytes: u64,
    /// Packets dropped or lost since the start.
    pub drops: u64,
    /// Bytes that have left since the start.
    pub bytes: u64,
}
