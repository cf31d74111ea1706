//! TCP-LP against its paper, with delta 154/1024 and gamma 1/8.

use crate::common::Connection;
use fairwind_cc::native::{Parameters, RateSample, ca_state, find};

const MS: u64 = 1000;

/// What the peer's time stamps count.
#[derive(Clone, Copy)]
enum Clock {
    /// Milliseconds, and gains so many in a million.
    Milliseconds {
        gain_ppm: u64,
    },
    Microseconds,
    None,
}

const EXACT: Clock = Clock::Milliseconds { gain_ppm: 0 };

/// A connection on a path of 10 ms in each direction.
struct Flow {
    tcp: Connection,
    now_us: u64,
    clock: Clock,
}

impl Flow {
    /// In its first slow start.
    fn open(cwnd: u32, clock: Clock, parameters: &Parameters) -> Flow {
        let mut tcp = Connection::new("reno");
        tcp.control = parameters.control();
        tcp.window(cwnd, 1000);
        tcp.sk.delivered = 1000;
        tcp.sk.rtt_min_us = 20_000;
        tcp.control.init(&mut tcp.sk, parameters);
        Flow {
            tcp,
            now_us: 0,
            clock,
        }
    }

    /// After a loss at a window of 80 packets and a queueing delay, which has gone.
    fn with(queue_us: u64, clock: Clock, parameters: &Parameters) -> Flow {
        let mut flow = Flow::open(80, clock, parameters);
        for count in 0..220 {
            let queue_us = if count < 20 { 0 } else { queue_us };
            flow.ack(0, queue_us, 0, 1);
        }
        flow.tcp.sk.is_cwnd_limited = 0;
        flow.tcp.enter_recovery();
        flow.tcp.set_state(ca_state::OPEN);
        for _ in 0..200 {
            flow.old_ack(0);
        }
        assert_eq!(flow.window(), 40);
        flow
    }

    /// It has seen 100 ms of queueing delay: more than 100 * 154/1024 = 15 ms is early congestion.
    fn new() -> Flow {
        Flow::with(100 * MS, EXACT, &find("lp").unwrap().default_parameters())
    }

    /// Acknowledgements of packets that were sent after the latest reduction.
    fn acks(&mut self, count: u32, queue_us: u64, reverse_us: u64) {
        for _ in 0..count {
            let delivered = self.tcp.sk.delivered;
            self.ack(2, queue_us, reverse_us, delivered);
        }
    }

    /// An acknowledgement of packets that were sent before.
    fn old_ack(&mut self, queue_us: u64) {
        self.ack(2, queue_us, 0, 1);
    }

    /// An ACK, 1.237 ms after the one before, so that it falls anywhere between two
    /// ticks of the peer's clock.
    fn ack(&mut self, packets: u32, queue_us: u64, reverse_us: u64, prior_delivered: u32) {
        self.now_us += 1237;
        self.tcp.at(self.now_us);
        let received_us = 7_000_000_333 + self.now_us - 10 * MS - reverse_us;
        let sk = &mut self.tcp.sk;
        sk.rcv_tsval = match self.clock {
            Clock::Milliseconds { gain_ppm } => {
                ((received_us + received_us / 1_000_000 * gain_ppm) / 1000) as u32
            }
            Clock::Microseconds => received_us as u32,
            Clock::None => 0,
        };
        let rtt_us = 20 * MS + queue_us + reverse_us;
        sk.srtt_us = 8 * rtt_us as u32;
        sk.delivered += packets;
        let sample = RateSample {
            prior_mstamp: 1,
            prior_delivered,
            acked_sacked: packets,
            prior_in_flight: 40,
            rtt_us: rtt_us as i64,
            ..RateSample::default()
        };
        self.tcp.control.cong_control(sk, 0, 0, &sample);
    }

    /// The window, if it is two packets or more.
    fn window(&self) -> u32 {
        self.tcp.sk.snd_cwnd
    }

    /// Goes on with a queueing delay until the window is halved.
    fn until_halved(&mut self, queue_us: u64) {
        for _ in 0..40 {
            self.acks(1, queue_us, 0);
            if self.window() == 20 {
                return;
            }
        }
        panic!("the window is {}", self.window());
    }

