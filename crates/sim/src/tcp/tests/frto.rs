//! Spurious timeouts detected from the acknowledgements that follow: F-RTO, RFC 5682, section 3,
//! `tcp_process_loss`. The echoed time stamps give no hint here.

use super::script::*;
use crate::outcome::CongestionState::*;

/// Ten segments at 100 ms, a probe (segment 10) at 302 ms, a timeout at 602 ms.
fn timeout_at_602() -> Sending {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(302)).sends([10]);
    s.at(ms(602)).sends([0]);
    s.state(Loss).cwnd(1);
    s
}

#[test]
fn the_first_acknowledgement_brings_out_new_data() {
    // Step 2 b: "transmit up to two new (previously unsent) segments".
    let mut s = timeout_at_602();
    s.at(ms(650)).echoing(ms(602)).ack(1).sends([11, 12]);
    s.state(Loss).cwnd(2);
}

#[test]
fn a_timeout_is_spurious_if_data_sent_once_is_acknowledged_next() {
    // Step 3 b. The window and the threshold are restored, and slow start goes on.
    let mut s = timeout_at_602();
    s.at(ms(650)).echoing(ms(602)).ack(1).sends([11, 12]);
    s.at(ms(660)).echoing(ms(602)).ack(3).sends([13, 14]);
    s.state(Open).cwnd(12);
    assert!(s.sender.tp().snd_ssthresh > 1000);
    assert_eq!(s.sender.tp().lost_out, 0);
}

#[test]
fn a_selective_acknowledgement_of_data_sent_once_is_as_good() {
    // Section 3, the enhanced version with SACK.
    let mut s = timeout_at_602();
    s.at(ms(650)).echoing(ms(602)).ack(1).sends([11, 12]);
    s.at(ms(660)).echoing(ms(602)).sack(1, &[2..3]);
    s.state(Disorder);
    assert!(s.sender.tp().snd_ssthresh > 1000);
    s.sends([]);
}

#[test]
fn a_duplicate_acknowledgement_means_that_the_loss_was_real() {
    // Step 3 a: the new data has arrived and the hole is still there.
    let mut s = timeout_at_602();
    s.at(ms(650)).echoing(ms(602)).ack(1).sends([11, 12]);
    s.at(ms(750)).echoing(ms(602)).sack(1, &[11..12]).sends([1]);
    s.state(Loss).cwnd(2).ssthresh(5);
    s.at(ms(751)).echoing(ms(602)).sack(1, &[11..13]).sends([2]);
}

#[test]
fn without_new_data_the_lost_segments_are_sent() {
    // Step 2 b: "if ... there is no new data available, ... revert to the conventional recovery".
    let mut s = Sending::established(&reno(), 100);
    s.write(5).sends(0..5);
    s.at(ms(302)).sends([4]);
    s.at(ms(602)).sends([0]);
    s.at(ms(650)).echoing(ms(602)).ack(1).sends([1, 2]);
    s.state(Loss);
}
