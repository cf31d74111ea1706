//! BBR against draft-ietf-ccwg-bbr-06, section by section.
//!
//! The path carries a packet in a millisecond, 1,448,000 bytes of payload in a second, and its round-trip
//! time is 100 ms: its bandwidth-delay product is 100 packets. ACKs come every 10 ms for 10 packets, unless a
//! test says otherwise. The pacing rate over 99 % of the bandwidth shows the pacing gain, and so the state.

use crate::common::Connection;
use fairwind_cc::native::{RateSample, ca_event, ca_state};

const MSS: u64 = 1448;
/// Bytes per second.
const BANDWIDTH: f64 = 1_448_000.0;

/// A connection over the path.
struct Path {
    tcp: Connection,
    us: u64,
    /// Packets delivered in 10 ms.
    rate: u32,
    rtt_us: u64,
    in_flight: u32,
    app_limited: bool,
}

impl Path {
    /// Just opened, with a measured round-trip time.
    fn new() -> Path {
        let mut path = Path {
            tcp: Connection::new("bbr"),
            us: 0,
            rate: 10,
            rtt_us: 100_000,
            in_flight: 100,
            app_limited: false,
        };
        path.tcp.sk = Default::default();
        path.tcp.sk.srtt_us = 8 * 100_000;
        path.tcp.sk.is_cwnd_limited = 1;
        path.tcp.at(0);
        let parameters = path.tcp.control.default_parameters();
        path.tcp.control.init(&mut path.tcp.sk, &parameters);
        path
    }

    /// Startup has found the bandwidth, and Drain is over.
    fn cruising() -> Path {
        let mut path = Path::new();
        path.tcp.sk.snd_cwnd = 200;
        path.rounds(6);
        assert_eq!(path.gain(), 100);
        path
    }

    /// The next ACK, which marks `losses` packets lost.
    fn ack(&mut self, losses: u32) {
        self.us += 10_000;
        self.tcp.at(self.us);
        let window = self.rate * (self.rtt_us / 10_000) as u32;
        let sk = &mut self.tcp.sk;
        sk.delivered += self.rate;
        sk.lost += losses;
        sk.packets_out = self.in_flight;
        let delivered = window.min(sk.delivered);
        let rate = RateSample {
            prior_mstamp: 1,
            prior_delivered: sk.delivered - delivered,
            delivered: delivered as i32,
            interval_us: i64::from(delivered) * 10_000 / i64::from(self.rate),
            rtt_us: self.rtt_us as i64,
            losses: losses as i32,
            acked_sacked: self.rate,
            prior_in_flight: self.in_flight,
            is_app_limited: self.app_limited,
            ..RateSample::default()
        };
        self.tcp.control.cong_control(sk, 0, 0, &rate);
    }

    /// ACKs for as many round-trip times.
    fn rounds(&mut self, rounds: u64) {
        for _ in 0..rounds * self.rtt_us / 10_000 {
            self.ack(0);
        }
    }

    /// ACKs until the pacing gain, percent, is as given; after how many milliseconds.
    fn until(&mut self, gain: u64) -> u64 {
        let from = self.us;
        for _ in 0..1000 {
            if self.gain() == gain {
                return (self.us - from) / 1000;
            }
            self.ack(0);
        }
        panic!("the gain stays at {} %", self.gain());
    }

    fn gain(&self) -> u64 {
        let rate = self.tcp.sk.sk_pacing_rate as f64;
        (rate / (0.99 * BANDWIDTH) * 100.0).round() as u64
    }

    fn cwnd(&self) -> u32 {
        self.tcp.sk.snd_cwnd
    }
}

// Pacing Rate: C.pacing_rate

#[test]
fn the_first_rate_is_2_77_times_the_initial_window_in_a_round_trip_time() {
    // 10 * 1448 B / 100 ms * 2.77; without a round-trip time, it is taken as 1 ms.
    assert_eq!(Path::new().tcp.sk.sk_pacing_rate, 144_800 * 277 / 100);
    let tcp = Connection::new("bbr");
    assert_eq!(tcp.sk.sk_pacing_rate, 10 * MSS * 1000 * 277 / 100);
}

#[test]
fn the_ack_of_the_syn_comes_before_init_and_changes_nothing() {
    let mut tcp = Connection::new("bbr");
    tcp.sk.icsk_ca_priv = [0; 13];
    let before = tcp.sk.clone();
    let rate = RateSample {
        prior_mstamp: 1,
        delivered: 1,
        interval_us: 20_000,
        rtt_us: 20_000,
        acked_sacked: 1,
        ..RateSample::default()
    };
    tcp.control.cong_control(&mut tcp.sk, 0, 0, &rate);
    assert_eq!(tcp.sk, before);
}

// Startup

