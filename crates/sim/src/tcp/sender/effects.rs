//! What one acknowledgement does, collected while it is processed.

use super::rate::Sample;
use super::retransmit_queue::Segment;

/// The effects of an acknowledgement: `FLAG_*` of `tcp_input.c`, which congestion controls see.
pub(super) mod flag {
    /// The send window was updated.
    pub(crate) const WIN_UPDATE: u32 = 0x02;
    /// Data was newly acknowledged.
    pub(crate) const DATA_ACKED: u32 = 0x04;
    /// Some of it had been retransmitted.
    pub(crate) const RETRANS_DATA_ACKED: u32 = 0x08;
    /// Data was newly acknowledged selectively.
    pub(crate) const DATA_SACKED: u32 = 0x20;
    /// It echoes a mark (RFC 3168).
    pub(crate) const ECE: u32 = 0x40;
    /// A retransmission was found lost.
    pub(crate) const LOST_RETRANS: u32 = 0x80;
    /// Data sent before the present episode and never retransmitted was acknowledged; F-RTO uses it.
    pub(crate) const ORIG_SACK_ACKED: u32 = 0x200;
    /// `snd_una` moved.
    pub(crate) const SND_UNA_ADVANCED: u32 = 0x400;
    /// It reports a duplicate.
    pub(crate) const DSACKING_ACK: u32 = 0x800;
    /// The retransmission timer must be set again.
    pub(crate) const SET_XMIT_TIMER: u32 = 0x1000;
    /// The receiver probably delayed it.
    pub(crate) const ACK_MAYBE_DELAYED: u32 = 0x10000;
    /// Not a duplicate acknowledgement.
    pub(crate) const NOT_DUP: u32 = 0x01 | WIN_UPDATE | DATA_ACKED;
    /// A possible sign of congestion, loss or reordering.
    pub(crate) const CA_ALERT: u32 = DATA_SACKED | ECE | DSACKING_ACK;
}

/// The effects so far (`flag` of `tcp_ack` and `struct tcp_sacktag_state`).
#[derive(Debug)]
pub(super) struct Effects {
    /// The sample of the delivery rate.
    pub rate: Sample,
    flags: u32,
    /// Of the segments newly acknowledged selectively and never retransmitted.
    sacked: TransmissionTimes,
    /// Lowest byte acknowledged selectively after bytes beyond it.
    reordered: Option<u64>,
}

impl Effects {
    /// None yet.
    #[inline]
    pub(super) fn new(prior_in_flight: u32) -> Self {
        Effects {
            rate: Sample::new(prior_in_flight),
            flags: 0,
            sacked: TransmissionTimes::default(),
            reordered: None,
        }
    }

    /// The bits of [`flag`].
    #[inline]
    pub(super) fn flags(&self) -> u32 {
        self.flags
    }

    /// Whether it has any of these.
    #[inline]
    pub(super) fn any(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }

    /// Adds effects.
    #[inline]
    pub(super) fn add(&mut self, flags: u32) {
        self.flags |= flags;
    }

    /// Takes an effect back.
    pub(super) fn remove(&mut self, flag: u32) {
        self.flags &= !flag;
    }

    /// A segment that was never retransmitted has been acknowledged selectively.
    pub(super) fn note_sacked(&mut self, segment: &Segment) {
        self.sacked.add(segment.tx_us());
    }

    /// The times of those segments.
    #[inline]
    pub(super) fn sacked(&self) -> TransmissionTimes {
        self.sacked
    }

    /// A segment has been acknowledged selectively after others beyond it.
    pub(super) fn note_reordered(&mut self, segment: &Segment) {
        let low = self.reordered.get_or_insert(segment.seq());
        *low = segment.seq().min(*low);
    }

    /// Lowest byte of those segments, if any.
    pub(super) fn reordered(&self) -> Option<u64> {
        self.reordered
    }
}

/// When the first and the last of some segments were sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TransmissionTimes {
    /// Microseconds; 0 if there is none.
    first_us: u64,
    last_us: u64,
}

impl TransmissionTimes {
    /// Adds a segment sent at this time.
    #[inline]
    pub(super) fn add(&mut self, tx_us: u64) {
        if self.first_us == 0 {
            self.first_us = tx_us;
        }
        self.last_us = tx_us;
    }

    /// The times from the transmission of the first and of the last until `now_us`, microseconds.
    #[inline]
    pub(super) fn until(&self, now_us: u64) -> Option<(i64, i64)> {
        (self.first_us != 0).then(|| {
            let since = |tx_us| now_us.saturating_sub(tx_us) as i64;
            (since(self.first_us), since(self.last_us))
        })
    }
}
