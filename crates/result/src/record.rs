//! What an engine records while it runs: the instruments of every flow and the state of every link.
//!
//! [`series::ParquetRecorder`](crate::series::ParquetRecorder) writes it to files; [`NoRecorder`]
//! is for runs of which only the totals matter.

use fairwind_instruments::Instruments;

/// Receives samples. Times never decrease within a flow or a link.
pub trait Recorder {
    /// Whether samples are kept at all; if not, an engine need not take any.
    fn records(&self) -> bool {
        true
    }

    /// Whether a sample could not be written, which makes the run useless, so that it may stop.
    fn failed(&self) -> bool {
        false
    }

    /// Whether the private states of congestion controls are kept, too.
    fn records_states(&self) -> bool {
        false
    }

    /// Records the instruments of one connection of the flow with this index in the result.
    fn flow(&mut self, flow: usize, sample: &FlowSample);

    /// Records the bytes of the private state that the congestion control of an open connection had at the moment
    /// of this sample; right after [`flow`](Recorder::flow), if [states are kept](Recorder::records_states).
    fn state(&mut self, flow: usize, sample: &FlowSample, state: &[u8]) {
        let _ = (flow, sample, state);
    }

    /// Records the state of the link (one direction) with this index in the result.
    fn link(&mut self, link: usize, sample: &LinkSample);
}

/// Discards all samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {
    fn records(&self) -> bool {
        false
    }

    fn flow(&mut self, _flow: usize, _sample: &FlowSample) {}

    fn link(&mut self, _link: usize, _sample: &LinkSample) {}
}

/// A connection's instruments at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowSample {
    /// Time since the start of the run, nanoseconds.
    pub time_ns: u64,
    /// Number of the connection in the flow, from 0.
    pub connection: u32,
    /// Their values.
    pub instruments: Instruments,
}

/// The state of one direction of a link at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSample {
    /// Time since the start of the run, nanoseconds.
    pub time_ns: u64,
    /// Packets waiting or being transmitted.
    pub queue_packets: u64,
    /// Their bytes.
    pub queue_bytes: u64,
    /// Packets dropped or lost since the start.
    pub drops: u64,
    /// Bytes that have left since the start.
    pub bytes: u64,
}
