//! Fairwind against its law (the first comment of `cc/fairwind.c`, and
//! `docs/explanation/background-control.md`).

use std::collections::VecDeque;
use std::rc::Rc;

use fairwind_cc::native::{
    Control, Hosts, Parameters, RateSample, SharedState, TcpSock, ca_event, find,
};

/// The round-trip time without a queue, us.
const BASE: u32 = 20_000;

/// When paths begin, us.
const START_US: u64 = 1_000_000_000;

/// `FLAG_RETRANS_DATA_ACKED` of the kernel's `tcp_input.c`.
const ACK_OF_RETRANSMISSION: i32 = 0x08;

/// A connection whose delays the test sets. It sends pairs, or groups of them, as window and pacing rate allow, and each
/// pair is acknowledged at once.
struct Path {
    control: &'static Control,
    sk: TcpSock,
    us: u64,
    /// When the next pair may leave.
    next_us: f64,
    /// Pairs in flight.
    in_flight: VecDeque<Pair>,
    /// How much later than the round-trip time each pair is acknowledged of those that are sent at once, us.
    group: Vec<u64>,
    /// Of the delay, what the way back adds, us.
    back_us: u64,
    /// One packet of this many is lost; 0: none is.
    loss_every: u32,
}

#[derive(Clone, Copy)]
struct Pair {
    sent_us: u64,
    received_us: u64,
    acked_us: u64,
    /// Packets delivered when it was sent.
    prior_delivered: u32,
}

impl Path {
    /// Just established.
    fn new() -> Path {
        Path::with(&find("fairwind").unwrap().default_parameters())
    }

    fn with(parameters: &Parameters) -> Path {
        Path::of(parameters, &Rc::default(), START_US)
    }

    /// Just established between these hosts.
    fn between(hosts: &Rc<Hosts>) -> Path {
        Path::of(
            &find("fairwind").unwrap().default_parameters(),
            hosts,
            START_US,
        )
    }

    /// Established when this one's connection has ended, between the same hosts.
    fn next(mut self, hosts: &Rc<Hosts>) -> Path {
        self.control.release(&mut self.sk);
        Path::of(&self.control.default_parameters(), hosts, self.us)
    }

    fn of(parameters: &Parameters, hosts: &Rc<Hosts>, us: u64) -> Path {
        let control = parameters.control();
        let mut path = Path {
            control,
            sk: TcpSock {
                is_cwnd_limited: 1,
                delivered: 1,
                max_packets_out: 1_000_000,
                cc_shared: SharedState::between(hosts),
                ..TcpSock::default()
            },
            us,
            next_us: 0.0,
            in_flight: VecDeque::new(),
            group: vec![0],
            back_us: 0,
            loss_every: 0,
        };
        path.at(path.us);
        control.init(&mut path.sk, parameters);
        path
    }

    /// Taken over from another control with so many packets in flight.
    fn taken_over(packets: u32, rtt_us: u32, least_us: u32) -> Path {
        let mut path = Path::new();
        path.sk = TcpSock {
            delivered: 5000,
            packets_out: packets,
            snd_cwnd: packets,
            srtt_us: 8 * rtt_us,
            rtt_min_us: least_us,
            ..TcpSock::default()
        };
        path.at(path.us);
        let parameters = path.control.default_parameters();
        path.control.init(&mut path.sk, &parameters);
        path
    }

    /// Cruising at a window of about 94 packets: the first window comes back over 2 ms.
    fn cruising() -> Path {
        Path::new().cruise()
    }

    fn cruising_with(parameter: &str, value: i64) -> Path {
        let mut parameters = find("fairwind").unwrap().default_parameters();
        parameters.set(parameter, value).unwrap();
        Path::with(&parameters).cruise()
    }

    fn cruise(mut self) -> Path {
        self.first_window(2000);
        self.rounds(10, BASE);
        self
    }

    fn at(&mut self, us: u64) {
        self.us = us;
        self.sk.tcp_mstamp = us;
        self.sk.now_ns = us * 1000;
        self.sk.jiffies = (us / 1000) as u32;
    }

    fn ack(&mut self, packets: u32, pair: Pair) {
        let before = self.sk.delivered;
        self.sk.delivered += packets;
        let lost =
            self.loss_every != 0 && self.sk.delivered / self.loss_every != before / self.loss_every;
        self.sk.lost += u32::from(lost);
        self.sk.rtt_min_us = self.sk.rtt_min_us.min((self.us - pair.sent_us) as u32);
        self.sk.rcv_tsval = (pair.received_us / 1000) as u32 + 77_000;
        let rate = RateSample {
            prior_mstamp: pair.sent_us,
            prior_delivered: pair.prior_delivered,
            rtt_us: (self.us - pair.sent_us) as i64,
            losses: lost.into(),
            acked_sacked: packets,
            prior_in_flight: self.sk.packets_out,
            ..RateSample::default()
        };
        self.sk.packets_out -= packets;
        self.control.cong_control(&mut self.sk, 0, 0, &rate);
    }