    fn limited(&mut self) {
        self.tcp.sk.is_cwnd_limited = 1;
    }
}

#[test]
fn a_smoothed_delay_above_the_threshold_halves_the_window() {
    let mut flow = Flow::new();
    flow.acks(100, 14 * MS, 0);
    assert_eq!(flow.window(), 40);
    flow.until_halved(17 * MS);
    assert_eq!(flow.tcp.sk.snd_ssthresh, 20);
}

#[test]
fn the_delay_is_smoothed_with_gamma() {
    let mut flow = Flow::new();
    // 60 ms for one ACK, smoothed 7.5 ms; for two, 60 (1 - (7/8)^2) = 14.1 ms; for three, 19.8 ms
    flow.acks(2, 60 * MS, 0);
    assert_eq!(flow.window(), 40);
    flow.acks(1, 60 * MS, 0);
    assert_eq!(flow.window(), 20);
}

#[test]
fn early_congestion_in_the_inference_phase_leaves_one_packet() {
    let mut flow = Flow::new();
    flow.until_halved(17 * MS);
    flow.acks(1, 17 * MS, 0);
    // Pairs of packets at the rate of one in the round-trip time of 37 ms.
    assert_eq!(flow.window(), 4);
    assert_eq!(flow.tcp.sk.sk_pacing_rate, 1448 * 1000 / 37);
}

#[test]
fn delays_of_packets_sent_before_the_reduction_do_not_count_again() {
    let mut flow = Flow::new();
    flow.until_halved(17 * MS);
    for _ in 0..10 {
        flow.old_ack(17 * MS);
    }
    assert_eq!(flow.window(), 20);
}

#[test]
fn the_window_does_not_grow_for_three_round_trips() {
    let mut flow = Flow::new();
    flow.limited();
    flow.until_halved(17 * MS);
    // Three times 37 ms are 89 ACKs. 20 packets are 10 ACKs.
    for _ in 0..89 {
        flow.old_ack(0);
    }
    assert_eq!(flow.window(), 20);
    for _ in 0..10 {
        flow.old_ack(0);
    }
    assert_eq!(flow.window(), 21);
}

#[test]
fn early_congestion_after_the_inference_phase_halves_again() {
    let mut flow = Flow::new();
    flow.until_halved(17 * MS);
    for _ in 0..90 {
        flow.old_ack(0);
    }
    for _ in 0..40 {
        flow.acks(1, 17 * MS, 0);
        if flow.window() != 20 {
            break;
        }
    }
    assert_eq!(flow.window(), 10);
}

#[test]
fn the_way_back_does_not_count() {
    let mut flow = Flow::new();
    flow.acks(200, 0, 60 * MS);
    assert_eq!(flow.window(), 40);
}

#[test]
fn a_clock_of_milliseconds_shows_fractions_of_one() {
    // Of 6 ms 0.9 ms are early congestion.
    let parameters = find("lp").unwrap().default_parameters();
    let mut flow = Flow::with(6 * MS, EXACT, &parameters);
    flow.acks(300, 0, 0);
    flow.acks(300, 400, 0);
    assert_eq!(flow.window(), 40);
    flow.until_halved(1300);
}

#[test]
fn clocks_that_drift_apart_are_no_congestion() {
    let parameters = find("lp").unwrap().default_parameters();
    for gain_ppm in [0, 100] {
        let mut flow = Flow::with(100 * MS, Clock::Milliseconds { gain_ppm }, &parameters);
        for _ in 0..4000 {
            flow.now_us += 100 * MS;
            flow.acks(1, 0, 0);
        }
        // 100 of a million of 400 s are 40 ms.
        assert_eq!(flow.window(), 40, "{gain_ppm}");
        flow.until_halved(17 * MS);
    }
}

#[test]
fn without_a_clock_of_milliseconds_the_round_trip_time_decides() {
    let parameters = find("lp").unwrap().default_parameters();
    for clock in [Clock::None, Clock::Microseconds] {
        let mut flow = Flow::with(100 * MS, clock, &parameters);
        if let Clock::Microseconds = clock {
            // A second passes before it is known.
            for _ in 0..1000 {
                flow.old_ack(0);
            }
        }
        flow.acks(100, 0, 14 * MS);
        assert_eq!(flow.window(), 40);
        flow.until_halved(17 * MS);
    }
}

