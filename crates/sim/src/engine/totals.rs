//! Totals of the flows of a run.

use fairwind_path::units::{Duration, Time};
use fairwind_workload::Meter;

use crate::outcome::FlowOutcome;
use crate::scenario::FlowConfig;
use crate::tcp::{Sender, Statistics};

/// Totals of a flow over its connections.
#[derive(Debug)]
pub(super) struct Totals {
    pub meter: Meter,
    pub outcome: FlowOutcome,
    rtt_sum_us: u64,
    rtt_samples: u64,
    rtt_least_us: Option<u64>,
}

impl Totals {
    /// Empty totals of a flow that is measured from `from` to `to`.
    pub(super) fn new(from: Time, to: Time) -> Self {
        Totals {
            meter: Meter::new(from, to),
            outcome: FlowOutcome::default(),
            rtt_sum_us: 0,
            rtt_samples: 0,
            rtt_least_us: None,
        }
    }

    /// Adds what a connection has counted since `before` was taken.
    pub(super) fn add(&mut self, sender: &Sender, before: Statistics) {
        let counts = sender.statistics();
        let rtt = sender.rtt();
        self.outcome.retransmits += counts.retransmits - before.retransmits;
        self.outcome.ecn_signals += counts.ecn_signals - before.ecn_signals;
        self.outcome.timeouts += counts.timeouts - before.timeouts;
        self.outcome.packets_sent += counts.segments_sent - before.segments_sent;
        self.rtt_sum_us += rtt.sum_us();
        self.rtt_samples += rtt.samples();
        self.rtt_least_us = self.rtt_least_us.into_iter().chain(rtt.least_us()).min();
    }

    /// Resets the counts when the warm-up ends. The meter starts only then, and the smallest
    /// round-trip time is that of the whole run.
    pub(super) fn restart(&mut self) {
        self.rtt_sum_us = 0;
        self.rtt_samples = 0;
        self.outcome.retransmits = 0;
        self.outcome.timeouts = 0;
        self.outcome.ecn_signals = 0;
        self.outcome.packets_sent = 0;
        self.outcome.object_times.clear();
    }

    /// The outcome of a flow when the run ends.
    pub(super) fn finish(self, config: &FlowConfig, end: Time) -> FlowOutcome {
        let mut outcome = self.outcome;
        let over = outcome
            .completion
            .map_or(end, |completion| config.start + completion);
        let (bytes, bytes_per_second, active) = self.meter.finish(over);
        outcome.bytes = bytes;
        outcome.bytes_per_second = bytes_per_second;
        outcome.active = active;
        outcome.rtt_min = self.rtt_least_us.map(Duration::from_micros);
        outcome.rtt_mean = self
            .rtt_sum_us
            .checked_div(self.rtt_samples)
            .map(Duration::from_micros);
        outcome
    }
}