    /// An ACK of packets that were sent before the latest change of the window, so that they are no look.
    fn late_ack(&mut self, packets: u32, losses: i32, rtt_us: u32) {
        self.sk.delivered += packets;
        let rate = RateSample {
            prior_delivered: 1,
            rtt_us: rtt_us.into(),
            losses,
            acked_sacked: packets,
            ..RateSample::default()
        };
        self.control.cong_control(&mut self.sk, 0, 0, &rate);
    }

    /// The first ten packets, acknowledged one by one over `us`.
    fn first_window(&mut self, us: u64) {
        self.at_once(10, 1, us / 10);
    }

    /// Packets are sent at once. Some together are acknowledged every `gap_us`.
    fn at_once(&mut self, packets: u32, together: u32, gap_us: u64) {
        let sent_us = self.us;
        let prior_delivered = self.sk.delivered;
        self.sk.packets_out = packets;
        self.at(sent_us + u64::from(BASE));
        for _ in 0..packets / together {
            let pair = Pair {
                sent_us,
                received_us: self.us,
                acked_us: self.us,
                prior_delivered,
            };
            self.ack(together, pair);
            self.at(self.us + gap_us);
        }
        self.next_us = self.us as f64;
    }

    /// A base delay long, pairs leave that are acknowledged after `rtt_us`.
    fn round(&mut self, rtt_us: u32) {
        self.part(BASE, rtt_us);
    }

    /// For `us`, pairs leave that are acknowledged after `rtt_us`.
    fn part(&mut self, us: u32, rtt_us: u32) {
        let end = self.us + u64::from(us);
        loop {
            let packets = 2 * self.group.len() as u32;
            let may_send = self.sk.packets_out + packets <= self.sk.snd_cwnd.max(packets);
            let send = if may_send {
                self.next_us.max(self.us as f64) as u64
            } else {
                u64::MAX
            };
            let acked = self
                .in_flight
                .front()
                .map_or(u64::MAX, |pair| pair.acked_us);
            if send.min(acked) >= end {
                break;
            }
            if acked <= send {
                let pair = self.in_flight.pop_front().unwrap();
                self.at(acked.max(self.us));
                self.ack(2, pair);
            } else {
                self.at(send);
                for later_us in &self.group {
                    let acked_us = send + u64::from(rtt_us) + later_us;
                    self.in_flight.push_back(Pair {
                        sent_us: send,
                        received_us: acked_us - self.back_us,
                        acked_us,
                        prior_delivered: self.sk.delivered,
                    });
                }
                self.sk.packets_out += packets;
                let bytes = f64::from(packets) * 1448.0;
                self.next_us = send as f64 + bytes * 1e6 / self.sk.sk_pacing_rate as f64;
            }
        }
        self.at(end);
    }

    fn rounds(&mut self, rounds: u32, rtt_us: u32) {
        for _ in 0..rounds {
            self.round(rtt_us);
        }
    }

    /// Rounds until `end`, which must come within `most`.
    fn rounds_until(&mut self, most: u32, rtt_us: u32, end: impl Fn(&Path) -> bool) -> u32 {
        for rounds in 1..=most {
            self.round(rtt_us);
            if end(self) {
                return rounds;
            }
        }
        panic!("not within {most} rounds: {} packets", self.window());
    }

    fn window(&self) -> u32 {
        self.sk.snd_cwnd
    }

    /// What the pacing rate sends in the base delay, packets; below two packets it is the window.
    fn paced(&self) -> f64 {
        self.sk.sk_pacing_rate as f64 * f64::from(BASE) / 1e6 / 1448.0
    }
}

fn near(value: u32, expected: u32, tolerance: u32) {
    assert!(
        value.abs_diff(expected) <= tolerance,
        "{value} is not within {tolerance} of {expected}"
    );
}

#[test]
fn the_acknowledgement_of_the_syn_sets_nothing() {
    let control = find("fairwind").unwrap();
    let mut sk = TcpSock::default();
    control.assign(&mut sk, &control.default_parameters());
    let before = sk.clone();
    let rate = RateSample {
        rtt_us: 20_000,
        acked_sacked: 1,
        ..RateSample::default()
    };
    control.cong_control(&mut sk, 0, 0, &rate);
    assert_eq!(sk, before);
    control.initialize(&mut sk);
    assert_eq!(sk.snd_cwnd, 10);
    assert_eq!(sk.sk_pacing_rate, u64::MAX, "the first window is not paced");
}

#[test]
fn at_the_start_the_window_doubles_with_every_round() {
    // The first window tells nothing if it comes back at one moment.
    let mut path = Path::new();
    path.first_window(0);
    path.round(BASE);
    let begin = path.window();
    path.round(BASE);
    // Four looks, each of which adds a quarter: 1.25^4 is 2.44.
    let growth = f64::from(path.window()) / f64::from(begin);
    assert!((2.0..=2.5).contains(&growth), "{growth}");
}

