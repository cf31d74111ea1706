//! The tail loss probe in flight (RFC 8985, section 7).

use fairwind_cc::native::TcpSock;
use fairwind_path::units::Duration;

use super::effects::{Effects, flag};
use super::retransmit_timer::TIMEOUT_MIN_US;
use crate::tcp::constants::{RTO_INITIAL, RTO_MIN};

/// What the latest probe was, and what has come of it.
#[derive(Debug, Default)]
pub(super) struct TailLossProbe {
    /// `snd_nxt` when it was sent, while it is in flight (`tlp_high_seq`).
    high_seq: Option<u64>,
    /// It was a retransmission (`tlp_retrans`).
    retransmitted: bool,
    /// The present acknowledgement reports it as a duplicate (`FLAG_DSACK_TLP`).
    duplicate: bool,
}

impl TailLossProbe {
    /// How long after the latest transmission it is sent, if the timeout is not due before
    /// (`tcp_schedule_loss_probe`).
    #[inline]
    pub(super) fn timeout(tp: &TcpSock) -> Duration {
        if tp.srtt_us == 0 {
            return RTO_INITIAL;
        }
        // Twice the smoothed round-trip time, plus room for a delayed acknowledgement.
        let slack_us = if tp.packets_out == 1 {
            RTO_MIN.as_micros()
        } else {
            TIMEOUT_MIN_US
        };
        Duration::from_micros(u64::from(tp.srtt_us >> 2) + slack_us)
    }

    /// Whether one is in flight.
    pub(super) fn is_in_flight(&self) -> bool {
        self.high_seq.is_some()
    }

    /// Whether one is in flight that is a retransmission.
    pub(super) fn is_retransmission_in_flight(&self) -> bool {
        self.high_seq.is_some() && self.retransmitted
    }

    /// One has been sent, and `snd_nxt` is `nxt` now.
    pub(super) fn on_sent(&mut self, nxt: u64, retransmitted: bool) {
        self.high_seq = Some(nxt);
        self.retransmitted = retransmitted;
    }

    /// Whatever it was to find out is known.
    pub(super) fn forget(&mut self) {
        self.high_seq = None;
    }

    /// The next acknowledgement arrives.
    #[inline]
    pub(super) fn begin_ack(&mut self) {
        self.duplicate = false;
    }

    /// The acknowledgement reports `segments` segments as duplicates, of which the last ends at
    /// `end`. Returns whether it was the probe.
    pub(super) fn note_duplicate(&mut self, segments: u64, end: u64) -> bool {
        let of_probe = segments == 1 && self.high_seq == Some(end);
        self.duplicate |= of_probe;
        of_probe
    }

    /// Handles the acknowledgement of the bytes before `ack`. Returns whether it reveals a loss that
    /// the probe repaired and nothing else has detected (`tcp_process_tlp_ack`).
    #[inline]
    pub(super) fn reveals_loss(&mut self, ack: u64, effects: &Effects) -> bool {
        let Some(high) = self.high_seq else {
            return false;
        };
        if ack < high {
            return false;
        }
        if !self.retransmitted || self.duplicate {
            self.high_seq = None;
            return false;
        }
        if ack > high {
            return true;
        }
        if !effects.any(flag::SND_UNA_ADVANCED | flag::NOT_DUP | flag::DATA_SACKED) {
            self.high_seq = None;
        }
        false
    }
}