#[test]
fn startup_paces_at_2_77_times_the_bandwidth_and_grows_by_what_is_acknowledged() {
    let mut path = Path::new();
    path.ack(0);
    assert_eq!(path.gain(), 277);
    assert_eq!(path.cwnd(), 20);
    path.ack(0);
    assert_eq!(path.cwnd(), 30);
}

#[test]
fn startup_ends_after_three_rounds_without_a_quarter_of_growth() {
    let mut path = Path::new();
    path.in_flight = 1000;
    // The first round sets the baseline: ACKs at 10 ms, and then one for every 100 ms.
    path.ack(0);
    path.rounds(2);
    assert_eq!(path.gain(), 277);
    path.rounds(1);
    assert_eq!(path.gain(), 50);
}

#[test]
fn startup_goes_on_while_the_bandwidth_grows_by_a_quarter() {
    let mut path = Path::new();
    path.in_flight = 1000;
    for rate in [10, 13, 17, 22, 28, 35, 44] {
        path.rate = rate;
        path.rounds(1);
    }
    assert!(path.gain() >= 277 * 4, "{}", path.gain());
}

#[test]
fn rounds_limited_by_the_application_do_not_end_startup() {
    let mut path = Path::new();
    path.app_limited = true;
    path.rounds(20);
    assert_eq!(path.gain(), 277);
}

#[test]
fn startup_ends_by_a_round_of_recovery_with_six_losses_above_two_percent() {
    let gain_after = |losses: &[u32]| {
        let mut path = Path::new();
        path.in_flight = 1000;
        path.app_limited = true;
        path.rounds(2);
        path.tcp.enter_recovery();
        for &lost in losses {
            path.ack(lost);
        }
        for _ in losses.len()..12 {
            path.ack(0);
        }
        path.gain()
    };
    assert_eq!(gain_after(&[1, 1, 1, 1, 1, 1]), 50);
    // Five ACKs with losses are too few, and so is a rate of 2 %.
    assert_eq!(gain_after(&[2, 2, 2, 2, 2]), 277);
    assert_eq!(gain_after(&[2]), 277);
}

// Drain

#[test]
fn drain_ends_when_no_more_than_the_bdp_is_in_flight() {
    let mut path = Path::new();
    path.in_flight = 101;
    path.until(50);
    path.ack(0);
    assert_eq!(path.gain(), 50);
    path.in_flight = 100;
    path.ack(0);
    // ProbeBW_DOWN is over at once, too: there is nothing to drain.
    assert_eq!(path.gain(), 100);
}

#[test]
fn drain_ends_after_three_rounds_at_the_latest() {
    let mut path = Path::new();
    path.in_flight = 1000;
    path.until(50);
    // In the fourth round; ProbeBW_DOWN follows.
    assert_eq!(path.until(90), 400);
}

// ProbeBW

#[test]
fn twice_the_bdp_may_be_in_flight() {
    // With the 10 packets that an ACK delivers at once: extra_acked.
    assert_eq!(Path::cruising().cwnd(), 210);
}

#[test]
fn the_bandwidth_is_probed_after_two_to_three_seconds() {
    let mut path = Path::cruising();
    path.rtt_us = 99_000;
    // Cruise, a round of Refill, then Up; the probe began to wait up to a round before.
    let waited = path.until(125);
    assert!((1900..=3200).contains(&waited), "{waited} ms");
}

#[test]
fn a_small_window_probes_after_as_many_rounds_as_it_has_packets() {
    // 10 packets in a round-trip time of 10 ms: 9 or 10 rounds of Cruise, one of Refill.
    let mut path = Path::new();
    path.tcp.sk.srtt_us = 8 * 10_000;
    path.rtt_us = 10_000;
    path.in_flight = 10;
    path.tcp.sk.snd_cwnd = 20;
    path.until(100);
    let waited = path.until(125);
    assert!((90..=120).contains(&waited), "{waited} ms");
}

#[test]
fn up_ends_when_the_bandwidth_is_flat_and_down_drains() {
    let mut path = Path::cruising();
    path.until(125);
    path.in_flight = 125;
    // 2.25 BDP, 10 packets of extra_acked, and 2 for the probe
    path.rounds(1);
    assert_eq!(path.cwnd(), 237);
    // Three rounds without growth
    let up = path.until(90);
    assert!((190..=210).contains(&up), "{up} ms");
    path.rounds(2);
    assert_eq!(path.gain(), 90);
    path.in_flight = 100;
    path.ack(0);
    assert_eq!(path.gain(), 100);
}

#[test]
fn a_probe_that_loses_more_than_two_percent_bounds_what_is_in_flight() {
    let after_loss = |lost| {
        let mut path = Path::cruising();
        path.until(125);
        path.in_flight = 110;
        path.ack(0);
        path.ack(lost);
        path
    };
    // 100 delivered since the packet was sent, and 2 lost: 2 <= 2 % of 102
    assert_eq!(after_loss(2).gain(), 125);
    // 3 > 2 % of 103. Of the 3, 2 % of 100 / 0.98 = 2 were bearable: the bound is 102.
    let mut path = after_loss(3);
    assert_eq!(path.gain(), 90);
    assert_eq!(path.cwnd(), 102);
    // Cruise leaves 15 % of it, 15.3 packets.
    path.in_flight = 87;
    path.ack(0);
    path.ack(0);
    assert_eq!(path.gain(), 100);
    assert_eq!(path.cwnd(), 87);
}

