//! The scoreboard: applies selective acknowledgements (RFC 2018, RFC 2883) to the retransmit queue
//! (`tcp_sacktag_write_queue`) and marks losses on it.

use fairwind_cc::native::ca_state;

use super::ack::flag;
use super::rate::Sample;
use super::retransmit_queue::{EVER_RETRANSMITTED, LOST, RETRANSMITTED, SACKED};
use super::sender::Sender;
use crate::packet::SackBlocks;

/// `tcp_max_reordering`, segments.
const MAX_REORDERING: u32 = 300;

/// Result of the SACK blocks of one packet.
#[derive(Debug, Default)]
pub struct SackResult {
    /// Transmission time of the first segment newly acknowledged, microseconds; 0 if none.
    pub first_us: u64,
    /// Transmission time of the last segment newly acknowledged, microseconds; 0 if none.
    pub last_us: u64,
    /// Lowest byte acknowledged after bytes beyond it.
    reordered: Option<u64>,
}

impl Sender {
    /// Marks what `sack` reports as delivered. Returns `flag` bits.
    pub(super) fn tag_sacked(
        &mut self,
        ack: u64,
        prior_una: u64,
        sack: &SackBlocks,
        rate: &mut Sample,
        result: &mut SackResult,
    ) -> u32 {
        let mut flags = 0;
        if self.tp.sacked_out == 0 {
            self.highest_sacked = None;
            self.sack_cache.clear();
        }
        let mut blocks = [(0, 0); crate::packet::MAX_SACK_BLOCKS];
        let mut len = 0;
        for (index, block) in sack.iter().enumerate() {
            if index == 0 && sack.duplicate_first {
                if self.note_duplicate(block.start, block.end, ack, prior_una, result) {
                    flags |= flag::DSACKING_ACK;
                }
                if block.end <= ack {
                    continue;
                }
            }
            if block.end > self.snd_una && block.end <= self.snd_nxt {
                blocks[len] = (block.start.max(self.snd_una), block.end);
                len += 1;
            }
        }
        let blocks = &mut blocks[..len];
        blocks.sort_unstable();
        for &(start, end) in blocks.iter() {
            flags |= self.tag_new_part(start, end, rate, result);
        }
        self.sack_cache.clear();
        self.sack_cache.extend_from_slice(blocks);
        if let Some(low) = result.reordered
            && (self.tp.icsk_ca_state != ca_state::LOSS || self.undo_marker.is_some())
        {
            self.note_reordering(low);
        }
        flags
    }

    /// Handles a duplicate report: a retransmission was not needed (`tcp_check_dsack`,
    /// `tcp_dsack_seen`). Returns false if the path must have made the duplicate, as there have
    /// been more duplicates than retransmissions.
    fn note_duplicate(
        &mut self,
        start: u64,
        end: u64,
        ack: u64,
        prior_una: u64,
        result: &mut SackResult,
    ) -> bool {
        let segments = (end - start).div_ceil(u64::from(self.tp.mss_cache)).max(1);
        let of_probe = segments == 1 && self.tlp_high_seq == Some(end);
        self.tlp_duplicate |= of_probe;
        self.duplicates += segments;
        if self.duplicates > self.statistics.retransmits {
            return false;
        }
        self.rack.duplicate_seen |= self.reordering_seen && !of_probe;
        self.tp.delivered = self.tp.delivered.wrapping_add(segments as u32);
        if end > ack {
            self.untag_redundant(start, end, result);
        }
        let segments = segments as i32;
        if let Some(marker) = self.undo_marker
            && self.undo_retrans > 0
            && end <= prior_una
            && end > marker
        {
            self.undo_retrans = (self.undo_retrans - segments).max(0);
        }
        true
    }

    fn untag_redundant(&mut self, start: u64, end: u64, result: &mut SackResult) {
        let mut number = self.queue.find(start);
        while number < self.queue.end() && self.queue.get(number).end() <= end {
            let segment = *self.queue.get(number);
            number += 1;
            if !segment.is(RETRANSMITTED | EVER_RETRANSMITTED) {
                continue;
            }
            if self.undo_retrans > 0 && self.undo_marker.is_some_and(|m| segment.end() > m) {
                self.undo_retrans -= 1;
            }
            if segment.is(SACKED) {
                let low = result.reordered.get_or_insert(segment.seq);
                *low = segment.seq.min(*low);
            }
            if segment.is(RETRANSMITTED) {
                self.queue.get_mut(number - 1).flags &= !RETRANSMITTED;
                self.tp.retrans_out -= 1;
            }
        }
    }

    /// Tags the part of a block that the previous acknowledgement did not report.
    fn tag_new_part(
        &mut self,
        start: u64,
        end: u64,
        rate: &mut Sample,
        result: &mut SackResult,
    ) -> u32 {
        let mut flags = 0;
        let mut from = start;
        for index in 0..self.sack_cache.len() {
            let (known_start, known_end) = self.sack_cache[index];
            if known_end <= from || known_start >= end {
                continue;
            }
            if known_start > from {
                flags |= self.tag_range(from, known_start.min(end), rate, result);
            }
            from = from.max(known_end);
        }
        if from < end {
            flags |= self.tag_range(from, end, rate, result);
        }
        flags
    }

