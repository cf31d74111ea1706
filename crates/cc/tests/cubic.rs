//! CUBIC against the equations of RFC 9438 and the integer arithmetic of Linux.

use crate::common::Connection;
use fairwind_cc::native::find;

const MS: u64 = 1000;

/// A connection recovered from a loss at `cwnd`, with a minimum round-trip time of 100 ms.
fn after_loss_at(cwnd: u32, parameters: &[(&str, i64)]) -> Connection {
    let mut values = find("cubic").unwrap().default_parameters();
    for (name, value) in parameters {
        values.set(name, *value).unwrap();
    }
    let mut tcp = Connection::with(&values);
    tcp.ack_with_rtt(1, 100_000);
    tcp.window(cwnd, 1000);
    tcp.enter_recovery();
    tcp.end_recovery();
    tcp.sk.snd_cwnd_cnt = 0;
    tcp
}

/// Acknowledges a window's worth of packets one by one over each round-trip time.
fn run(tcp: &mut Connection, from_us: u64, until_us: u64, rtt_us: u64) {
    let mut now = from_us;
    while now < until_us {
        tcp.at(now);
        tcp.ack_with_rtt(1, rtt_us as i32);
        now += rtt_us / u64::from(tcp.sk.snd_cwnd);
    }
}

/// Equation 1 with C = 0.4 and beta = 0.7.
fn w_cubic(t: f64, w_max: f64) -> f64 {
    let k = (w_max * (1.0 - 0.7) / 0.4).cbrt();
    0.4 * (t - k).powi(3) + w_max
}

#[test]
fn a_loss_leaves_seven_tenths_but_two_packets() {
    // 717/1024, rounded down
    for (cwnd, ssthresh) in [(100, 70), (10, 7), (1000, 700), (3, 2), (1, 2)] {
        let tcp = after_loss_at(cwnd, &[]);
        assert_eq!(tcp.sk.snd_ssthresh, ssthresh, "of {cwnd}");
    }
}

#[test]
fn beta_is_a_parameter() {
    assert_eq!(after_loss_at(100, &[("beta", 512)]).sk.snd_ssthresh, 50);
}

#[test]
fn the_first_packet_of_an_epoch_takes_the_steps_that_linux_takes() {
    // W_max = 100, cwnd = 70: K = cbrt(2^40 / 410 * 30) = 4316/1024 s (exact: 4318). One round-trip
    // time ahead, t = 102/1024 s, target = 100 - (410 * (4316 - 102)^3 >> 40) = 73, so the window
    // grows by a packet for each 70 / (73 - 70) = 23 acknowledged.
    let mut tcp = after_loss_at(100, &[]);
    for _ in 0..22 {
        tcp.ack(1);
    }
    assert_eq!(tcp.sk.snd_cwnd, 70);
    tcp.ack(1);
    assert_eq!(tcp.sk.snd_cwnd, 71);
}

#[test]
fn the_window_follows_the_cubic_curve() {
    let mut tcp = after_loss_at(1000, &[]);
    let mut now = 0;
    for seconds in 1..=14 {
        let until = seconds * 1_000_000;
        run(&mut tcp, now, until, 100_000);
        now = until;
        let expected = w_cubic(seconds as f64 + 0.1, 1000.0);
        let cwnd = f64::from(tcp.sk.snd_cwnd);
        // The target is one round-trip time ahead, and it takes that long to reach it.
        assert!(
            (cwnd - expected).abs() < 0.02 * expected,
            "after {seconds} s: {cwnd}, by equation 1 {expected:.0}"
        );
    }
}

#[test]
fn fast_convergence_aims_lower_when_the_window_shrinks() {
    // The second loss at 800 < W_max = 1000: the new W_max is 800 (1 + 0.7) / 2 = 680.
    let plateau = |on| {
        let mut tcp = after_loss_at(1000, &[("fast_convergence", on)]);
        tcp.window(800, 700);
        tcp.enter_recovery();
        tcp.end_recovery();
        assert_eq!(tcp.sk.snd_cwnd, 560);
        // K = cbrt((W_max - 560) / 0.4): 6.7 s or 8.4 s
        run(
            &mut tcp,
            0,
            if on == 1 { 6_700_000 } else { 8_400_000 },
            100_000,
        );
        tcp.sk.snd_cwnd
    };
    assert!((675..=682).contains(&plateau(1)), "{}", plateau(1));
    assert!((793..=802).contains(&plateau(0)), "{}", plateau(0));
}

#[test]
fn a_small_window_keeps_up_with_reno() {
    // 50 round-trip times of 10 ms from a window of 20: Reno with beta = 0.7 gains 0.53 packets
    // each (RFC 9438, 4.3), 26 in total; the curve is at 29 - 0.4 (2.82 - 0.6)^3 = 24.6.
    let grown = |on| {
        let mut tcp = after_loss_at(29, &[("tcp_friendliness", on)]);
        assert_eq!(tcp.sk.snd_cwnd, 20);
        run(&mut tcp, 0, 500 * MS, 10_000);
        tcp.sk.snd_cwnd - 20
    };
    assert!((23..=26).contains(&grown(1)), "{}", grown(1));
    assert!((3..=5).contains(&grown(0)), "{}", grown(0));
}

