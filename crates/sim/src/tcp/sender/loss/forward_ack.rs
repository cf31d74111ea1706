//! Linux 2.4's loss detection: forward acknowledgement, which counts the segments beyond a hole
//! (Mathis and Mahdavi, 1996; `tcp_mark_head_lost`).

use fairwind_cc::native::{TcpSock, ca_state};

use super::Reordering;
use crate::tcp::sender::retransmit_queue::RetransmitQueue;

/// Whether the highest segment delivered is so far beyond the first hole that this is a loss
/// (`tcp_time_to_recover`).
pub(crate) fn is_hole_a_loss(queue: &RetransmitQueue, reordering: &Reordering) -> bool {
    queue.fackets_out().unwrap_or(0) > u64::from(reordering.degree())
}

/// Marks losses by the number of segments below the highest one delivered, of those sent before
/// `high_seq`.
pub(crate) fn mark_lost_by_count(
    tp: &mut TcpSock,
    queue: &mut RetransmitQueue,
    reordering: &Reordering,
    high_seq: u64,
) {
    let Some(reach) = queue.fackets_out() else {
        return;
    };
    let count = reach.saturating_sub(reordering.degree().into()).max(1);
    let end = (queue.first() + count).min(queue.end());
    for number in queue.loss_hint()..end {
        if queue.get(number).end() > high_seq {
            break;
        }
        if queue.is_outstanding(number) {
            queue.mark_lost(tp, number);
        }
        queue.set_loss_hint(number + 1);
    }
}

/// Marks a retransmission lost if data first sent after it has arrived, which is up to `highest`
/// (`tcp_sacktag_write_queue`).
pub(crate) fn mark_lost_retransmissions(
    tp: &mut TcpSock,
    queue: &mut RetransmitQueue,
    highest: u64,
) {
    let recovering = tp.icsk_ca_state == ca_state::RECOVERY;
    while let Some(oldest) = queue.unsettled_retransmission(&mut 0) {
        if !recovering || highest <= oldest.snd_nxt() {
            break;
        }
        queue.mark_lost(tp, oldest.number());
        queue.forget_oldest_retransmission();
    }
}
