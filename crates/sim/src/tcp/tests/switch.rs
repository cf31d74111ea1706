//! A change of congestion control while the connection is open (`tcp_set_congestion_control`).

use super::script::*;
use crate::outcome::CongestionState;
use crate::scenario::Stack;

#[test]
fn the_new_control_has_its_window_at_once_and_sends_with_the_next_acknowledgement() {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.with_window(50 * MSS);
    s.at(ms(150)).switch_control("nocc").sends_nothing();
    s.cwnd(100_000);
    s.at(ms(200)).ack(2).sends(10..52);
}

#[test]
fn a_control_that_is_left_lets_go() {
    // Nothing was acknowledged under nocc, so its release leaves the window that it was given.
    let mut s = Sending::established(&tcp("nocc", Stack::Linux), 100);
    // The first window, 65,535 bytes, holds 45 segments.
    s.write_without_end().sends(0..45);
    s.switch_control("reno").cwnd(10);
}

#[test]
fn a_recovery_that_nocc_began_ends_at_what_the_path_was_seen_to_carry() {
    // Twenty segments every 100 ms, the round-trip time.
    let mut s = Sending::established(&tcp("nocc", Stack::Linux), 100);
    s.with_window(40 * MSS).write_without_end().sends(0..45);
    s.at(ms(200)).ack(20).forget_sent();
    s.at(ms(300)).ack(40).forget_sent();
    s.at(ms(400)).sack(40, &[41..60]).forget_sent();
    s.state(CongestionState::Recovery).cwnd(100_000);
    s.switch_control("reno").cwnd(19).ssthresh(19);
    s.at(ms(500)).ack(80).forget_sent();
    s.state(CongestionState::Open).cwnd(19);
}

#[test]
fn a_connection_keeps_window_and_threshold_under_another_control() {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).ack(2).sends(10..14);
    s.cwnd(12);
    s.switch_control("cubic").sends_nothing();
    s.cwnd(12);
    // Slow start goes on: two acknowledged, two more in the window.
    s.at(ms(201)).ack(4).sends(14..18);
    s.cwnd(14);
}

#[test]
fn the_same_control_again_changes_nothing() {
    let mut s = Sending::established(&tcp("cubic", Stack::Linux), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).ack(2).sends(10..14);
    let before = s.sender.tp().clone();
    s.switch_control("cubic");
    assert_eq!(s.sender.tp().icsk_ca_priv, before.icsk_ca_priv);
    assert_eq!(s.sender.tp().snd_ssthresh, before.snd_ssthresh);
}

#[test]
fn the_state_of_a_new_control_begins_empty() {
    let mut s = Sending::established(&tcp("cubic", Stack::Linux), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).ack(2).sends(10..14);
    s.switch_control("reno");
    // Reno's own are the first four words: what becomes of an advised start.
    let others = &s.sender.tp().icsk_ca_priv[4..];
    assert!(others.iter().all(|word| *word == 0));
}

#[test]
fn a_control_may_take_over_in_the_middle_of_recovery() {
    // The recovery goes on as it was; nocc has no part in proportional rate reduction.
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.with_window(20 * MSS);
    s.at(ms(200)).sack(0, &[1..4]).sends([0, 10]);
    s.state(CongestionState::Recovery);
    s.switch_control("nocc");
    s.state(CongestionState::Recovery).cwnd(100_000);
}
