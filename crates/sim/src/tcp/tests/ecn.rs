//! Explicit congestion notification: RFC 3168, section 6.1; `tcp_ecn_*`, `tcp_enter_cwr`.

use fairwind_path::ecn::Ecn::{self, Ce, Ect0, NotEct};
use fairwind_path::units::Duration;

use super::script::*;
use crate::outcome::CongestionState::*;
use crate::scenario::{Stack, TcpConfig};

fn ecn(control: &str) -> TcpConfig {
    TcpConfig {
        ecn: true,
        ..tcp(control, Stack::Linux)
    }
}

#[test]
fn new_data_is_ecn_capable_if_both_ends_agree() {
    // RFC 3168, sections 6.1.1 and 6.1.2.
    let mut s = Sending::new(&ecn("reno"));
    assert_eq!(s.open().syn_asks(), (true, true));
    s.at(ms(100)).syn_ack(ms(0)).write(2);
    assert_eq!(s.marks_sent(), [(0, Ect0, false), (1, Ect0, false)]);
}

#[test]
fn nothing_is_ecn_capable_if_the_receiver_does_not_agree() {
    let mut s = Sending::new(&ecn("reno"));
    s.open().sends_syn().with_ece(false);
    s.at(ms(100)).syn_ack(ms(0)).write(1);
    assert_eq!(s.marks_sent(), [(0, NotEct, false)]);
    s.with_ece(true).at(ms(200)).ack(1).state(Open);
}

#[test]
fn nobody_asks_without_ecn() {
    let mut s = Sending::new(&reno());
    assert_eq!(s.open().syn_asks(), (false, false));
    s.with_ece(true).at(ms(100)).syn_ack(ms(0)).write(1);
    assert_eq!(s.marks_sent(), [(0, NotEct, false)]);
}

#[test]
fn a_syn_without_answer_is_repeated_without_ecn() {
    // RFC 3168, section 6.1.1.1.
    let mut s = Sending::new(&ecn("reno"));
    s.open().sends_syn();
    s.at(ms(1000));
    assert_eq!(s.syn_asks(), (false, false));
    // The first one has arrived all the same.
    s.at(ms(1100)).syn_ack(ms(1000)).write(1);
    assert_eq!(s.marks_sent(), [(0, Ect0, false)]);
}

/// Segments 0 and 1 have been acknowledged with an echo at 200 ms, when ten were in flight.
fn reduced_at_200(control: &str) -> Sending {
    let mut s = Sending::established(&ecn(control), 100);
    s.write_without_end().sends(0..10);
    s.with_ece(true).at(ms(200)).ack(2);
    s.state(Cwr);
    s
}

#[test]
fn the_window_is_reduced_once_for_the_marks_of_a_round_trip() {
    let mut s = reduced_at_200("reno");
    // PRR: ceil(2 * 5 / 10) = 1 may be sent for the two delivered.
    s.ssthresh(5).cwnd(9);
    assert_eq!(s.marks_sent(), [(10, Ect0, true)]);
    s.at(ms(201)).ack(4).ssthresh(5).cwnd(8);
    assert_eq!(s.marks_sent(), [(11, Ect0, false)]);
    s.with_ece(false).at(ms(202)).ack(6).sends([12]).cwnd(7);
    // 5 are in flight, as many as the threshold.
    s.at(ms(203)).ack(8).sends_nothing().cwnd(5);
    // It goes on until something beyond the ten has been acknowledged.
    s.at(ms(204)).ack(10).sends([13, 14]).state(Cwr);
    s.at(ms(300)).ack(11).sends([15]).state(Open).cwnd(5);
    assert_eq!(s.sender.tp().delivered_ce, 4);
    s.with_ece(true).at(ms(301)).ack(12).state(Cwr).ssthresh(2);
    s.forget_sent();
    assert_eq!(s.sender.statistics().congestion_signals, 2);
    assert_eq!(s.sender.statistics().ecn_signals, 5);
}