#[test]
fn growth_is_at_most_a_packet_for_two_acknowledged() {
    let mut tcp = after_loss_at(100, &[]);
    // After a minute, the curve is far above any window.
    run(&mut tcp, 0, MS, 100_000);
    tcp.at(60_000_000);
    let before = tcp.sk.snd_cwnd;
    tcp.sk.snd_cwnd_cnt = 0;
    tcp.ack(40);
    assert_eq!(tcp.sk.snd_cwnd, before + 20);
}

#[test]
fn idle_time_does_not_count_on_the_curve() {
    let grown = |idle_known: bool| {
        let mut tcp = after_loss_at(1000, &[("tcp_friendliness", 0)]);
        run(&mut tcp, 0, 2_000_000, 100_000);
        tcp.sk.lsndtime = tcp.sk.jiffies;
        tcp.at(22_000_000);
        if idle_known {
            let event = fairwind_cc::native::ca_event::TX_START;
            tcp.control.cwnd_event(&mut tcp.sk, event);
        }
        run(&mut tcp, 22_000_000, 23_000_000, 100_000);
        tcp.sk.snd_cwnd
    };
    let expected = w_cubic(3.1, 1000.0);
    assert!((f64::from(grown(true)) - expected).abs() < 0.02 * expected);
    assert!(grown(false) > 2000);
}

#[test]
fn a_timeout_forgets_what_was_known() {
    let mut tcp = after_loss_at(1000, &[]);
    run(&mut tcp, 0, 1_000_000, 100_000);
    let before = tcp.sk.snd_cwnd;
    tcp.time_out();
    assert_eq!(tcp.sk.snd_ssthresh, before * 717 / 1024);
    assert_eq!(tcp.sk.snd_cwnd, 1);
    // No W_max: the epoch begins at the current window, and growth is at least a packet for every
    // 20 acknowledged.
    tcp.window(100, 50);
    tcp.at(2_000_000);
    for _ in 0..20 {
        tcp.ack(1);
    }
    assert_eq!(tcp.sk.snd_cwnd, 101);
}

/// In slow start at 40 packets, minimum round-trip time 40 ms, at the start of a round.
fn in_slow_start(parameters: &[(&str, i64)]) -> Connection {
    let mut values = find("cubic").unwrap().default_parameters();
    for (name, value) in parameters {
        values.set(name, *value).unwrap();
    }
    let mut tcp = Connection::with(&values);
    tcp.ack_with_rtt(1, 40_000);
    tcp.window(40, u32::MAX >> 1);
    tcp.at(100 * MS);
    tcp.sk.snd_una += 1_000_000;
    tcp.sk.snd_nxt = tcp.sk.snd_una + 1_000_000;
    tcp
}

#[test]
fn hystart_leaves_slow_start_when_eight_delays_of_a_round_have_grown_by_an_eighth() {
    // An eighth of 40 ms is 5 ms; ACKs 3 ms apart are not a train.
    let exit = |delay_us| {
        let mut tcp = in_slow_start(&[]);
        for ack in 1..=12 {
            tcp.at((100 + 3 * ack) * MS);
            tcp.ack_with_rtt(1, delay_us);
            if tcp.sk.snd_ssthresh < 1000 {
                return Some((ack, tcp.sk.snd_ssthresh));
            }
        }
        None
    };
    assert_eq!(exit(45_000), None);
    // The ninth ACK ends slow start, at the window before that ACK.
    assert_eq!(exit(45_001), Some((9, 48)));
}

#[test]
fn hystart_leaves_slow_start_when_a_train_is_half_a_round_trip_long() {
    // ACKs 2 ms apart: the eleventh comes 22 ms after the first, more than 40 / 2.
    let exit = |paced| {
        let mut tcp = in_slow_start(&[("hystart_detect", 1)]);
        tcp.sk.sk_pacing_status = paced;
        for ack in 0..=40 {
            tcp.at((100 + 2 * ack) * MS);
            tcp.ack_with_rtt(1, 40_000);
            if tcp.sk.snd_ssthresh < 1000 {
                return Some(ack);
            }
        }
        None
    };
    assert_eq!(exit(0), Some(11));
    // With pacing, the train must last a whole round-trip time: 42 ms.
    assert_eq!(exit(1), Some(21));
}

#[test]
fn hystart_waits_for_its_window_and_can_be_turned_off() {
    for parameters in [[("hystart", 0)], [("hystart_low_window", 1000)]] {
        let mut tcp = in_slow_start(&parameters);
        for ack in 0..40 {
            tcp.at((100 + ack) * MS);
            tcp.ack_with_rtt(1, 80_000);
        }
        assert_eq!(tcp.sk.snd_ssthresh, u32::MAX >> 1, "{parameters:?}");
        assert_eq!(tcp.sk.snd_cwnd, 80);
    }
}
