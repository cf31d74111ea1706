//! Tail loss probes: RFC 8985, section 7; `tcp_schedule_loss_probe`, `tcp_send_loss_probe`,
//! `tcp_process_tlp_ack`.

use super::script::*;
use crate::outcome::CongestionState::*;

/// Five segments were sent at 100 ms; the probe, segment 4, at 302 ms.
fn probed_at_302() -> Sending {
    let mut s = Sending::established(&reno(), 100);
    s.write(5).sends(0..5);
    s.at(ms(302)).sends([4]);
    s
}

#[test]
fn a_probe_leaves_after_two_round_trips() {
    // 2 * SRTT and 2 ms (TCP_TIMEOUT_MIN_US): 200 + 2, before the timeout of 300.
    let mut s = Sending::established(&reno(), 100);
    s.write(5).sends(0..5);
    s.due(ms(302));
    s.at(ms(301)).sends_nothing();
    s.at(ms(302)).sends([4]);
    s.state(Open).cwnd(10);
}

#[test]
fn a_single_segment_is_given_time_for_a_delayed_acknowledgement() {
    // 2 * 300 + 200 ms; the timeout is 900 ms.
    let mut s = Sending::established(&reno(), 300);
    s.write(1).sends([0]);
    s.due(ms(1100));
    s.at(ms(1100)).sends([0]);
}

#[test]
fn no_probe_leaves_later_than_the_timeout_would() {
    // 2 * 20 + 200 ms is more than the timeout, 20 + 200 ms.
    let mut s = Sending::established(&reno(), 20);
    s.write(1).sends([0]);
    s.at(ms(240)).sends([0]);
    s.state(Open).cwnd(10);
    // Then the timeout, counted from the probe.
    s.at(ms(460)).sends([0]);
    s.state(Loss);
}

#[test]
fn a_probe_is_new_data_if_there_is_any() {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(302)).sends([10]);
    s.cwnd(10);
}

#[test]
fn a_probe_repeats_the_last_segment_if_the_window_allows_no_new_one() {
    let mut s = Sending::with_first_window(4 * MSS);
    s.write_without_end().sends(0..4);
    s.at(ms(302)).sends([3]);
}

#[test]
fn there_is_one_probe_before_the_timeout() {
    let mut s = probed_at_302();
    s.due(ms(602));
    s.at(ms(602)).sends([0]);
    s.state(Loss);
}

#[test]
fn each_acknowledgement_puts_the_probe_off() {
    // tcp_set_xmit_timer.
    let mut s = Sending::established(&reno(), 100);
    s.write(5).sends(0..5);
    s.at(ms(200)).ack(2).sends_nothing();
    s.due(ms(402));
    s.at(ms(250)).ack(5).sends_nothing();
    s.no_timer();
}

#[test]
fn a_loss_that_only_the_probe_repaired_reduces_the_window() {
    // RFC 8985, section 7.4.2: the next acknowledgement beyond the probe comes without a
    // duplicate report.
    let mut s = probed_at_302();
    s.at(ms(402)).ack(5).sends_nothing();
    s.at(ms(410)).write(5).sends(5..10);
    s.cwnd(10);
    s.at(ms(510)).ack(7).sends_nothing();
    s.cwnd(5).ssthresh(5).state(Open);
}

#[test]
fn a_duplicate_report_of_the_probe_says_that_nothing_was_lost() {
    // RFC 8985, section 7.4.2.
    let mut s = probed_at_302();
    s.at(ms(402)).dsack(5, 4..5, &[]).sends_nothing();
    s.at(ms(410)).write(5).sends(5..10);
    s.at(ms(510)).ack(7).sends_nothing();
    s.cwnd(10);
    assert!(s.sender.tp().snd_ssthresh > 1000);
}

#[test]
fn so_does_a_plain_duplicate() {
    let mut s = probed_at_302();
    s.at(ms(320)).ack(5).sends_nothing();
    s.at(ms(402)).ack(5).sends_nothing();
    s.at(ms(410)).write(5).sends(5..10);
    s.at(ms(510)).ack(7).sends_nothing();
    s.cwnd(10);
}

#[test]
fn an_acknowledged_probe_of_new_data_is_forgotten() {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(302)).sends([10]);
    s.at(ms(310)).ack(11).sends(11..32);
    // Slow start: 11 were acknowledged.
    s.cwnd(21);
    assert!(!s.sender.is_probing());
}

#[test]
fn a_probe_uncovers_the_loss_of_a_tail() {
    // RFC 8985, section 7: the selective acknowledgement of the probe makes RACK find segments
    // 1 to 3 lost.
    let mut s = Sending::established(&reno(), 100);
    s.write(5).sends(0..5);
    s.at(ms(200)).ack(1).sends_nothing();
    s.at(ms(402)).sends([4]);
    s.at(ms(502)).sack(1, &[4..5]).sends([1]);
    assert_eq!(s.sender.tp().lost_out, 3);
    s.state(Recovery).ssthresh(5);
}