#[test]
fn the_start_ends_a_sixteenth_below_what_the_first_window_shows() {
    // Ten packets come 100 us apart: 200 in 20 ms. 15/16 of them are 187.
    let mut path = Path::new();
    path.first_window(1000);
    path.rounds_until(20, BASE, |path| path.window() > 180);
    near(path.window(), 188, 3);
    path.round(BASE);
    // Cruising: 0.09 times the root of 187 is 1.3 packets a round.
    near(path.window(), 190, 2);
}

#[test]
fn bursts_of_the_start_correct_what_a_first_window_in_lumps_has_shown() {
    // 15 us a packet, which would be 1,333 packets in a round trip: a host was late. The link sends one in 40 us,
    // and so 500 in a round trip. The last bursts say nearly that.
    let mut path = Path::new();
    path.first_window(150);
    for _ in 0..10 {
        path.at_once(20, 2, 80);
    }
    let window = path.window();
    assert!((440..=600).contains(&window), "{window}");
    // Bursts of a few packets, or that are over in 100 us, say no more than the first window did.
    for (packets, gap_us) in [(8, 80), (20, 8)] {
        let mut path = Path::new();
        path.first_window(150);
        for _ in 0..10 {
            path.at_once(packets, 2, gap_us);
        }
        assert!(path.window() > 1000, "{}", path.window());
    }
}

#[test]
fn what_was_sent_after_the_first_window_does_not_show_the_link() {
    // Five packets of ten fit into the buffer. Four come 11 ms apart; the fifth is a probe for losses, sent 1 ms
    // before the first was acknowledged.
    let mut path = Path::new();
    let sent_us = path.us;
    path.sk.packets_out = 10;
    path.at(sent_us + u64::from(BASE));
    for number in 0..5 {
        let later_us = if number == 4 { BASE - 1000 } else { 0 };
        let pair = Pair {
            sent_us: sent_us + u64::from(later_us),
            received_us: path.us,
            acked_us: path.us,
            prior_delivered: 1,
        };
        path.ack(1, pair);
        path.at(path.us + 11_000);
    }
    // The others are sent again.
    path.sk.delivered += 6;
    path.next_us = path.us as f64;
    path.rounds(6, BASE);
    assert!(path.window() > 10, "{}", path.window());
}

#[test]
fn growth_is_by_the_root_of_the_window_and_faster_after_some_rounds() {
    let mut path = Path::cruising();
    let mut windows = vec![f64::from(path.window())];
    for _ in 0..30 {
        path.round(BASE);
        windows.push(f64::from(path.window()));
    }
    let early = windows[5] - windows[0];
    let late = windows[30] - windows[25];
    assert!(late > 2.0 * early, "{windows:?}");
    assert!(
        late / 5.0 <= windows[30] / 8.0 * 1.3,
        "an eighth a round: {windows:?}"
    );
}

#[test]
fn a_parameter_that_is_set_holds_for_a_live_connection() {
    let mut path = Path::cruising_with("patience", 60);
    let patient = path.window();
    path.rounds(10, BASE);
    near(path.window(), patient + 9, 3);
    let mut parameters = path.control.default_parameters();
    parameters.set("patience", 1).unwrap();
    let mut impatient = TcpSock::default();
    path.control.assign(&mut impatient, &parameters);
    path.sk.parameters = impatient.parameters;
    let before = path.window();
    path.rounds(10, BASE);
    assert!(path.window() > 2 * before, "{before} to {}", path.window());
}

#[test]
fn where_losses_are_congestion_it_grows_by_a_part_of_the_buffer_and_by_more_when_nobody_comes() {
    // Losses come with 2 ms: a quarter of that is 1/40 of the window that it had to itself.
    let mut path = Path::cruising();
    let own = f64::from(path.window());
    for _ in 0..20 {
        path.late_ack(2, 1, BASE + 2000);
        path.late_ack(50, 0, BASE);
    }
    path.rounds_until(100, BASE, |path| path.window() > 10);
    let mut windows = vec![f64::from(path.window())];
    for _ in 0..40 {
        path.round(BASE);
        windows.push(f64::from(path.window()));
    }
    let growth = |from: usize| (windows[from + 3] - windows[from]) / 3.0 / own;
    assert!((0.015..0.03).contains(&growth(27)), "{windows:?}");
    assert!(growth(37) > 0.04, "{windows:?}");
}

#[test]
fn a_queue_is_answered_with_the_exact_cut() {
    // 20,560 us against 20,000 is no more than a window that grows by a packet a round explains twice over
    // and what is tolerated: the link carries 2000/2056, and 1/64 less empties the queue. Four packets are sent at once, those of
    // a millisecond, of which two wait in the mean.
    let mut path = Path::cruising();
    let before = path.window();
    path.rounds_until(3, BASE + 560, |path| path.window() < before);
    near(
        path.window(),
        (f64::from(before) * 20.0 / 20.56 * 63.0 / 64.0 + 2.0) as u32,
        1,
    );
}

