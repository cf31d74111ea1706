//! `Stack::Classic2005`: Linux 2.4.

use super::script::*;
use crate::outcome::CongestionState::*;

#[test]
fn a_syn_is_repeated_after_3_seconds() {
    // RFC 2988, section 2.1.
    let mut s = Sending::new(&classic());
    s.open().sends_syn();
    s.at(ms(3000)).sends_syn();
    s.at(ms(9000)).sends_syn();
}

#[test]
fn the_initial_window_is_2_segments_and_each_acknowledgement_adds_one() {
    // RFC 2581, section 3.1: by one segment for each acknowledgement.
    let mut s = Sending::established(&classic(), 100);
    s.write_without_end().sends(0..2);
    s.cwnd(2);
    s.at(ms(200)).ack(2).sends(2..5);
    s.cwnd(3);
}

/// Segment 5 of 5 to 9 is lost; the window is 5.
fn five_in_flight() -> Sending {
    let mut s = Sending::established(&classic(), 100);
    s.write_without_end().sends(0..2);
    s.at(ms(200)).ack(2).sends(2..5);
    s.at(ms(300)).ack(4).sends(5..8);
    s.at(ms(301)).ack(5).sends(8..10);
    s.cwnd(5);
    s
}

#[test]
fn the_third_duplicate_begins_fast_retransmit() {
    // RFC 2581, section 3.2; nothing is sent before the third duplicate ACK.
    let mut s = five_in_flight();
    s.at(ms(400)).sack(5, &[6..7]).sends([10]);
    s.state(Disorder);
    s.at(ms(401)).sack(5, &[6..8]).sends([11]);
    s.at(ms(402)).sack(5, &[6..9]).sends([5]);
    s.state(Recovery).ssthresh(2);
}

#[test]
fn a_retransmission_is_lost_when_data_first_sent_after_it_arrives() {
    // tcp_sacktag_write_queue, event C. Segment 12 was sent after the retransmission of segment 5.
    let mut s = five_in_flight();
    s.at(ms(400)).sack(5, &[6..7]).sends([10]);
    s.at(ms(401)).sack(5, &[6..8]).sends([11]);
    s.at(ms(402)).sack(5, &[6..9]).sends([5]);
    s.at(ms(403)).sack(5, &[6..10]).sends_nothing();
    s.at(ms(500)).sack(5, &[6..11]).sends([12]);
    s.at(ms(501)).sack(5, &[6..12]).sends_nothing();
    s.at(ms(600)).sack(5, &[6..13]).sends([5]);
    assert_eq!(s.sender.statistics().timeouts, 0);
}

#[test]
fn no_timer_but_the_timeout_is_set() {
    // No probe, no reordering timer. RTO = 100 + 200 ms.
    let mut s = Sending::established(&classic(), 100);
    s.write_without_end().sends(0..2);
    s.due(ms(400));
    s.at(ms(200)).ack(2).sends(2..5);
    s.due(ms(500));
    s.at(ms(300)).sack(2, &[3..4]).sends([5]);
    s.due(ms(500));
    s.at(ms(500)).sends([2]);
    s.state(Loss).cwnd(1);
}

#[test]
fn two_acknowledgements_take_one_segment_off_the_window() {
    // tcp_cwnd_down, rate halving: from 16 to 8 over 16 acknowledgements, and never more than one
    // segment above what is in flight.
    let mut s = Sending::established(&classic(), 100);
    s.sender.tp_mut().snd_cwnd = 16;
    s.sender.tp_mut().snd_ssthresh = 16;
    s.write_without_end().sends(0..16);
    s.at(ms(200)).sack(0, &[1..2]).sends([16]);
    s.at(ms(201)).sack(0, &[1..3]).sends([17]);
    // 18 sent, 3 delivered, 1 lost: 14 in flight.
    s.at(ms(202)).sack(0, &[1..4]).sends([0]);
    s.cwnd(15).ssthresh(8);
    s.at(ms(203)).sack(0, &[1..5]).sends_nothing();
    s.cwnd(14);
    s.at(ms(204)).sack(0, &[1..6]).sends([18]);
    s.cwnd(14);
    s.at(ms(205)).sack(0, &[1..7]).sends_nothing();
    s.cwnd(13);
    s.at(ms(206)).sack(0, &[1..8]).sends([19]);
    s.cwnd(13);
    // Segment 0 arrives: the window is at most the threshold (tcp_complete_cwr).
    s.at(ms(302)).ack(18);
    s.state(Open);
    assert!(s.sender.tp().snd_cwnd <= 8 + 1);
    s.forget_sent();
}

#[test]
fn nothing_is_paced() {
    let mut s = Sending::established(&classic(), 100);
    s.sender.tp_mut().snd_cwnd = 40;
    s.write_without_end().sends(0..40);
}

#[test]
fn the_buffer_is_as_configured() {
    // tcp_rmem[2] of Linux 2.4 is 174,760 bytes and is not tuned.
    let mut r = Receiving::established(&classic());
    for segment in 0..300 {
        r.at(ms(100 + segment)).data(segment);
        r.answer();
    }
    assert_eq!(r.receiver.buffer_bytes(), 174_760);
}

#[test]
fn each_segment_beyond_a_gap_is_acknowledged_at_once() {
    let mut r = Receiving::established(&classic());
    let n = r.past_quick_acks();
    for segment in 1..10 {
        r.data(n + segment);
        r.sacks(n, &[n + 1..n + 1 + segment]);
    }
}