#[test]
fn a_ce_mark_ends_a_probe() {
    let mut path = Path::cruising();
    path.until(125);
    path.in_flight = 110;
    path.tcp.set_state(ca_state::CWR);
    path.ack(0);
    assert_eq!(path.gain(), 90);
}

// Updating the Model Upon Packet Loss: When not Probing for Bandwidth

#[test]
fn a_round_with_a_loss_lowers_the_rate_to_what_was_delivered_but_by_three_tenths_at_most() {
    let mut path = Path::cruising();
    path.rate = 8;
    path.in_flight = 80;
    path.rounds(2);
    assert_eq!(path.gain(), 100);
    path.ack(1);
    path.rounds(2);
    // 8 of 10 are delivered.
    assert_eq!(path.gain(), 80);
    path.rate = 2;
    path.rounds(2);
    path.ack(1);
    path.rounds(1);
    assert_eq!(path.gain(), 56);
}

#[test]
fn the_next_probe_forgets_the_losses_before() {
    let mut path = Path::cruising();
    path.rate = 5;
    path.in_flight = 50;
    path.rounds(2);
    path.ack(1);
    path.rounds(2);
    assert_eq!(path.gain(), 70);
    // Refill and Up pace by the maximum of two cycles.
    path.until(100);
    path.until(125);
}

#[test]
fn the_bandwidth_is_the_maximum_of_two_cycles() {
    let mut path = Path::cruising();
    path.rate = 5;
    path.in_flight = 50;
    path.until(125);
    path.until(90);
    path.rounds(3);
    // The first cycle with 5 is over, and the one of Startup is remembered.
    assert_eq!(path.gain(), 100);
    path.until(125);
    path.until(90);
    path.rounds(3);
    assert_eq!(path.gain(), 50);
}

// ProbeRTT

#[test]
fn after_five_seconds_without_a_lower_delay_half_the_bdp_is_in_flight_for_200_ms() {
    let mut path = Path::cruising();
    path.rtt_us = 110_000;
    while path.cwnd() > 100 {
        path.ack(0);
    }
    // The latest minimum is the one of init.
    assert_eq!(path.us, 5_010_000);
    assert_eq!(path.cwnd(), 50);
    path.in_flight = 50;
    path.ack(0);
    let from = path.us;
    while path.cwnd() == 50 {
        path.ack(0);
    }
    assert_eq!(path.us - from, 210_000);
    assert!(path.cwnd() > 200, "{}", path.cwnd());
    assert_eq!(path.gain(), 100);
}

// Restarting From Idle

#[test]
fn idle_time_takes_the_place_of_probe_rtt_and_ends_with_a_rate_of_the_bandwidth() {
    let mut path = Path::cruising();
    path.until(125);
    path.us += 20_000_000;
    path.tcp.at(path.us);
    path.tcp.sk.app_limited = 1;
    path.tcp.sk.packets_out = 0;
    path.tcp
        .control
        .cwnd_event(&mut path.tcp.sk, ca_event::TX_START);
    assert_eq!(path.gain(), 100);
    path.ack(0);
    assert!(path.cwnd() > 100, "{}", path.cwnd());
}

// Congestion Window

#[test]
fn four_packets_are_the_least() {
    let mut path = Path::cruising();
    path.tcp.time_out();
    assert_eq!(path.cwnd(), 1);
    path.rate = 1;
    path.ack(0);
    assert_eq!(path.cwnd(), 4);
}

#[test]
fn the_end_of_recovery_gives_back_the_window_before() {
    let mut path = Path::cruising();
    path.tcp.time_out();
    path.tcp.set_state(ca_state::OPEN);
    assert_eq!(path.cwnd(), 210);
}

// Updating the Model Upon Detecting a Spurious Loss Recovery

#[test]
fn a_mistaken_loss_gives_back_window_rate_and_probe() {
    let mut path = Path::cruising();
    path.until(125);
    path.in_flight = 110;
    path.ack(0);
    let before = path.cwnd();
    path.tcp.enter_recovery();
    path.ack(20);
    assert_eq!(path.gain(), 90);
    assert!(path.cwnd() < 120, "{}", path.cwnd());
    path.tcp.undo();
    path.tcp.set_state(ca_state::OPEN);
    assert_eq!(path.cwnd(), before);
    // Refill, which leads to Up within a round
    path.ack(0);
    assert_eq!(path.gain(), 100);
    path.rounds(1);
    assert_eq!(path.gain(), 125);
}
