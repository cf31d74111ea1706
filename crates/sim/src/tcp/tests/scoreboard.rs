//! Selective acknowledgements on the retransmit queue: `tcp_sacktag_write_queue`.

use super::script::*;
use crate::outcome::CongestionState::*;

fn ten_in_flight() -> Sending {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s
}

#[test]
fn a_block_reported_again_counts_once() {
    // RFC 2018, section 4: blocks are repeated in later acknowledgements.
    let mut s = ten_in_flight();
    s.at(ms(200)).sack(0, &[2..4]).sends([10, 11]);
    s.at(ms(200)).sack(0, &[6..7, 2..4]).sends([0]);
    assert_eq!(s.sender.tp().sacked_out, 3);
    assert_eq!(s.sender.tp().delivered, 4);
    s.at(ms(201)).sack(0, &[6..7, 2..4]).sends_nothing();
    assert_eq!(s.sender.tp().sacked_out, 3);
}

#[test]
fn blocks_may_come_in_any_order() {
    let mut s = ten_in_flight();
    s.at(ms(200)).sack(0, &[8..9, 2..3, 5..6]).sends([0, 1, 3]);
    assert_eq!(s.sender.tp().sacked_out, 3);
    // 0, 1, 3, 4, 6 and 7 were sent before segment 8; three leave for three delivered (RFC 6937).
    assert_eq!(s.sender.tp().lost_out, 6);
}

#[test]
fn a_block_of_part_of_a_segment_does_not_cover_it() {
    // tcp_match_skb_to_sack.
    let mut s = ten_in_flight();
    s.at(ms(200))
        .sack_bytes(0, 2 * MSS..3 * MSS - 1)
        .sends_nothing();
    assert_eq!(s.sender.tp().sacked_out, 0);
}

#[test]
fn a_block_beyond_what_was_sent_is_ignored() {
    // tcp_is_sackblock_valid.
    let mut s = ten_in_flight();
    s.at(ms(200)).sack(0, &[8..11]).sends_nothing();
    assert_eq!(s.sender.tp().sacked_out, 0);
    s.state(Open);
}

#[test]
fn the_blocks_of_an_old_acknowledgement_still_count() {
    // tcp_ack, old_ack: acknowledgements overtook each other.
    let mut s = ten_in_flight();
    s.at(ms(200)).ack(2).sends(10..14);
    s.at(ms(201)).sack(1, &[5..6]).sends([14]);
    assert_eq!(s.sender.tp().sacked_out, 1);
    s.state(Disorder);
}

#[test]
fn a_cumulative_acknowledgement_takes_the_selective_ones_below_it_along() {
    let mut s = ten_in_flight();
    s.at(ms(200)).sack(0, &[1..3]).sends([10, 11]);
    s.at(ms(201)).ack(3).sends([12, 13]);
    assert_eq!(s.sender.tp().sacked_out, 0);
    assert_eq!(s.sender.tp().packets_out, 11);
    s.state(Open).cwnd(11);
}
