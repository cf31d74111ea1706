//! The congestion window while something else limits the sender: `tcp_cwnd_validate`,
//! `tcp_is_cwnd_limited`, `tcp_cwnd_restart` (RFC 2861; RFC 5681, section 4.1).

use super::script::*;

#[test]
fn in_slow_start_the_window_may_reach_twice_what_was_used() {
    let mut s = Sending::established(&reno(), 100);
    s.write(5).sends(0..5);
    // 10 is not below 2 * 5.
    s.at(ms(200)).ack(5).sends_nothing();
    s.cwnd(10);
    s.write(6).sends(5..11);
    // 10 is below 2 * 6.
    s.at(ms(300)).ack(11).sends_nothing();
    s.cwnd(16);
}

#[test]
fn in_congestion_avoidance_it_grows_only_if_used_up() {
    let mut s = Sending::established(&reno(), 100);
    s.sender.tp_mut().snd_ssthresh = 10;
    s.write(9).sends(0..9);
    s.at(ms(200)).ack(9).sends_nothing();
    assert_eq!(s.sender.tp().snd_cwnd_cnt, 0);
    s.write(10).sends(9..19);
    s.at(ms(300)).ack(19).sends_nothing();
    s.cwnd(11);
}

#[test]
fn an_idle_window_is_halved_for_each_timeout() {
    // tcp_cwnd_restart: idle for 700 ms with a timeout of 300 ms: 40 -> 20 -> 10.
    for (idle_ms, window) in [(300, 40), (301, 20), (500, 20), (650, 10), (3000, 10)] {
        let mut s = Sending::established(&reno(), 100);
        s.write(1).sends([0]);
        s.at(ms(200)).ack(1).sends_nothing();
        s.sender.tp_mut().snd_cwnd = 40;
        s.sender.tp_mut().snd_ssthresh = 2;
        s.rto(100_000, 300);
        s.at(ms(100 + idle_ms)).write(1).sends([1]);
        s.cwnd(window);
        // The threshold remembers three quarters of the window (tcp_current_ssthresh).
        s.ssthresh(if idle_ms > 300 { 30 } else { 2 });
    }
}

#[test]
fn a_restart_does_not_go_below_the_initial_window() {
    // RFC 5681, section 4.1: RW = min(IW, cwnd).
    let mut s = Sending::established(&reno(), 100);
    s.write(1).sends([0]);
    s.at(ms(200)).ack(1).sends_nothing();
    s.sender.tp_mut().snd_cwnd = 7;
    s.at(ms(5000)).write(8).sends(1..8);
    s.cwnd(7);
}

#[test]
fn a_retransmission_ends_the_idle_time_as_well() {
    // tcp_event_data_sent notes the time of data and of probes: 200 ms since the probe at 400 ms.
    let mut s = Sending::established(&reno(), 100);
    s.write(1).sends([0]);
    s.at(ms(400)).sends([0]);
    s.at(ms(500)).ack(1).sends_nothing();
    s.rto(100_000, 300);
    s.sender.tp_mut().snd_cwnd = 40;
    s.at(ms(600)).write(1).sends([1]);
    s.cwnd(40);
}

#[test]
fn a_window_unused_for_a_timeout_shrinks_half_way_to_its_use() {
    // tcp_cwnd_application_limited: 2 are in flight; the initial window of 10 counts as used.
    let mut s = Sending::established(&reno(), 100);
    s.write(1).sends([0]);
    s.at(ms(200)).ack(1).sends_nothing();
    s.sender.tp_mut().snd_cwnd = 40;
    s.sender.tp_mut().snd_ssthresh = 2;
    s.rto(100_000, 300);
    s.at(ms(300)).write(1).sends([1]);
    s.cwnd(40);
    // 300 ms after the window was last updated, at 200 ms; the sender was never idle for that long.
    s.at(ms(500)).write(1).sends([2]);
    s.cwnd(25);
    s.ssthresh(30);
}