#[test]
fn a_control_with_cong_control_is_told_and_keeps_its_window() {
    // tcp_enter_cwr asks for a threshold; tcp_cong_control leaves the window to the control.
    let mut s = Sending::established(&ecn("nocc"), 100);
    s.write(10).sends(0..10);
    let window = s.sender.tp().snd_cwnd;
    s.with_ece(true).at(ms(200)).ack(2).state(Cwr);
    s.with_ece(false).at(ms(201)).ack(10).state(Cwr);
    assert!(s.sender.tp().snd_cwnd >= window);
    s.at(ms(202)).write(1);
    assert_eq!(s.marks_sent(), [(10, Ect0, true)]);
    s.at(ms(302)).ack(11).state(Open);
    assert!(s.sender.tp().snd_cwnd >= window);
}

#[test]
fn a_retransmission_is_not_ecn_capable_and_its_recovery_is_announced() {
    // RFC 3168, section 6.1.5.
    let mut s = Sending::established(&ecn("reno"), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).sack(0, &[1..2]).sends([10]);
    s.at(ms(201)).sack(0, &[1..3]).sends([11]);
    s.at(ms(202)).sack(0, &[1..4]);
    assert_eq!(s.marks_sent(), [(0, NotEct, false)]);
    s.at(ms(203)).sack(0, &[1..6]);
    assert_eq!(s.marks_sent(), [(12, Ect0, true)]);
}

#[test]
fn a_recovery_that_began_with_an_echo_is_not_undone() {
    let mut s = Sending::established(&ecn("reno"), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).sack(0, &[1..2]).sends([10]);
    s.at(ms(201)).sack(0, &[1..3]).sends([11]);
    s.with_ece(true).at(ms(202)).sack(0, &[1..4]).sends([0]);
    s.state(Recovery).ssthresh(5);
    // Without the echo, this time stamp would take the recovery back: see `undo`.
    s.with_ece(false).at(ms(204)).echoing(ms(100)).ack(4);
    s.forget_sent();
    s.ssthresh(5);
}

/// A segment arrives a millisecond after the one before.
fn arrive(r: &mut Receiving, codepoint: Ecn, segment: u64) {
    let at = r.now() + Duration::from_millis(1);
    r.at(at).with_codepoint(codepoint).data(segment);
}

#[test]
fn marks_are_echoed_until_the_window_has_been_reduced() {
    // RFC 3168, section 6.1.3.
    let mut r = Receiving::established(&ecn("reno"));
    r.with_codepoint(Ect0);
    let next = r.past_quick_acks();
    // The first mark is echoed at once, and the next segment is acknowledged at once too.
    arrive(&mut r, Ce, next);
    assert!(r.acks(next + 1).packet.ece);
    arrive(&mut r, Ect0, next + 1);
    assert!(r.acks(next + 2).packet.ece);
    // From then on as usual.
    arrive(&mut r, Ce, next + 2);
    r.answers_nothing();
    arrive(&mut r, Ect0, next + 3);
    assert!(r.acks(next + 4).packet.ece);
    // CWR is acknowledged at once, without ECE.
    let at = r.now() + Duration::from_millis(1);
    r.at(at).data_with_cwr(next + 4);
    let ack = r.acks(next + 5).packet;
    assert_eq!((ack.ece, ack.cwr, ack.ecn), (false, false, NotEct));
}

#[test]
fn a_mark_on_the_segment_with_cwr_is_echoed() {
    let mut r = Receiving::established(&ecn("reno"));
    r.with_codepoint(Ce).at(ms(100)).data(0);
    assert!(r.acks(1).packet.ece);
    r.at(ms(101)).data_with_cwr(1);
    assert!(r.acks(2).packet.ece);
    r.with_codepoint(Ect0).at(ms(102)).data_with_cwr(2);
    assert!(!r.acks(3).packet.ece);
}

#[test]
fn marks_mean_nothing_to_a_receiver_without_ecn() {
    let mut r = Receiving::established(&reno());
    r.with_codepoint(Ce).at(ms(100)).data(0);
    assert!(!r.acks(1).packet.ece);
}
