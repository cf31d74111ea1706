//! Proportional rate reduction: RFC 6937, `tcp_cwnd_reduction`.

use super::script::*;
use crate::outcome::CongestionState::*;

#[test]
fn the_window_falls_in_proportion_to_what_is_delivered() {
    // RFC 6937, section 3: sndcnt = CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out while
    // more than ssthresh = 5 are in flight; RecoverFS is the window of 10.
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).sack(0, &[1..2]).sends([10]);
    s.at(ms(201)).sack(0, &[1..3]).sends([11]);
    // 1 delivered: ceil(0.5) - 0 = 1.
    s.at(ms(202)).sack(0, &[1..4]).sends([0]);
    s.cwnd(9);
    // 2: ceil(1.0) - 1 = 0; 8 in flight.
    s.at(ms(203)).sack(0, &[1..5]).sends_nothing();
    s.cwnd(8);
    // 3: ceil(1.5) - 1 = 1.
    s.at(ms(204)).sack(0, &[1..6]).sends([12]);
    s.cwnd(8);
    // 4: ceil(2.0) - 2 = 0.
    s.at(ms(205)).sack(0, &[1..7]).sends_nothing();
    s.cwnd(7);
    s.at(ms(206)).sack(0, &[1..8]).sends([13]);
    s.at(ms(207)).sack(0, &[1..9]).sends_nothing();
    s.cwnd(6);
    // 5 are in flight, which is ssthresh: nothing more.
    s.at(ms(208)).sack(0, &[1..10]).sends_nothing();
    s.cwnd(5);
    // 4 in flight: up to ssthresh again.
    s.at(ms(300)).sack(0, &[1..11]).sends([14]);
    s.at(ms(301)).sack(0, &[1..12]).sends([15]);
    s.cwnd(5);
    // Segment 0 arrives and ends the recovery at ssthresh.
    s.at(ms(302)).ack(12).sends([16]);
    s.cwnd(5).state(Open).ssthresh(5);
}

#[test]
fn below_the_threshold_packets_are_conserved_and_then_slow_start_follows() {
    // RFC 6937, section 3, slow-start reduction bound: limit = MAX(prr_delivered - prr_out,
    // DeliveredData), one more when the left edge moves without a further loss.
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).sack(0, &[7..8]).sends([10]);
    s.at(ms(201)).sack(0, &[7..9]).sends([11]);
    // 7 lost, 2 in flight, 1 delivered: 1.
    s.at(ms(202)).sack(0, &[7..10]).sends([0]);
    s.cwnd(3).ssthresh(5);
    // One sent for one delivered.
    s.at(ms(300)).sack(0, &[7..11]).sends([1]);
    s.at(ms(301)).sack(0, &[7..12]).sends([2]);
    s.cwnd(3);
    // The left edge moves: two sent for one delivered.
    s.at(ms(302)).sack(1, &[7..12]).sends([3, 4]);
    s.cwnd(4);
    s.at(ms(400)).sack(2, &[7..12]).sends([5, 6]);
    s.cwnd(5);
    // The threshold bounds it: 4 in flight.
    s.at(ms(401)).sack(3, &[7..12]).sends([12]);
    s.cwnd(5);
}

#[test]
fn the_first_retransmission_leaves_whatever_the_count() {
    // tcp_cwnd_reduction: MAX(sndcnt, 1) while prr_out is 0.
    let mut s = Sending::established(&reno(), 100);
    s.sender.tp_mut().snd_ssthresh = 10;
    s.write_without_end().sends(0..10);
    s.at(ms(200)).sack(0, &[1..2]).sends([10]);
    s.at(ms(201)).sack(0, &[1..3]).sends([11]);
    s.at(ms(202)).sack(0, &[1..4]).sends([0]);
    assert_eq!(s.sender.tp().prr_out, 1);
    assert_eq!(s.sender.tp().prr_delivered, 1);
}