    fn tag_range(
        &mut self,
        start: u64,
        end: u64,
        rate: &mut Sample,
        result: &mut SackResult,
    ) -> u32 {
        let mut flags = 0;
        let mut number = self.queue.find(start);
        while number < self.queue.end() {
            let segment = *self.queue.get(number);
            if segment.seq < start {
                number += 1;
                continue;
            }
            if segment.end() > end {
                break;
            }
            if !segment.is(SACKED) {
                flags |= self.tag_one(number, rate, result);
            }
            number += 1;
        }
        flags
    }

    /// Tags one segment as delivered (`tcp_sacktag_one`).
    fn tag_one(&mut self, number: u64, rate: &mut Sample, result: &mut SackResult) -> u32 {
        let mut flags = flag::DATA_SACKED;
        let segment = *self.queue.get(number);
        let min_rtt_us = self.min_rtt_us();
        self.rack.advance(&segment, self.tp.tcp_mstamp, min_rtt_us);
        if segment.is(RETRANSMITTED) {
            // If it is not marked lost, the retransmission is considered still in flight.
            if segment.is(LOST) {
                self.tp.lost_out -= 1;
                self.tp.retrans_out -= 1;
                self.queue.get_mut(number).flags &= !(LOST | RETRANSMITTED);
            }
        } else {
            if !segment.is(EVER_RETRANSMITTED) {
                if self.highest_sacked.is_some_and(|highest| number < highest) {
                    let low = result.reordered.get_or_insert(segment.seq);
                    *low = segment.seq.min(*low);
                }
                if segment.end() <= self.high_seq {
                    flags |= flag::ORIG_SACK_ACKED;
                }
                if result.first_us == 0 {
                    result.first_us = segment.tx_us;
                }
                result.last_us = segment.tx_us;
            }
            if segment.is(LOST) {
                self.tp.lost_out -= 1;
                self.queue.get_mut(number).flags &= !LOST;
            }
        }
        self.tp.sacked_out += 1;
        self.tp.delivered = self.tp.delivered.wrapping_add(1);
        let segment = self.queue.get_mut(number);
        segment.flags |= SACKED;
        rate.on_delivered(&mut self.tp, segment);
        self.highest_sacked = Some(self.highest_sacked.map_or(number, |h| h.max(number)));
        flags
    }

    /// One past the highest byte acknowledged selectively; `snd_una` if there is none.
    pub(super) fn highest_sacked_seq(&self) -> u64 {
        match self.highest_sacked {
            Some(number) if number >= self.queue.first() && self.tp.sacked_out > 0 => {
                self.queue.get(number).end()
            }
            _ => self.snd_una,
        }
    }

    /// Records reordering: data from `low` on was delivered late (`tcp_check_sack_reordering`).
    pub(super) fn note_reordering(&mut self, low: u64) {
        let highest = self.highest_sacked_seq();
        if low >= highest {
            return;
        }
        let distance = (highest - low).div_ceil(u64::from(self.tp.mss_cache)) as u32;
        self.reordering = self.reordering.max(distance.min(MAX_REORDERING));
        self.reordering_seen = true;
    }

    /// Marks a segment lost (`tcp_mark_skb_lost`).
    pub(super) fn mark_lost(&mut self, number: u64) {
        let segment = self.queue.get_mut(number);
        if segment.is(SACKED) {
            return;
        }
        if segment.is(LOST) {
            if !segment.is(RETRANSMITTED) {
                return;
            }
            segment.flags &= !RETRANSMITTED;
            self.tp.retrans_out -= 1;
        } else {
            segment.flags |= LOST;
            self.tp.lost_out += 1;
        }
        self.tp.lost = self.tp.lost.wrapping_add(1);
        self.retransmit_hint = self.retransmit_hint.min(number);
    }

    /// Marks losses by the number of segments below the highest one delivered (Linux 2.4's forward
    /// acknowledgement, `tcp_mark_head_lost`).
    pub(super) fn mark_lost_by_count(&mut self) {
        let Some(highest) = self.highest_sacked else {
            return;
        };
        let first = self.queue.first();
        let reach = (highest + 1).saturating_sub(first);
        let count = reach.saturating_sub(u64::from(self.reordering)).max(1);
        let end = (first + count).min(self.queue.end());
        for number in self.rack.scan.max(first)..end {
            if self.queue.get(number).end() > self.high_seq {
                break;
            }
            if !self.queue.get(number).is(LOST | SACKED | RETRANSMITTED) {
                self.mark_lost(number);
            }
            self.rack.scan = number + 1;
        }
    }
}