/// What a cut leaves of the window, where the first window has shown a packet in 100 us, and then groups come back so.
fn left_by_a_cut(group: impl IntoIterator<Item = u64>) -> f64 {
    const QUEUE: u32 = 850;
    let mut path = Path::new();
    // The SYN, which takes next to no time on the link.
    path.sk.rtt_min_us = BASE - 100;
    path.first_window(1000);
    path.rounds(9, BASE);
    path.group = group.into_iter().collect();
    path.rounds(5, BASE);
    let before = path.window();
    let cut = (1..=60).find(|_| {
        path.part(BASE / 20, BASE + QUEUE);
        path.window() < before
    });
    cut.expect("a cut within three rounds");
    f64::from(path.window()) / f64::from(before) * f64::from(BASE + QUEUE) / f64::from(BASE)
}

#[test]
fn groups_that_were_sent_at_once_correct_what_the_first_window_has_shown() {
    // It has the link to itself, and a packet takes 100 us. Of nine that are sent at once half wait: a fortieth of 200.
    let alone = left_by_a_cut((0..8).map(|pair| 200 * pair));
    assert!((0.99..1.01).contains(&alone), "{alone}");
    // It takes 85 us, so that it has six sevenths of the link, and leaves a twenty-fifth to others.
    let part = left_by_a_cut((0..8).map(|pair| 170 * pair));
    assert!((0.94..0.96).contains(&part), "{part}");
    // Hosts were not as late as that: others take turns, or the delay varies.
    for pair_us in [100, 400] {
        let other = left_by_a_cut((0..8).map(|pair| pair_us * pair));
        assert!((0.99..1.01).contains(&other), "{other}");
    }
    // Four pairs and another four were acknowledged together: that says nothing, though they are as far apart as before.
    let lumps = left_by_a_cut((0..8).map(|pair| 700 * (pair / 4)));
    assert!((1.0..1.02).contains(&lumps), "{lumps}");
}

#[test]
fn with_a_part_of_the_link_it_leaves_some_to_others_of_its_kind() {
    // The first window has shown 200 packets in 20 ms; then twice the base delay leaves less than half of them.
    let mut path = Path::new();
    path.first_window(1000);
    path.rounds(10, BASE);
    path.rounds_until(3, 2 * BASE, |path| path.window() < 60);
    path.rounds_until(30, BASE, |path| path.window() > 80);
    path.rounds(8, BASE);
    let before = path.window();
    let share = f64::from(before) / 200.0;
    assert!((0.3..0.6).contains(&share), "{share}");
    path.rounds_until(3, BASE + 900, |path| path.window() < before);
    let carried = f64::from(before) * 20.0 / 20.9;
    near(
        path.window(),
        (carried * (1.0 - share * (248.0 / 256.0 - share) / 3.0)) as u32,
        2,
    );
}

#[test]
fn a_queue_that_its_growth_does_not_explain_is_answered_with_half() {
    // 24 ms against 20: 5/6 is free, of which 7/8 are believed.
    let mut path = Path::cruising();
    let before = path.window();
    path.rounds_until(3, BASE + 4000, |path| path.window() < before);
    let free = f64::from(before) * 20.0 / 24.0;
    near(path.window(), (free * 7.0 / 8.0 / 2.0) as u32, 2);
}

#[test]
fn more_than_the_link_carries_at_the_end_of_the_start_is_its_own() {
    // 187 packets, of which the link carries only 24/25 of those of a round trip ago.
    let mut path = Path::new();
    path.first_window(1000);
    path.rounds_until(20, BASE, |path| path.window() > 180);
    let before = path.window();
    while path.window() >= before {
        path.part(BASE / 32, BASE + 1600);
    }
    let free = f64::from(before) * 20.0 / 21.6;
    near(path.window(), (free * 6.0 / 7.0) as u32, 2);
    // The queue has gone, so that nobody else fed it.
    path.rounds(5, BASE);
    near(path.window(), (free * 15.0 / 16.0) as u32, 5);
    // Later it would be somebody else's.
    let mut path = Path::new();
    path.first_window(1000);
    path.rounds_until(20, BASE, |path| path.window() > 180);
    path.rounds(3, BASE);
    let before = path.window();
    path.rounds_until(3, BASE + 1600, |path| path.window() < before);
    let free = f64::from(before) * 20.0 / 21.6;
    near(path.window(), (free * 7.0 / 16.0) as u32, 3);
}

#[test]
fn selective_acknowledgements_that_a_receiver_held_back_show_no_queue() {
    let mut path = Path::cruising();
    let before = path.window();
    path.sk.sacked_out = 3;
    path.rounds(6, BASE + 990);
    assert!(path.window() >= before, "{before} to {}", path.window());
    // A twentieth of the round trip at most.
    let before = path.window();
    path.rounds(2, BASE + 4000);
    assert!(path.window() < before, "{before} to {}", path.window());
}

