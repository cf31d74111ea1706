//! SF-SACK, worked by hand from the filter
//! `cwnd = ((2 tau - d) cwnd + d (s_1 + s_0)) / (2 tau + d)`, or for d > tau
//! `(3 cwnd + s_1 + s_0) / 5`, with tau = 100 ms.

use crate::common::Connection;
use fairwind_cc::native::find;

const MS: u64 = 1000;

/// A connection after a first drop at a window of 40 packets, recovered 20 ms later.
fn after_first_drop() -> Connection {
    let mut tcp = Connection::new("sfsack");
    tcp.window(40, 1000);
    tcp.enter_recovery();
    tcp.at(20 * MS);
    tcp.end_recovery();
    tcp
}

#[test]
fn the_first_drop_aims_at_half_the_window() {
    let mut tcp = Connection::new("sfsack");
    tcp.window(40, 1000);
    tcp.enter_recovery();
    assert_eq!(tcp.sk.snd_ssthresh, 20);
}

#[test]
fn the_end_of_recovery_applies_the_filter_to_the_window_reached() {
    // d = 20, cwnd = 20, s_1 = 10, s_0 = 20: (180 * 20 + 20 * 30) / 220 = 19.09
    let tcp = after_first_drop();
    assert_eq!(tcp.sk.snd_cwnd, 19);
    assert_eq!(tcp.sk.snd_ssthresh, 19);
}

#[test]
fn a_drop_long_after_the_one_before_takes_a_tenth() {
    let mut tcp = after_first_drop();
    // A sample of 30 is taken at 70 ms or later, at 320 ms here; the drop follows at 330 ms.
    tcp.window(30, 19);
    tcp.at(320 * MS);
    tcp.ack(1);
    tcp.at(330 * MS);
    tcp.enter_recovery();
    // d = 310 > 100, cwnd = 30, s_1 = 15, s_0 = 30: (90 + 45) / 5 = 27
    assert_eq!(tcp.sk.snd_ssthresh, 27);
}

#[test]
fn the_recovery_of_a_later_drop_takes_a_little_more() {
    let mut tcp = after_first_drop();
    tcp.window(30, 19);
    tcp.at(320 * MS);
    tcp.ack(1);
    tcp.at(330 * MS);
    tcp.enter_recovery();
    tcp.at(355 * MS);
    tcp.end_recovery();
    // d = 25, cwnd = 27, s_1 = 13, s_0 = 15: (175 * 27 + 25 * 28) / 225 = 24.1
    assert_eq!(tcp.sk.snd_cwnd, 24);
}

#[test]
fn a_drop_soon_after_the_one_before_weighs_its_distance() {
    let mut tcp = after_first_drop();
    // No sample yet: s_0 is the 10 of the end of recovery at 20 ms.
    tcp.at(60 * MS);
    tcp.enter_recovery();
    // d = 40, cwnd = 19, s_1 = 9: (160 * 19 + 40 * 19) / 240 = 15.8
    assert_eq!(tcp.sk.snd_ssthresh, 15);
}

#[test]
fn at_the_distance_of_tau_the_filter_weighs_as_it_says() {
    let mut tcp = after_first_drop();
    tcp.at(119 * MS);
    tcp.ack(1);
    tcp.at(120 * MS);
    tcp.window(30, 19);
    tcp.enter_recovery();
    // d = 100 is not above tau; s_0 = 19, s_1 = 15: (100 * 30 + 100 * 34) / 300 = 21.3
    assert_eq!(tcp.sk.snd_ssthresh, 21);
}

#[test]
fn the_window_is_sampled_every_half_tau() {
    let mut tcp = after_first_drop();
    tcp.window(30, 19);
    tcp.at(69 * MS);
    tcp.ack(1);
    tcp.window(40, 19);
    tcp.at(70 * MS);
    tcp.ack(1);
    tcp.window(50, 19);
    tcp.at(119 * MS);
    tcp.ack(1);
    tcp.at(220 * MS);
    tcp.enter_recovery();
    // The sample is the 40 of 70 ms; d = 200, s_1 = 25: (150 + 65) / 5 = 43
    assert_eq!(tcp.sk.snd_ssthresh, 43);
}

#[test]
fn a_first_drop_by_timeout_leaves_one_packet() {
    let mut tcp = Connection::new("sfsack");
    tcp.window(40, 1000);
    tcp.time_out();
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (1, 20));
}

#[test]
fn a_later_timeout_filters_the_window_with_a_sample_of_one() {
    let mut tcp = after_first_drop();
    tcp.window(30, 19);
    tcp.at(320 * MS);
    tcp.ack(1);
    tcp.at(530 * MS);
    tcp.time_out();
    // d = 510 > 100, cwnd = 30, s_1 = 1, s_0 = 30: (90 + 31) / 5 = 24.2
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (24, 15));
}

#[test]
fn a_timeout_in_a_row_filters_again() {
    let mut tcp = after_first_drop();
    tcp.window(30, 19);
    tcp.at(320 * MS);
    tcp.ack(1);
    tcp.at(530 * MS);
    tcp.time_out();
    tcp.at(930 * MS);
    tcp.time_out();
    // d = 400, cwnd = 24, s_1 = s_0 = 1: (72 + 2) / 5 = 14.8; the threshold stays
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (14, 15));
}

#[test]
fn a_mistaken_loss_is_undone_and_not_filtered() {
    let mut tcp = Connection::new("sfsack");
    tcp.window(40, 1000);
    tcp.enter_recovery();
    tcp.sk.snd_cwnd = 25;
    tcp.undo();
    tcp.sk.snd_ssthresh = 1000;
    tcp.control
        .cwnd_event(&mut tcp.sk, fairwind_cc::native::ca_event::COMPLETE_CWR);
    assert_eq!(tcp.sk.snd_cwnd, 40);
}

#[test]
fn tau_is_a_parameter() {
    let mut parameters = find("sfsack").unwrap().default_parameters();
    assert_eq!(parameters.get("tau"), Ok(100_000));
    parameters.set("tau", 50_000).unwrap();
    let mut tcp = Connection::with(&parameters);
    tcp.window(40, 1000);
    tcp.enter_recovery();
    tcp.at(20 * MS);
    tcp.end_recovery();
    // (80 * 20 + 20 * 30) / 120 = 18.3
    assert_eq!(tcp.sk.snd_cwnd, 18);
}

#[test]
fn growth_is_renos() {
    let mut tcp = Connection::new("sfsack");
    tcp.ack(2);
    assert_eq!(tcp.sk.snd_cwnd, 12);
    tcp.window(10, 5);
    tcp.ack(25);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_cwnd_cnt), (12, 5));
}
