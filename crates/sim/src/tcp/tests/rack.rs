//! Time-based loss detection: RFC 8985, `tcp_recovery.c`.

use super::script::*;
use crate::outcome::CongestionState::*;

/// Ten segments were sent at 100 ms; the round-trip time is 100 ms.
fn ten_in_flight() -> Sending {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s
}

/// Segment 0 is retransmitted at 202 ms, after three selective acknowledgements.
fn recovery_at_202() -> Sending {
    let mut s = ten_in_flight();
    s.at(ms(200)).sack(0, &[1..2]).sends([10]);
    s.state(Disorder);
    s.at(ms(201)).sack(0, &[1..3]).sends([11]);
    s.at(ms(202)).sack(0, &[1..4]).sends([0]);
    s.state(Recovery).ssthresh(5);
    s
}

#[test]
fn three_segments_beyond_a_hole_make_a_loss_where_no_reordering_was_seen() {
    // RFC 8985, section 6.2, step 4: the reordering window is zero at DupThresh.
    recovery_at_202();
}

#[test]
fn new_data_leaves_on_the_first_two_duplicates() {
    // RFC 3042, limited transmit: the window stays and two segments have left the network.
    let mut s = ten_in_flight();
    s.at(ms(200)).sack(0, &[1..2]).sends([10]);
    s.cwnd(10);
    s.at(ms(201)).sack(0, &[1..3]).sends([11]);
    s.cwnd(10).state(Disorder);
}

#[test]
fn with_fewer_duplicates_a_quarter_of_the_least_round_trip_is_waited() {
    // tcp_rack_reo_wnd: 25 ms, and tcp_rack_mark_lost adds 2 ms (TCP_TIMEOUT_MIN_US).
    let mut s = ten_in_flight();
    s.at(ms(200)).sack(0, &[1..2]).sends([10]);
    s.due(ms(227));
    s.at(ms(227)).sends([0]);
    s.state(Recovery).ssthresh(5);
}

#[test]
fn a_hole_filled_within_the_window_is_reordering_and_no_loss() {
    let mut s = ten_in_flight();
    s.at(ms(200)).sack(0, &[1..2]).sends([10]);
    s.at(ms(205)).ack(2).sends([11, 12]);
    s.state(Open).cwnd(11);
}

#[test]
fn after_reordering_three_duplicates_wait_as_well() {
    // RFC 8985, section 6.2, step 4: RACK.reordering_seen. Segments 3 to 5 were sent at 100 ms:
    // segment 2 is given 110 + 25 ms, which is 27 ms more from 210 ms on.
    let mut s = ten_in_flight();
    s.at(ms(200)).sack(0, &[1..2]).sends([10]);
    s.at(ms(205)).ack(2).sends([11, 12]);
    s.at(ms(210)).sack(2, &[3..6]).sends([13, 14, 15]);
    s.state(Disorder).due(ms(237));
    s.at(ms(237)).sends([2]);
    s.state(Recovery);
}

#[test]
fn the_degree_of_reordering_is_counted_in_segments() {
    // tcp_check_sack_reordering: segment 0 arrives after 1 to 4, so it is late by 5 - 0.
    let mut s = ten_in_flight();
    s.sender.tp_mut().reord_seen = 1;
    s.at(ms(200)).sack(0, &[1..5]).sends([10, 11, 12, 13]);
    s.at(ms(201)).sack(0, &[1..5, 6..7]).sends([14]);
    s.at(ms(202)).sack(5, &[6..7]).sends([15, 16]);
    // From the start of segment 0 to the end of segment 6.
    assert_eq!(s.sender.reordering().degree(), 7);
}

#[test]
fn everything_sent_long_enough_before_the_latest_delivery_is_lost() {
    // RFC 8985, section 6.2, step 5.
    let mut s = ten_in_flight();
    s.at(ms(200)).sack(0, &[7..8]).sends([10]);
    s.at(ms(201)).sack(0, &[7..9]).sends([11]);
    s.at(ms(202)).sack(0, &[7..10]).sends([0]);
    assert_eq!(s.sender.tp().lost_out, 7);
}

#[test]
fn a_retransmission_is_lost_when_what_was_sent_after_it_arrives() {
    // RFC 8985, section 6.2: retransmissions are no exception. Segment 12 was sent at 204 ms and
    // segment 0 again at 202 ms.
    let mut s = recovery_at_202();
    s.at(ms(203)).sack(0, &[1..5]).sends_nothing();
    s.at(ms(204)).sack(0, &[1..6]).sends([12]);
    s.at(ms(302)).sack(0, &[1..12]).sends([13, 14, 15]);
    s.at(ms(303)).sends_nothing();
    s.at(ms(304)).sack(0, &[1..13]).sends([0, 16]);
    assert_eq!(s.sender.tp().lost, 2);
    assert_eq!(s.sender.statistics().retransmits, 2);
}

#[test]
fn a_duplicate_report_widens_the_window_once_reordering_was_seen() {
    // RFC 8985, section 6.2, step 4; tcp_rack_update_reo_wnd: one step of min_rtt / 4 more.
    let mut s = recovery_at_202();
    s.at(ms(203)).echoing(ms(202)).ack(4).sends_nothing();
    s.sender.tp_mut().reord_seen = 1;
    s.at(ms(204)).dsack(4, 0..1, &[]).sends([12, 13]);
    s.at(ms(300)).ack(11).sends(14..28);
    assert_eq!(s.sender.rack().window_steps(), 2);
}

#[test]
fn a_duplicate_report_alone_is_not_reordering() {
    // tcp_dsack_seen does not change reord_seen.
    let mut s = recovery_at_202();
    s.at(ms(203)).echoing(ms(202)).ack(4).sends_nothing();
    s.at(ms(204)).dsack(4, 0..1, &[]).sends([12, 13]);
    assert_eq!(s.sender.tp().reord_seen, 0);
    s.at(ms(300)).ack(11).sends(14..28);
    assert_eq!(s.sender.rack().window_steps(), 1);
}

#[test]
fn a_segment_the_path_has_duplicated_is_no_news() {
    // tcp_dsack_seen: more duplicates than retransmissions are not caused by the sender.
    let mut s = ten_in_flight();
    s.at(ms(200)).ack(2).sends(10..14);
    s.at(ms(201)).dsack(2, 0..1, &[]).sends_nothing();
    s.state(Open).cwnd(12);
    // The SYN and two segments.
    assert_eq!(s.sender.tp().delivered, 3);
}

#[test]
fn a_late_original_says_nothing_about_its_retransmission() {
    // tcp_skb_spurious_retrans: the echoed time precedes the retransmission at 202 ms, so the
    // latest delivery known to RACK remains one sent at 100 ms (hosts have been up for a second).
    let mut s = recovery_at_202();
    s.at(ms(310)).echoing(ms(100)).ack(4);
    s.forget_sent();
    assert_eq!(s.sender.rack().mstamp(), 1_100_000);
}