#[test]
fn a_small_queue_counts_when_a_second_look_shows_it() {
    // 0.5 ms are tolerated: 0.1 ms, and a packet's time on the link and at this sender's rate.
    let mut path = Path::cruising();
    let before = path.window();
    path.part(BASE * 3 / 8, BASE + 1000);
    path.rounds(2, BASE);
    assert!(path.window() >= before, "{before} to {}", path.window());
    let before = path.window();
    path.rounds_until(4, BASE + 1000, |path| path.window() < before);
    // A large one counts at once.
    let mut path = Path::cruising();
    path.part(BASE * 3 / 8, BASE + 4000);
    path.round(BASE);
    assert!(path.window() < before, "{before} to {}", path.window());
}

#[test]
fn its_own_queues_are_no_noise() {
    // Its own queue comes and goes for a hundred cycles. The next is answered as the first was.
    let mut path = Path::cruising();
    for _ in 0..100 {
        let before = path.window();
        path.rounds_until(3, BASE + 900, |path| path.window() < before);
        path.rounds_until(40, BASE, |path| path.window() >= before);
    }
    let before = path.window();
    path.rounds_until(3, BASE + 900, |path| path.window() < before);
}

#[test]
fn losses_of_a_policer_end_its_growth() {
    // A policer lets a tenth less pass than is sent, without a queue.
    let mut path = Path::cruising();
    let before = path.window();
    path.loss_every = 5;
    path.rounds(20, BASE);
    assert!(path.window() < before / 2, "{before} to {}", path.window());
}

#[test]
fn losses_beyond_six_percent_take_four_times_as_much_once_a_window_and_at_most_half() {
    let mut path = Path::taken_over(100, BASE, BASE);
    path.late_ack(94, 6, BASE);
    assert_eq!(path.window(), 100);
    // 10 % are 4 % too much: 16 % of 100 packets.
    path.late_ack(90, 10, BASE);
    assert_eq!(path.window(), 84);
    // Before 100 packets that were in flight have come, it is the same loss.
    path.late_ack(90, 10, BASE);
    assert_eq!(path.window(), 84);
    path.late_ack(90, 10, BASE);
    assert_eq!(path.window(), 71, "84 less 13.4");
    path.late_ack(70, 30, BASE);
    path.late_ack(70, 30, BASE);
    assert_eq!(path.window(), 35, "not 4 times 24 % less");
}

#[test]
fn it_does_not_grow_while_more_than_a_tenth_is_lost() {
    // Half a round brings 47 packets: 7 of 64 are more than a tenth, 2 of 59 are not.
    for (losses, grows) in [(7, false), (2, true)] {
        let mut path = Path::cruising();
        // The losses are judged, and counted anew.
        path.late_ack(100, 0, BASE);
        path.late_ack(10, losses, BASE);
        let before = path.paced();
        path.part(BASE / 2, BASE);
        assert_eq!(path.paced() > before, grows, "{losses} losses");
    }
}

#[test]
fn a_queue_that_stays_after_the_cut_is_somebody_elses() {
    let mut path = Path::cruising();
    let before = f64::from(path.window());
    path.rounds(4, BASE + 4000);
    assert!(
        f64::from(path.window()) <= before / 4.0,
        "{}",
        path.window()
    );
    // A quarter with every round, down to 1/256 of what it had to itself.
    path.rounds(40, BASE + 4000);
    let floor = before / 256.0;
    assert!(
        path.paced() <= floor * 1.2,
        "{} above {floor}",
        path.paced()
    );
    assert!(
        path.paced() >= floor * 0.7,
        "{} below {floor}",
        path.paced()
    );
}

#[test]
fn two_packets_a_second_are_kept_of_64_and_one_of_fewer_than_32() {
    // In a second; timeouts halve the window down to the least. Of 48 packets, 1/32 is 1.5.
    for (had, kept) in [(100, 2.0), (48, 1.5), (20, 1.0)] {
        let mut path = Path::taken_over(had, 1_000_000, 1_000_000);
        for _ in 0..10 {
            path.control.cwnd_event(&mut path.sk, ca_event::LOSS);
        }
        path.late_ack(2, 0, 1_000_000);
        let packets = path.sk.sk_pacing_rate as f64 / 1448.0;
        assert!((packets - kept).abs() < 0.04, "of {had}: {packets}");
    }
}

#[test]
fn below_two_packets_pairs_are_paced() {
    let mut path = Path::cruising();
    path.rounds(12, BASE + 4000);
    assert_eq!(path.window(), 4);
    assert!(path.paced() < 2.0);
}

#[test]
fn a_queue_that_goes_with_the_cut_was_its_own_or_a_burst() {
    let mut path = Path::cruising();
    let before = path.window();
    path.round(BASE + 1000);
    path.round(BASE);
    assert!(path.window() < before);
    path.rounds_until(12, BASE, |path| path.window() >= before / 5 * 4);
}

