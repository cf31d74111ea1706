//! What a sender counts over its life, and for how long each cause limited it (RFC 4898; the
//! kernel's chronographs).

use fairwind_path::units::Time;

/// Counts since the connection was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    /// Segments of data sent, retransmissions included.
    pub segments_sent: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Reductions of the congestion window.
    pub congestion_signals: u64,
    /// Segments delivered while the receiver echoed a mark; the sender fills it in.
    pub ecn_signals: u64,
}

/// What prevents a sender from sending more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Limit {
    /// The congestion window.
    Cwnd,
    /// The receiver's window.
    Receiver,
    /// The application or the send buffer.
    #[default]
    Sender,
}

/// The counts, and the times of the limits.
#[derive(Debug, Default)]
pub(super) struct Counters {
    statistics: Statistics,
    /// Segments that were reported as duplicates (`dsack_dups`).
    duplicates: u64,
    limit: Limit,
    limit_since: Time,
    limited_us: [u64; 3],
}

impl Counters {
    /// The counts so far.
    #[inline]
    pub(super) fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// A segment is sent, for the first time or again.
    #[inline]
    pub(super) fn count_segment(&mut self) {
        self.statistics.segments_sent += 1;
    }

    /// That segment is a retransmission.
    pub(super) fn count_retransmission(&mut self) {
        self.statistics.retransmits += 1;
    }

    /// `segments` have been reported as duplicates. Returns false if the path must have made the
    /// duplicates, as there have been more than retransmissions (`tcp_dsack_seen`).
    pub(super) fn count_duplicates(&mut self, segments: u64) -> bool {
        self.duplicates += segments;
        self.duplicates <= self.statistics.retransmits
    }

    /// A retransmission timeout, of a SYN or of data.
    pub(super) fn count_timeout(&mut self) {
        self.statistics.timeouts += 1;
    }

    /// A reduction of the congestion window.
    pub(super) fn count_congestion_signal(&mut self) {
        self.statistics.congestion_signals += 1;
    }

    /// The connection is opened at `now`, from when on the limits are timed.
    pub(super) fn start(&mut self, now: Time) {
        self.limit_since = now;
    }

    /// Accounts the time since the last change to what limited the sender.
    #[inline]
    pub(super) fn set_limit(&mut self, now: Time, limit: Limit) {
        if limit != self.limit {
            self.limited_us[self.limit as usize] += (now - self.limit_since).as_micros();
            self.limit = limit;
            self.limit_since = now;
        }
    }

    /// For how long the sender has been limited by `limit` until `now`, microseconds.
    pub(super) fn limited_us(&self, now: Time, limit: Limit) -> u64 {
        let until_last_change = self.limited_us[limit as usize];
        if limit == self.limit {
            return until_last_change + (now - self.limit_since).as_micros();
        }
        until_last_change
    }
}
