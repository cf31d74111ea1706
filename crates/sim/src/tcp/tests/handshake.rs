//! Opening a connection.

use super::script::*;
use crate::scenario::Stack;

#[test]
fn a_syn_is_repeated_every_second_five_times_before_the_time_doubles() {
    // Documentation/networking/ip-sysctl.rst, tcp_syn_linear_timeouts = 4: "we would expect SYN
    // RTOs to be: 1, 1, 1, 1, 1, 2, 4, ...".
    let mut s = Sending::new(&reno());
    s.open().sends_syn();
    s.at(ms(999)).sends_nothing();
    for second in 1..=5 {
        s.at(ms(1000 * second)).sends_syn();
    }
    s.at(ms(7000)).sends_syn();
    s.at(ms(11_000)).sends_syn();
    s.due(ms(19_000));
}

#[test]
fn in_2005_a_syn_was_repeated_after_3_and_6_seconds() {
    // RFC 2988, sections 2.1 and 5.5: three seconds, doubled with every timeout.
    let mut s = Sending::new(&classic());
    s.open().sends_syn();
    s.at(ms(3000)).sends_syn();
    s.at(ms(9000)).sends_syn();
    s.due(ms(21_000));
}

#[test]
fn data_written_before_the_handshake_leaves_with_its_end() {
    let mut s = Sending::new(&reno());
    s.open().sends_syn();
    s.write(3).sends_nothing();
    s.at(ms(40)).syn_ack(ms(0)).sends(0..3);
}

#[test]
fn the_handshake_seeds_the_round_trip_time() {
    // RFC 6298, section 2.2: SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR.
    Sending::established(&reno(), 100).rto(100_000, 300);
    Sending::established(&reno(), 300).rto(300_000, 900);
    // Linux applies its floor of 200 ms to the variance (tcp_rtt_estimator).
    Sending::established(&reno(), 10).rto(10_000, 210);
}

#[test]
fn one_lost_syn_leaves_the_initial_window_alone() {
    // tcp_init_transfer; RFC 5681, section 3.1. The time stamp tells which SYN was answered, so
    // the round-trip time is 100 ms and not 1100 ms.
    let mut s = Sending::new(&reno());
    s.open().sends_syn();
    s.write_without_end();
    s.at(ms(1000)).sends_syn();
    s.at(ms(1100)).syn_ack(ms(1000)).sends(0..10);
    s.cwnd(10).rto(100_000, 300);
}

#[test]
fn two_lost_syns_leave_a_window_of_one() {
    // RFC 5681, section 3.1: "the initial window MUST be one segment".
    let mut s = Sending::new(&reno());
    s.open().sends_syn();
    s.write_without_end();
    s.at(ms(1000)).sends_syn();
    s.at(ms(2000)).sends_syn();
    s.at(ms(2100)).syn_ack(ms(2000)).sends([0]);
    s.cwnd(1);
}

#[test]
fn a_second_syn_ack_changes_nothing() {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(150)).syn_ack(ms(0)).sends_nothing();
    s.cwnd(10).rto(100_000, 300);
}

#[test]
fn the_window_of_the_syn_ack_limits_the_first_flight() {
    // RFC 7323, section 2.2: it is not scaled, so at most 65,535 bytes, which is 45 segments.
    let mut s = Sending::new(&reno());
    s.open().sends_syn();
    s.write_without_end().with_window(4 * MSS);
    s.at(ms(100)).syn_ack(ms(0)).sends_bytes_of(&[
        (0, 1448),
        (1448, 1448),
        (2896, 1448),
        (4344, 1448),
    ]);
}

#[test]
fn segments_are_at_most_half_of_a_small_window() {
    // tcp_bound_to_half_wnd: at least two segments fit.
    let mut s = Sending::new(&reno());
    s.open().sends_syn();
    s.write_bytes(2000).with_window(2000);
    s.at(ms(100))
        .syn_ack(ms(0))
        .sends_bytes_of(&[(0, 1000), (1000, 1000)]);
}

#[test]
fn a_control_of_its_own_window_sees_the_acknowledgement_of_the_syn_before_it_is_initialised() {
    // tcp_rcv_synsent_state_process: tcp_ack comes before tcp_init_congestion_control. NOCC opens its
    // window at both.
    let mut s = Sending::new(&tcp("nocc", Stack::Linux));
    s.open().sends_syn();
    s.cwnd(10);
    s.at(ms(100)).syn_ack(ms(0)).cwnd(100_000);
    // Not paced: tcp_update_pacing_rate is for controls without cong_control.
    assert_eq!(s.sender.tp().sk_pacing_rate, u64::MAX);
}