#[test]
fn the_window_comes_back_when_the_others_have_gone() {
    let mut path = Path::cruising();
    let before = path.window();
    path.rounds(50, BASE + 5000);
    path.rounds_until(120, BASE, |path| path.window() >= before / 2);
}

#[test]
fn after_a_yield_it_waits_for_the_quiet_that_was_asked_for() {
    // What was sent in the queue comes for a round. Then two looks end the yield, or a look after twenty rounds.
    for (quiet, rounds) in [(0, 2), (20, 22)] {
        let mut path = Path::cruising_with("quiet", quiet);
        path.rounds(4, BASE + 4000);
        let yielded = path.paced();
        let waited = path.rounds_until(rounds, BASE, |path| path.paced() > yielded);
        assert_eq!(waited, rounds);
    }
}

#[test]
fn what_small_flows_tolerate_more_is_bounded() {
    // A packet takes 200 us on the link, and as long at the rate of 99 in 20 ms. It tolerates 100 us and both of these, or
    // the first alone.
    for (equal, tolerates) in [(1000, true), (0, false)] {
        let mut path = Path::cruising_with("equal", equal);
        let before = path.window();
        path.rounds(2, BASE + 400);
        assert_eq!(path.window() >= before, tolerates);
    }
}

#[test]
fn a_queue_begins_the_quiet_anew() {
    let mut path = Path::cruising_with("quiet", 20);
    path.rounds(4, BASE + 4000);
    let yielded = path.paced();
    path.rounds(15, BASE);
    path.round(BASE + 4000);
    path.rounds(20, BASE);
    assert!(path.paced() < yielded / 2.0, "{}", path.paced());
    path.rounds_until(4, BASE, |path| path.paced() > yielded / 2.0);
}

#[test]
fn the_way_up_ends_no_lower_than_half_of_what_it_had_or_less_at_a_smaller_belief() {
    // A queue as long as the path leaves half as free, and 7/8 of 7/8 of it, or 7/16 of 7/16, when others
    // are there. It had 1/32 less by then.
    for (belief, share) in [(896, 0.5), (448, 0.25)] {
        let mut path = Path::cruising_with("belief", belief);
        let own = f64::from(path.window()) * 31.0 / 32.0;
        path.rounds(8, BASE + 20_000);
        let yielded = path.paced();
        path.rounds_until(8, BASE, |path| path.paced() > yielded);
        // It leaves half of what is free as the threshold.
        path.control.release(&mut path.sk);
        near(path.sk.snd_ssthresh, (own * share / 2.0) as u32, 1);
    }
}

#[test]
fn losses_without_a_queue_change_nothing() {
    // Every thirtieth packet is 3 %.
    let mut path = Path::cruising();
    let before = path.window();
    path.loss_every = 30;
    path.rounds(30, BASE);
    assert!(path.window() >= before, "{before} to {}", path.window());
}

#[test]
fn on_a_path_with_losses_of_its_own_one_with_a_queue_is_chance() {
    let mut path = Path::cruising();
    path.loss_every = 100;
    path.rounds(5, BASE);
    // The next one is in the second look that shows a small queue.
    let before = path.window();
    path.loss_every = path.sk.delivered + path.sk.packets_out + before * 3 / 8;
    path.rounds(2, BASE + 900);
    assert_eq!(path.sk.delivered / path.loss_every, 1);
    assert!(
        path.window() > before * 3 / 4,
        "{before} to {}",
        path.window()
    );
}

#[test]
fn losses_at_once_count_as_one() {
    // In a queue: 1 * 50 is not more than 3 * 101, but 10 * 50 would be.
    let mut path = Path::taken_over(1000, BASE, BASE);
    path.late_ack(100, 10, BASE + 10_000);
    assert_eq!(path.window(), 1000);
    // Without one: of the two that follow with a queue, one counts, and 1 * 100 is more than 3 * 2 * 5, but not
    // than 3 * 11 * 5.
    let mut path = Path::taken_over(1000, BASE, BASE);
    path.late_ack(50, 10, BASE);
    path.late_ack(2, 1, BASE + 10_000);
    assert_eq!(path.window(), 1000);
    path.late_ack(2, 1, BASE + 10_000);
    assert_eq!(path.window(), 438, "half of what is believed free, 7/8");
}

#[test]
fn a_loss_without_a_queue_is_remembered_when_counts_are_halved() {
    let mut path = Path::taken_over(1000, BASE, BASE);
    path.late_ack(50, 1, BASE);
    // The first are behind a queue; the latest largest one is forgotten by a quarter with each ACK.
    for number in 0..38 {
        path.late_ack(1000, 0, BASE + 10_000 * u32::from(number < 3));
    }
    // Half of a loss and more in 11,000 packets without a queue, one in 3,000 with one.
    path.late_ack(2, 1, BASE + 10_000);
    assert_eq!(path.window(), 1000);
}