#[test]
fn delays_do_not_end_the_first_slow_start() {
    let mut flow = Flow::open(80, EXACT, &find("lp").unwrap().default_parameters());
    flow.acks(20, 0, 0);
    flow.acks(20, 50 * MS, 0);
    assert_eq!(flow.window(), 160);
}

#[test]
fn delays_count_as_soon_as_the_first_slow_start_limits_no_more() {
    let mut flow = Flow::open(80, EXACT, &find("lp").unwrap().default_parameters());
    flow.acks(20, 0, 0);
    flow.tcp.sk.is_cwnd_limited = 0;
    flow.acks(1, 0, 0);
    for _ in 0..10 {
        flow.ack(2, 50 * MS, 0, 1001);
    }
    assert_eq!(flow.window(), 60);
}

#[test]
fn growth_is_renos() {
    let mut flow = Flow::new();
    flow.limited();
    flow.acks(19, 0, 0);
    assert_eq!(flow.window(), 40);
    flow.acks(1, 0, 0);
    assert_eq!(flow.window(), 41);
    flow.acks(20, 0, 0);
    assert_eq!(flow.window(), 41);
    flow.acks(1, 0, 0);
    assert_eq!(flow.window(), 42);
}

/// In 200 ms, up to ten packets are sent in pairs, with a congestion window of two more.
#[test]
fn a_window_sent_in_pairs_grows_though_the_congestion_window_has_room() {
    let mut flow = Flow::open(5, EXACT, &find("lp").unwrap().default_parameters());
    flow.tcp.sk.is_cwnd_limited = 0;
    flow.ack(2, 180 * MS, 0, 1);
    assert_eq!(flow.tcp.sk.snd_cwnd, 7 + 2);
}

#[test]
fn a_loss_halves_the_window_which_recovery_leaves_alone() {
    let mut flow = Flow::new();
    flow.limited();
    flow.tcp.enter_recovery();
    flow.acks(30, 30 * MS, 0);
    assert_eq!((flow.window(), flow.tcp.sk.snd_ssthresh), (20, 20));
}

#[test]
fn a_mistaken_loss_gives_the_window_back() {
    let mut flow = Flow::new();
    flow.tcp.enter_recovery();
    flow.acks(1, 0, 0);
    assert_eq!(flow.window(), 20);
    flow.tcp.undo();
    flow.tcp.set_state(ca_state::OPEN);
    flow.acks(1, 0, 0);
    assert_eq!(flow.window(), 40);
}

#[test]
fn after_a_timeout_slow_start_goes_up_to_half_the_window() {
    let mut flow = Flow::new();
    flow.limited();
    flow.tcp.time_out();
    flow.acks(1, 0, 0);
    // One packet and two acknowledged.
    assert_eq!((flow.window(), flow.tcp.sk.snd_ssthresh), (3, 20));
    flow.acks(9, 0, 0);
    assert_eq!(flow.window(), 20);
    flow.acks(9, 0, 0);
    assert_eq!(flow.window(), 20);
    flow.acks(1, 0, 0);
    assert_eq!(flow.window(), 21);
}

#[test]
fn delta_gamma_and_inference_are_parameters() {
    let mut parameters = find("lp").unwrap().default_parameters();
    assert_eq!(parameters.get("delta"), Ok(154));
    assert_eq!(parameters.get("gamma"), Ok(128));
    assert_eq!(parameters.get("inference"), Ok(3));
    parameters.set("delta", 512).unwrap();
    parameters.set("gamma", 1023).unwrap();
    parameters.set("inference", 1).unwrap();
    let mut flow = Flow::with(100 * MS, EXACT, &parameters);
    flow.acks(3, 48 * MS, 0);
    assert_eq!(flow.window(), 40);
    flow.acks(1, 53 * MS, 0);
    assert_eq!(flow.window(), 20);
    flow.limited();
    // One round trip of 73 ms is 59 ACKs.
    for _ in 0..59 {
        flow.old_ack(0);
    }
    assert_eq!(flow.window(), 20);
    for _ in 0..10 {
        flow.old_ack(0);
    }
    assert_eq!(flow.window(), 21);
}
