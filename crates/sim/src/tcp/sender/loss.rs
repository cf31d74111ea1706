//! Which segments are lost: RACK (RFC 8985) or, for `Stack::Classic2005`, forward acknowledgement.

use fairwind_cc::native::TcpSock;
use fairwind_path::units::Duration;

use super::retransmit_queue::{RetransmitQueue, Segment};
use crate::scenario::Stack;
use crate::tcp::constants::DUPLICATE_THRESHOLD;

mod forward_ack;
mod rack;
mod reordering;

use rack::Rack;
use reordering::Reordering;

/// What loss detection has learnt from the acknowledgements.
#[derive(Debug)]
pub struct LossDetection {
    rack: Rack,
    reordering: Reordering,
    /// Segments that were reported as duplicates (`dsack_dups`).
    duplicates: u64,
}

impl LossDetection {
    /// Nothing learnt yet.
    pub fn new() -> Self {
        LossDetection {
            rack: Rack::new(),
            reordering: Reordering::new(),
            duplicates: 0,
        }
    }

    /// A segment has been delivered (`tcp_rack_advance`).
    #[inline]
    pub fn on_delivered(&mut self, tp: &TcpSock, segment: &Segment) {
        self.rack.advance(tp, segment);
    }

    /// Adapts to duplicate reports how long RACK waits (`tcp_rack_update_reo_wnd`).
    #[inline]
    pub fn adapt_window(&mut self, prior_delivered: u32, delivered: u32) {
        self.rack.adapt_window(prior_delivered, delivered);
    }

    /// Adds `segments` reported as duplicates, the tail loss probe if `of_probe`; `retransmits`
    /// segments have been retransmitted so far. Returns false if the path must have made the
    /// duplicates, as there have been more than retransmissions (`tcp_dsack_seen`).
    pub fn note_duplicates(&mut self, segments: u64, of_probe: bool, retransmits: u64) -> bool {
        self.duplicates += segments;
        if self.duplicates > retransmits {
            return false;
        }
        if self.reordering.is_seen() && !of_probe {
            self.rack.note_duplicate();
        }
        true
    }

    /// Records reordering: data from `low` on was delivered late, and bytes up to `highest` before
    /// it (`tcp_check_sack_reordering`).
    pub fn note_reordering(&mut self, tp: &TcpSock, low: u64, highest: u64) {
        self.reordering.note(tp, low, highest);
    }

    /// Expects no more reordering than at first, as a timeout followed duplicates.
    pub fn reset_reordering(&mut self) {
        self.reordering.reset();
    }

    /// Whether more reordering is expected than at first.
    #[inline]
    pub fn expects_reordering(&self) -> bool {
        self.reordering.degree() > DUPLICATE_THRESHOLD
    }

    /// Marks losses by time after an acknowledgement. Returns how long to wait for what may only be
    /// reordered, if there is anything (`tcp_rack_mark_lost`).
    pub fn mark_lost_by_time(
        &mut self,
        tp: &mut TcpSock,
        queue: &mut RetransmitQueue,
    ) -> Option<Duration> {
        self.rack.mark_lost(tp, queue, &self.reordering)
    }

    /// Marks losses by time when the reordering timer has expired (`tcp_rack_reo_timeout`).
    pub fn mark_overdue(&self, tp: &mut TcpSock, queue: &mut RetransmitQueue) {
        self.rack.detect_loss(tp, queue, &self.reordering);
    }

    /// Marks losses when the retransmission timer has expired: everything but, if losses are found
    /// by time, what was sent within the latest round trip (`tcp_timeout_mark_lost`).
    pub fn mark_lost_by_timeout(
        &self,
        tp: &mut TcpSock,
        queue: &mut RetransmitQueue,
        stack: Stack,
    ) {
        let spared_us = if stack.detects_losses_by_time() {
            self.rack.rtt_us()
        } else {
            0
        };
        for number in queue.first()..queue.end() {
            let waited_us = tp.tcp_mstamp.saturating_sub(queue.get(number).tx_us());
            if number == queue.first() || waited_us >= spared_us {
                queue.mark_lost(tp, number);
            }
        }
        queue.rewind();
    }

    /// Losses must be looked for again at the next acknowledgement.
    pub fn search_again(&mut self) {
        self.rack.search_again();
    }

    /// Duplicate reports have shown a whole recovery to be unnecessary: keeps the widened window for
    /// one recovery more.
    pub fn persist(&mut self) {
        self.rack.persist();
    }

    /// A recovery was necessary: one fewer is left until the window shrinks again.
    pub fn on_necessary_recovery(&mut self) {
        self.rack.on_necessary_recovery();
    }
}

/// For the packet scripts.
#[cfg(test)]
impl LossDetection {
    pub fn rack(&mut self) -> &mut Rack {
        &mut self.rack
    }

    pub fn reordering(&mut self) -> &mut Reordering {
        &mut self.reordering
    }
}