#[test]
fn losses_that_come_with_a_queue_are_answered() {
    // The queue is no more than the cut of a queue would answer with 1/32 less.
    let mut path = Path::cruising();
    let before = path.window();
    path.rounds(5, BASE);
    path.loss_every = 10;
    path.rounds(4, BASE + 600);
    assert!(
        path.window() < before * 2 / 3,
        "{before} to {}",
        path.window()
    );
}

#[test]
fn losses_of_a_buffer_that_holds_less_than_is_tolerated_are_answered() {
    // 4 ms are tolerated here. Losses come with 2 ms, nothing else does.
    let mut path = Path::cruising_with("delay", 4000);
    let before = path.window();
    path.rounds(5, BASE);
    for _ in 0..20 {
        path.late_ack(2, 1, BASE + 2000);
        path.late_ack(50, 0, BASE);
    }
    assert!(
        path.window() < before * 2 / 3,
        "{before} to {}",
        path.window()
    );
}

#[test]
fn a_loss_when_a_full_buffer_has_just_emptied_came_with_a_queue() {
    for overtaken in [0, 1] {
        let mut path = Path::cruising();
        path.rounds(5, BASE);
        let before = path.window();
        // What is overtaken is taken for lost, whatever the queue.
        path.sk.reord_seen = overtaken;
        for _ in 0..20 {
            path.late_ack(2, 0, BASE + 2000);
            path.late_ack(2, 1, BASE);
            for _ in 0..25 {
                path.late_ack(2, 0, BASE);
            }
        }
        let window = path.window();
        assert_eq!(
            window < before * 2 / 3,
            overtaken == 0,
            "{before} to {window}"
        );
    }
}

#[test]
fn a_delay_from_time_stamps_is_not_the_base() {
    // The kernel has no other where a retransmission is acknowledged together with what was sent after it.
    let mut path = Path::cruising();
    let before = path.window();
    for _ in 0..8 {
        path.at(path.us + 2000);
        path.sk.delivered += 2;
        let rate = RateSample {
            prior_delivered: path.sk.delivered - 2,
            rtt_us: (BASE - 900).into(),
            acked_sacked: 2,
            prior_in_flight: 50,
            ..RateSample::default()
        };
        path.control
            .cong_control(&mut path.sk, 0, ACK_OF_RETRANSMISSION, &rate);
    }
    path.rounds(5, BASE);
    assert!(path.window() >= before, "{before} to {}", path.window());
}

#[test]
fn what_is_not_used_does_not_grow() {
    let mut path = Path::cruising();
    path.sk.max_packets_out = path.window() / 4;
    let before = path.window();
    path.rounds(20, BASE);
    assert_eq!(path.window(), before);
}

#[test]
fn a_queue_on_the_way_back_is_not_answered() {
    let mut path = Path::cruising();
    let before = path.window();
    path.back_us = 8000;
    path.rounds(10, BASE + 8000);
    assert!(path.window() >= before, "{before} to {}", path.window());
}

#[test]
fn a_route_with_more_delay_is_found_out_by_trains() {
    // After a second without an empty look, three trains whose last packets take no longer. The link carries the same
    // rate as before, which is a window half as large again, and the ramp ends 1/16 below.
    let mut path = Path::cruising();
    let before = path.window();
    path.rounds(30, BASE + 10_000);
    path.rounds_until(150, BASE + 10_000, |path| path.window() >= before * 4 / 3);
}

#[test]
fn on_a_route_with_less_delay_its_rate_is_the_same() {
    let mut path = Path::cruising();
    let before = path.window();
    path.rounds(2, BASE - 6000);
    near(path.window(), before * 14 / 20, 4);
}

#[test]
fn what_is_delayed_by_its_own_density_alone_is_jitter() {
    // Up to 1.5 ms, the more the larger the window: after cuts that always leave the same it is borne.
    let mut path = Path::cruising();
    let before = path.window();
    let mut windows = Vec::new();
    for _ in 0..400 {
        path.round(BASE + 1500 * path.window().min(before) / before);
        windows.push(path.window());
    }
    // It cuts and grows in turns, above what it began with at the peaks.
    let reached = *windows[380..].iter().max().unwrap();
    let least = *windows[340..].iter().min().unwrap();
    assert!(reached >= before, "{before} to {reached}");
    assert!(least >= before / 10 * 8, "{before} down to {least}");
}

#[test]
fn delays_that_go_back_and_forth_are_noise() {
    // As large as a queue that is answered, but never for longer than a look.
    let mut path = Path::cruising();
    let before = path.window();
    for look in 0..400 {
        path.part(BASE / 4, BASE + 900 * (look % 2));
    }
    let after = path.window();
    assert!(after >= before, "{before} to {after}");
    path.rounds_until(3, BASE + 8000, |path| path.window() < after);
}

