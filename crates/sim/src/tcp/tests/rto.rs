//! The retransmission timeout: RFC 6298, `tcp_retransmit_timer`, `tcp_enter_loss`.

use super::script::*;
use crate::outcome::CongestionState::*;

/// Five segments were sent at 100 ms, a probe at 302 ms; the timeout expires at 602 ms.
fn timeout_at_602() -> Sending {
    let mut s = Sending::established(&reno(), 100);
    s.write(5).sends(0..5);
    s.at(ms(302)).sends([4]);
    s.at(ms(602)).sends([0]);
    s.state(Loss);
    s
}

#[test]
fn a_timeout_sends_the_first_segment_with_a_window_of_one() {
    // RFC 5681, section 3.1, equation (4) and the paragraph after it.
    let mut s = timeout_at_602();
    s.cwnd(1).ssthresh(5);
    assert_eq!(s.sender.tp().lost_out, 5);
    assert_eq!(s.sender.statistics().timeouts, 1);
}

#[test]
fn each_timeout_doubles_the_next() {
    // RFC 6298, section 5.5.
    let mut s = timeout_at_602();
    s.due(ms(1202));
    s.at(ms(1202)).sends([0]);
    s.due(ms(2402));
    s.at(ms(2402)).sends([0]);
    s.due(ms(4802));
    // The threshold is reduced once for all of them (tcp_enter_loss).
    s.cwnd(1).ssthresh(5);
}

#[test]
fn a_retransmission_is_timed_by_its_time_stamp() {
    // Karn's rule forbids taking the time since the first transmission (602 ms); RFC 7323 tells
    // the copies apart. The new measurement ends the back-off (RFC 6298, section 5.7).
    let mut s = timeout_at_602();
    s.at(ms(702)).ack(1).sends([1, 2]);
    s.rto(100_000, 300);
}

#[test]
fn slow_start_follows_a_timeout() {
    let mut s = timeout_at_602();
    s.at(ms(702)).ack(1).sends([1, 2]);
    s.cwnd(2);
    s.at(ms(802)).ack(3).sends([3, 4]);
    s.cwnd(4).state(Loss);
    s.at(ms(902)).ack(5).sends_nothing();
    s.state(Open).no_timer();
}

#[test]
fn each_acknowledgement_of_new_data_restarts_the_timer() {
    // RFC 6298, section 5.3. Probes are not sent in this state.
    let mut s = timeout_at_602();
    s.at(ms(702)).ack(1).sends([1, 2]);
    s.due(ms(1002));
}

#[test]
fn only_a_round_trip_moves_the_mean_and_the_variance() {
    // RFC 6298, section 2.3 as tcp_rtt_estimator has it. 180 ms after 100 ms: error 80;
    // SRTT = 100 + 80/8 = 110; deviation (four times) 200 + 80 - 200/4 = 230; RTO = 110 + 230.
    let mut s = Sending::established(&reno(), 100);
    s.write(5).sends(0..5);
    s.at(ms(280)).ack(1).sends_nothing();
    s.rto(110_000, 340);
    // 181 ms: error 71, SRTT 118.875, deviation 230 + 71 - 57.5 = 243.5.
    s.at(ms(281)).ack(2).sends_nothing();
    s.rto(118_875, 363);
}

#[test]
fn the_timeout_is_never_below_the_mean_and_200_ms() {
    let mut s = Sending::established(&reno(), 10);
    s.write_without_end().sends(0..10);
    let mut sent = 10;
    for round in 0..40 {
        s.at(ms(20 + 10 * round)).ack(sent);
        let burst = u64::from(s.sender.tp().snd_cwnd);
        s.sends(sent..sent + burst);
        sent += burst;
        s.sender.tp_mut().snd_ssthresh = 10;
    }
    s.rto(10_000, 210);
}

#[test]
fn what_was_sent_within_the_latest_round_trip_is_not_taken_for_lost() {
    // tcp_timeout_mark_lost: if the latest delivery took 400 ms, the probe, segment 4, sent 300 ms
    // ago, may still arrive.
    let mut s = Sending::established(&reno(), 100);
    s.write(5).sends(0..5);
    s.at(ms(302)).sends([4]);
    s.sender.rack().set_rtt_us(400_000);
    s.at(ms(602)).sends([0]);
    assert_eq!(s.sender.tp().lost_out, 4);
    s.state(Loss).cwnd(2);
}

#[test]
fn the_least_round_trip_time_is_not_taken_from_a_delayed_acknowledgement() {
    // tcp_update_rtt_min: the 100 ms of the handshake are older than the window of 300 s, but a
    // lone small segment may have been acknowledged late.
    let mut s = Sending::established(&reno(), 100);
    s.at(ms(400_000))
        .write_bytes(100)
        .sends_bytes_of(&[(0, 100)]);
    s.at(ms(400_140)).ack_bytes(100).sends_nothing();
    assert_eq!(s.sender.tp().rtt_min_us, 100_000);
    // A full segment counts.
    s.write_bytes(1448).sends_bytes_of(&[(100, 1448)]);
    s.at(ms(400_280)).ack_bytes(1548).sends_nothing();
    assert_eq!(s.sender.tp().rtt_min_us, 140_000);
}
