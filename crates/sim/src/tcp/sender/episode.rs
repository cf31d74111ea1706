//! A recovery episode: where it began, and whether its retransmissions were necessary (RFC 3522,
//! RFC 3708, RFC 5682).

use fairwind_cc::native::TcpSock;

/// The latest episode of reduction, recovery or loss.
#[derive(Debug, Default)]
pub(super) struct Episode {
    /// `snd_nxt` when it began.
    high_seq: u64,
    /// `snd_una` when it began, while it may still turn out to have been unnecessary.
    undo_marker: Option<u64>,
    /// Retransmissions not reported as duplicates; negative if there were none.
    undo_retrans: i32,
    /// When its first retransmission was sent, milliseconds.
    retrans_stamp: Option<u32>,
    /// F-RTO is finding out whether the timeout was spurious.
    frto: bool,
}

impl Episode {
    /// `snd_nxt` when it began; it ends when this has been acknowledged.
    #[inline]
    pub(super) fn high_seq(&self) -> u64 {
        self.high_seq
    }

    /// Begins an episode, or goes on with it, at this `snd_nxt`.
    pub(super) fn set_high_seq(&mut self, tp: &mut TcpSock, nxt: u64) {
        self.high_seq = nxt;
        tp.high_seq = nxt as u32;
    }

    /// Keeps what an undo needs to know (`tcp_init_undo`). `with_probe`: the segment that a probe
    /// repeated may be reported as a duplicate as well.
    pub(super) fn init_undo(&mut self, tp: &TcpSock, una: u64, with_probe: bool) {
        self.undo_marker = Some(una);
        self.undo_retrans = match tp.retrans_out {
            0 => -1,
            retransmitted => retransmitted as i32,
        };
        if with_probe {
            self.undo_retrans = self.undo_retrans.max(0) + 1;
        }
    }

    /// Whether it may still turn out to have been unnecessary.
    pub(super) fn is_undoable(&self) -> bool {
        self.undo_marker.is_some()
    }

    /// Whether every retransmission was unnecessary (`tcp_may_undo`). `ts_ecr` is the time stamp
    /// echoed last.
    pub(super) fn may_undo(&self, ts_ecr: u32) -> bool {
        self.is_undoable() && (self.undo_retrans == 0 || self.is_ack_of_original(ts_ecr))
    }

    /// Whether every retransmission has been reported as a duplicate (`tcp_try_undo_dsack`).
    pub(super) fn is_all_duplicates(&self) -> bool {
        self.is_undoable() && self.undo_retrans == 0
    }

    /// Whether the echoed time stamp is older than the first retransmission (Eifel, RFC 3522;
    /// `tcp_packet_delayed`).
    pub(super) fn is_ack_of_original(&self, ts_ecr: u32) -> bool {
        match self.retrans_stamp {
            Some(stamp) => (ts_ecr.wrapping_sub(stamp) as i32) < 0,
            // Nothing was retransmitted, yet the hole has been filled.
            None => true,
        }
    }

    /// It has been undone.
    pub(super) fn end_undo(&mut self) {
        self.undo_marker = None;
    }

    /// A segment was retransmitted at this time, milliseconds.
    pub(super) fn note_retransmission(&mut self, tx_ms: u32) {
        self.retrans_stamp.get_or_insert(tx_ms);
        self.undo_retrans = self.undo_retrans.max(0) + 1;
    }

    /// The next retransmission counts as the first.
    pub(super) fn forget_retransmissions(&mut self) {
        self.retrans_stamp = None;
    }

    /// These segments, which end at `end`, were reported as duplicates (`tcp_check_dsack`).
    /// `prior_una` is `snd_una` before the report.
    pub(super) fn note_duplicates(&mut self, segments: u64, end: u64, prior_una: u64) {
        if let Some(marker) = self.undo_marker
            && self.undo_retrans > 0
            && end <= prior_una
            && end > marker
        {
            self.undo_retrans = (self.undo_retrans - segments as i32).max(0);
        }
    }

    /// A retransmitted segment that ends at `end` was reported as a duplicate while still in the
    /// queue (`tcp_sacktag_one`).
    pub(super) fn note_redundant(&mut self, end: u64) {
        if self.undo_retrans > 0 && self.undo_marker.is_some_and(|marker| end > marker) {
            self.undo_retrans -= 1;
        }
    }

    /// Whether F-RTO is under way.
    pub(super) fn frto(&self) -> bool {
        self.frto
    }

    /// Begins F-RTO after a timeout, or does without.
    pub(super) fn set_frto(&mut self, frto: bool) {
        self.frto = frto;
    }
}