#[test]
fn an_empty_path_ends_the_yield_whatever_a_train_has_said() {
    // The first train is due a second after the yield began.
    for rounds in 50..80 {
        let mut path = Path::cruising();
        let before = path.window();
        path.rounds(rounds, BASE + 10_000);
        path.rounds_until(300, BASE, |path| path.window() >= before * 9 / 20);
    }
}

#[test]
fn a_timeout_halves_the_window() {
    let mut path = Path::cruising();
    let before = path.window();
    path.control.cwnd_event(&mut path.sk, ca_event::LOSS);
    let pair = path.in_flight.pop_front().unwrap();
    path.ack(2, pair);
    near(path.window(), before / 2, 1);
}

#[test]
fn it_takes_over_what_the_path_carries_of_what_is_in_flight() {
    // 200 packets in flight and 30 ms for what takes 20 without a queue: 133 packets are the link's.
    let path = Path::taken_over(200, 30_000, BASE);
    near(path.window(), 133, 1);
    // 17/16 of 133 packets of 1448 bytes in 20 ms.
    let rate = path.sk.sk_pacing_rate as f64;
    assert!(
        (rate / (17.0 / 16.0 * 133.0 * 1448.0 / 0.02) - 1.0).abs() < 0.01,
        "{rate}"
    );
}

#[test]
fn it_leaves_its_window_and_no_pacing_to_the_next() {
    let mut path = Path::cruising();
    let window = path.window();
    path.control.release(&mut path.sk);
    near(path.window(), window, 1);
    assert_eq!(path.sk.sk_pacing_rate, u64::MAX);
    // Yielding, it leaves two packets, and slow start to half of what was free: 5/6, of which 7/8 are
    // believed twice.
    let mut path = Path::cruising();
    let window = f64::from(path.window());
    path.rounds(40, BASE + 4000);
    path.control.release(&mut path.sk);
    assert_eq!(path.window(), 2);
    let half = window * 5.0 / 6.0 * (7.0 / 8.0) * (7.0 / 8.0) / 2.0;
    near(path.sk.snd_ssthresh, half as u32, 4);
}

/// A connection that another one between the same hosts is known to.
fn joined(hosts: &Rc<Hosts>, us: u64) -> TcpSock {
    let control = find("fairwind").unwrap();
    let mut sk = TcpSock {
        cc_shared: SharedState::between(hosts),
        is_cwnd_limited: 1,
        delivered: 1,
        srtt_us: 8 * BASE,
        tcp_mstamp: us,
        ..TcpSock::default()
    };
    control.init(&mut sk, &control.default_parameters());
    sk
}

/// A path whose connection shares what it knows with others between these hosts.
fn cruising_between(hosts: &Rc<Hosts>) -> Path {
    Path::between(hosts).cruise()
}

#[test]
fn a_connection_that_joins_waits_for_the_lead() {
    let hosts = Rc::default();
    let path = cruising_between(&hosts);
    let other = joined(&hosts, path.us);
    // A sixteenth of the window is for those that do not lead.
    near(other.snd_cwnd, path.window() / 16, 1);
}

#[test]
fn the_next_connection_has_the_window_of_the_last() {
    let hosts = Rc::default();
    let mut path = cruising_between(&hosts);
    let window = path.window();
    path.control.release(&mut path.sk);
    // Also when the time for which connections are counted has gone by without one.
    assert_eq!(joined(&hosts, path.us + 5_000_000).snd_cwnd, window);
    // What nobody has used for some seconds is forgotten.
    assert_eq!(joined(&hosts, path.us + 20_000_000).snd_cwnd, 10);
}

#[test]
fn the_next_connection_knows_a_queue_that_it_has_never_seen_empty() {
    let hosts = Rc::default();
    let path = cruising_between(&hosts);
    let window = path.window();
    let mut next = path.next(&hosts);
    next.rounds(10, BASE + 4000);
    assert!(next.window() < window / 4, "{window} to {}", next.window());
}

#[test]
fn other_hosts_and_other_parameters_share_nothing() {
    let hosts = Rc::default();
    let path = cruising_between(&hosts);
    assert_eq!(joined(&Rc::default(), path.us).snd_cwnd, 10);
    let control = find("fairwind").unwrap();
    let mut sk = TcpSock {
        cc_shared: SharedState::between(&hosts),
        tcp_mstamp: path.us,
        ..TcpSock::default()
    };
    let mut gentler = control.default_parameters();
    gentler.set("belief", 256).unwrap();
    control.init(&mut sk, &gentler);
    assert_eq!(sk.snd_cwnd, 10);
}

#[test]
fn the_one_that_leads_gives_a_part_to_the_others_and_gets_it_back() {
    let hosts = Rc::default();
    let mut path = cruising_between(&hosts);
    let alone = path.window();
    let mut other = joined(&hosts, path.us);
    path.round(BASE);
    near(path.window(), alone * 15 / 16, 4);
    path.control.release(&mut other);
    path.rounds(2, BASE);
    assert!(path.window() >= alone, "{alone} to {}", path.window());
}
