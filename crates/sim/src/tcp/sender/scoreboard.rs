//! Applies selective acknowledgements (RFC 2018, RFC 2883) to the retransmit queue
//! (`tcp_sacktag_write_queue`).

use fairwind_cc::native::ca_state;

use super::Sender;
use super::effects::{Effects, flag};
use crate::packet::SackBlocks;

impl Sender {
    /// Marks what `sack` reports as delivered.
    pub(super) fn tag_sacked(
        &mut self,
        ack: u64,
        prior_una: u64,
        sack: &SackBlocks,
        effects: &mut Effects,
    ) {
        if self.tp.sacked_out == 0 {
            self.queue.forget_highest_sacked();
            self.sack_cache = SackBlocks::default();
        }
        let mut blocks = SackBlocks::default();
        for (index, block) in sack.iter().enumerate() {
            if index == 0 && sack.duplicate_first {
                if self.note_duplicate(block.start, block.end, ack, prior_una, effects) {
                    effects.add(flag::DSACKING_ACK);
                }
                if block.end <= ack {
                    continue;
                }
            }
            let una = self.sequence.una();
            if block.end > una && block.end <= self.sequence.nxt() {
                blocks.push(block.start.max(una)..block.end);
            }
        }
        blocks.sort();
        for block in blocks.iter() {
            self.tag_new_part(block.start, block.end, effects);
        }
        self.sack_cache = blocks;
        if let Some(low) = effects.reordered()
            && (self.tp.icsk_ca_state != ca_state::LOSS || self.episode.is_undoable())
        {
            self.note_reordering(low);
        }
    }

    /// Handles a duplicate report: a retransmission was not needed (`tcp_check_dsack`,
    /// `tcp_dsack_seen`). Returns false if the path must have made the duplicate.
    fn note_duplicate(
        &mut self,
        start: u64,
        end: u64,
        ack: u64,
        prior_una: u64,
        effects: &mut Effects,
    ) -> bool {
        let segments = (end - start).div_ceil(u64::from(self.tp.mss_cache)).max(1);
        let of_probe = self.probe.note_duplicate(segments, end);
        if !self.counters.count_duplicates(segments) {
            return false;
        }
        if self.tp.reord_seen > 0 && !of_probe {
            self.rack.note_duplicate();
        }
        self.tp.delivered = self.tp.delivered.wrapping_add(segments as u32);
        if end > ack {
            self.untag_redundant(start, end, effects);
        }
        self.episode.note_duplicates(segments, end, prior_una);
        true
    }

    /// Takes back the retransmissions of segments in the queue that were reported as duplicates.
    fn untag_redundant(&mut self, start: u64, end: u64, effects: &mut Effects) {
        let first = self.queue.find(start);
        for number in first..self.queue.end() {
            let segment = self.queue.get(number);
            if segment.end() > end {
                break;
            }
            if !segment.was_retransmitted() {
                continue;
            }
            self.episode.note_redundant(segment.end());
            if segment.is_sacked() {
                effects.note_reordered(segment);
            }
            self.queue.unmark_retransmitted(&mut self.tp, number);
        }
    }

    /// Tags the part of a block that the previous acknowledgement did not report.
    fn tag_new_part(&mut self, start: u64, end: u64, effects: &mut Effects) {
        let mut from = start;
        let cache = self.sack_cache;
        for known in cache.iter() {
            if known.end <= from || known.start >= end {
                continue;
            }
            if known.start > from {
                self.tag_range(from, known.start.min(end), effects);
            }
            from = from.max(known.end);
        }
        if from < end {
            self.tag_range(from, end, effects);
        }
    }

    fn tag_range(&mut self, start: u64, end: u64, effects: &mut Effects) {
        let first = self.queue.find(start);
        for number in first..self.queue.end() {
            let segment = self.queue.get(number);
            if segment.seq() < start {
                continue;
            }
            if segment.end() > end {
                break;
            }
            if !segment.is_sacked() {
                self.tag_one(number, effects);
            }
        }
    }

    /// Tags one segment as delivered (`tcp_sacktag_one`).
    fn tag_one(&mut self, number: u64, effects: &mut Effects) {
        let segment = self.queue.get(number);
        effects.add(flag::DATA_SACKED);
        self.rack.advance(&self.tp, segment);
        if !segment.was_retransmitted() {
            if self.queue.is_below_highest_sacked(number) {
                effects.note_reordered(segment);
            }
            if segment.end() <= self.episode.high_seq() {
                effects.add(flag::ORIG_SACK_ACKED);
            }
            effects.note_sacked(segment);
        }
        self.queue
            .mark_sacked(&mut self.tp, number, &mut effects.rate);
    }

    /// Records that data from `low` on was delivered late.
    pub(super) fn note_reordering(&mut self, low: u64) {
        let una = self.sequence.una();
        let highest = self.queue.highest_sacked_seq(&self.tp, una);
        self.reordering.note(&mut self.tp, low, highest);
    }
}
