//! Undo of window reductions: Eifel (RFC 3522, RFC 4015) by the time stamps, and by duplicate
//! reports (RFC 3708); `tcp_try_undo_*`.

use super::script::*;
use crate::outcome::CongestionState::*;

/// Segment 0 was retransmitted at 202 ms.
fn recovery_at_202() -> Sending {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).sack(0, &[1..2]).sends([10]);
    s.at(ms(201)).sack(0, &[1..3]).sends([11]);
    s.at(ms(202)).sack(0, &[1..4]).sends([0]);
    s.state(Recovery).ssthresh(5).cwnd(9);
    s
}

#[test]
fn a_time_stamp_from_before_the_retransmission_takes_fast_recovery_back() {
    // RFC 3522, section 3.2. 8 are in flight; the window is 10 again and one was acknowledged.
    let mut s = recovery_at_202();
    s.at(ms(204)).echoing(ms(100)).ack(4).sends([12, 13, 14]);
    s.state(Open).cwnd(11);
    assert!(s.sender.tp().snd_ssthresh > 1000);
}

#[test]
fn a_time_stamp_of_the_retransmission_does_not() {
    // The recovery ends at the threshold of 5, and 9 newly delivered segments add one
    // (tcp_cong_avoid_ai).
    let mut s = recovery_at_202();
    s.at(ms(302)).echoing(ms(202)).ack(12).sends(12..18);
    s.state(Open).ssthresh(5).cwnd(6);
}

#[test]
fn a_duplicate_report_of_the_only_retransmission_takes_it_back() {
    // tcp_try_undo_dsack.
    let mut s = recovery_at_202();
    s.at(ms(204)).echoing(ms(202)).ack(4).sends_nothing();
    s.cwnd(8);
    s.at(ms(304)).dsack(4, 0..1, &[]).sends([12, 13]);
    s.state(Open).cwnd(10);
    assert!(s.sender.tp().snd_ssthresh > 1000);
}

#[test]
fn every_retransmission_must_be_reported() {
    // undo_retrans.
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).sack(0, &[2..3]).sends([10]);
    s.at(ms(201)).sack(0, &[2..4]).sends([11]);
    s.at(ms(202)).sack(0, &[2..5]).sends([0]);
    s.at(ms(203)).sack(0, &[2..6]).sends_nothing();
    s.at(ms(204)).sack(0, &[2..7]).sends([1]);
    s.at(ms(206)).echoing(ms(202)).ack(7).sends_nothing();
    s.at(ms(207)).dsack(7, 0..1, &[]).sends_nothing();
    s.state(Recovery).ssthresh(5).cwnd(5);
    s.at(ms(208)).dsack(7, 1..2, &[]).sends(12..17);
    s.state(Open).cwnd(10);
}

#[test]
fn a_duplicate_report_can_come_when_all_is_acknowledged() {
    // tcp_ack, no_queue.
    let mut s = Sending::established(&reno(), 100);
    s.write(5).sends(0..5);
    s.at(ms(200)).sack(0, &[1..2]).sends_nothing();
    s.at(ms(227)).sends([0]);
    s.ssthresh(5);
    s.at(ms(228)).echoing(ms(227)).ack(5).sends_nothing();
    s.state(Open).cwnd(5);
    s.at(ms(327)).dsack(5, 0..1, &[]).sends_nothing();
    s.cwnd(10);
    assert!(s.sender.tp().snd_ssthresh > 1000);
}

#[test]
fn a_time_stamp_from_before_a_timeout_takes_it_back() {
    // RFC 4015, section 3.2; tcp_try_undo_loss. 10 in flight of a window of 10, 1 acknowledged.
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(302)).sends([10]);
    s.at(ms(602)).sends([0]);
    s.cwnd(1).ssthresh(5);
    s.at(ms(650)).echoing(ms(100)).ack(1).sends([11]);
    s.state(Open).cwnd(11);
    assert!(s.sender.tp().snd_ssthresh > 1000);
}

#[test]
fn what_rack_gave_up_and_an_undo_unmarked_is_not_given_up_again_at_once() {
    // tcp_rack_detect_loss takes a lost segment off its list; only a retransmission or a timeout
    // puts it back. Segments 0 and 1 are late, not lost, as the time stamp of segment 0 shows.
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).sack(0, &[2..3]).sends([10]);
    s.at(ms(201)).sack(0, &[2..4]).sends([11]);
    s.at(ms(202)).sack(0, &[2..5]).sends([0]);
    s.at(ms(203)).echoing(ms(100)).sack(1, &[2..5]);
    s.state(Disorder).cwnd(11);
    assert_eq!(s.sender.tp().lost_out, 0);
    s.forget_sent();
    // No reordering timer runs for segment 1.
    s.at(ms(300)).sends_nothing();
}
