//! Waiting for a larger burst (`tcp_tso_should_defer`).

use fairwind_path::units::Time;

use super::script::*;
use crate::outcome::CongestionState::Recovery;
use crate::scenario::TcpConfig;

fn tenths(ms_tenths: u64) -> Time {
    Time::from_micros(100 * ms_tenths)
}

/// With this window, in which it grows by less than a segment a round trip, all of it sent at once when the connection is
/// open.
fn sent(rtt_ms: u64, cwnd: u32) -> Sending {
    let config = TcpConfig {
        tso_win_divisor: 3,
        ..reno()
    };
    let mut s = Sending::established(&config, rtt_ms);
    s.sender.tp_mut().snd_cwnd = cwnd;
    s.sender.tp_mut().snd_ssthresh = cwnd;
    s
}

#[test]
fn a_segment_waits_for_the_one_that_the_next_acknowledgement_allows() {
    // A burst is two segments (tcp_min_tso_segs). The first leaves by itself, because nothing has been sent lately.
    let mut s = sent(100, 30);
    s.write_without_end().sends(0..30);
    s.at(tenths(2000)).ack(1).sends([30]);
    s.at(tenths(2005)).ack(2).sends_nothing();
    assert_eq!(s.sender.tp().is_cwnd_limited, 1);
    s.at(tenths(2010)).ack(3).sends([31, 32]);
}

#[test]
fn it_does_not_wait_once_a_millisecond_has_passed_since_the_latest_one() {
    let mut s = sent(100, 30);
    s.write_without_end().sends(0..30);
    s.at(tenths(2000)).ack(1).sends([30]);
    s.at(tenths(2011)).ack(2).sends([31]);
}

#[test]
fn it_does_not_wait_for_an_acknowledgement_that_is_far() {
    // Segment 2 was sent at 100 ms, and a round trip is 93.75 ms after the first sample of 50.
    let mut s = sent(100, 30);
    s.write_without_end().sends(0..30);
    s.at(tenths(1500)).ack(1).sends([30]);
    s.at(tenths(1505)).ack(2).sends([31]);
}

#[test]
fn a_third_of_the_window_does_not_wait() {
    // A burst would be 15 segments, half of the window.
    let mut s = sent(1, 30);
    s.write_without_end().sends(0..30);
    s.at(tenths(20)).ack(9).sends_nothing();
    s.at(tenths(21)).ack(10).sends(30..40);
}

#[test]
fn the_rest_of_a_buffer_does_not_wait() {
    // A buffer holds 45 full segments (tcp_xmit_size_goal).
    let mut s = sent(100, 43);
    s.write_without_end().sends(0..43);
    s.at(tenths(2000)).ack(1).sends([43]);
    s.at(tenths(2005)).ack(2).sends([44]);
    s.at(tenths(2010)).ack(3).sends_nothing();
}

#[test]
fn the_last_segment_does_not_wait() {
    let mut s = sent(100, 30);
    s.write(32).sends(0..30);
    s.at(tenths(2000)).ack(1).sends([30]);
    s.at(tenths(2005)).ack(2).sends([31]);
}

#[test]
fn nothing_waits_in_a_recovery() {
    let mut s = sent(100, 30);
    s.write_without_end().sends(0..30);
    s.at(tenths(2000)).sack(0, &[1..4]);
    assert_eq!(s.take_numbers()[0], 0);
    s.state(Recovery);
    let mut singles = 0;
    for delivered in 5..20 {
        s.at(tenths(2000 + delivered)).sack(0, &[1..delivered]);
        singles += u32::from(s.take_numbers().len() == 1);
    }
    assert!(singles > 5, "{singles}");
}
