//! ImTCP, worked by hand from section 3.1 of the thesis, over a path that is a queue of fluid: a
//! stream's delay rises while its rate is above the available bandwidth.

use std::collections::VecDeque;

use fairwind_cc::native::{AckSample, Control, PACING_NEEDED, Parameters, TcpSock, ca_state, find};

pub(crate) const MSS: u32 = 1448;
/// kbit/s of payload that a packet in a millisecond is.
const PACKET_A_MS: f64 = 11_584.0;

/// A connection with data to send over a path with a queue that never overflows. Every packet is
/// acknowledged by itself.
pub(crate) struct Path {
    control: &'static Control,
    pub(crate) sk: TcpSock,
    /// Payload that the path carries, kbit/s.
    capacity: f64,
    /// Payload of others, kbit/s.
    others: f64,
    base_us: f64,
    /// When the queue will be empty if nothing else arrives, us.
    empty_us: f64,
    now_us: f64,
    next_send_us: f64,
    /// Packets in flight: when sent, when acknowledged.
    flight: VecDeque<(f64, f64)>,
    /// The rate of each packet sent, kbit/s; infinite: none.
    pub(crate) rates: Vec<f64>,
}

impl Path {
    pub(crate) fn new(parameters: &Parameters, capacity: f64, others: f64, base_ms: f64) -> Path {
        let control = parameters.control();
        let mut path = Path {
            control,
            sk: TcpSock {
                mss_cache: MSS,
                snd_wnd: 1 << 30,
                is_cwnd_limited: 1,
                ..TcpSock::default()
            },
            capacity,
            others,
            base_us: base_ms * 1000.0,
            empty_us: 0.0,
            now_us: 1e6,
            next_send_us: 0.0,
            flight: VecDeque::new(),
            rates: Vec::new(),
        };
        path.tell_time();
        control.init(&mut path.sk, parameters);
        path
    }

    fn tell_time(&mut self) {
        self.sk.tcp_mstamp = self.now_us as u64;
        self.sk.now_ns = (self.now_us * 1000.0) as u64;
        self.sk.jiffies = (self.now_us / 1000.0) as u32;
    }

    /// The fields of `struct imtcp` by their place, in words of 32 bits.
    pub(crate) fn word(&self, place: usize) -> u32 {
        (self.sk.icsk_ca_priv[place / 2] >> (32 * (place % 2))) as u32
    }

    pub(crate) fn range(&self) -> (u32, u32) {
        (self.word(3), self.word(4))
    }

    pub(crate) fn available(&self) -> u32 {
        self.word(5)
    }

    /// Sends what windows and pacing allow until `end_us`.
    fn send_until(&mut self, end_us: f64) {
        loop {
            let at = self.now_us.max(self.next_send_us);
            if at > end_us {
                break;
            }
            self.now_us = at;
            self.tell_time();
            self.control.min_tso_segs(&mut self.sk);
            if self.sk.packets_out >= self.sk.snd_cwnd {
                break;
            }
            let rate = match self.sk.sk_pacing_rate {
                u64::MAX => f64::INFINITY,
                rate => rate as f64 / 125.0,
            };
            self.next_send_us = at + PACKET_A_MS / rate * 1000.0;
            self.rates.push(rate);
            self.transmit();
        }
    }

    fn transmit(&mut self) {
        // Others leave the rest of the capacity while the queue is served.
        let left = self.capacity - self.others;
        let begin = self.empty_us.max(self.now_us);
        self.empty_us = begin + PACKET_A_MS / left * 1000.0;
        let queued_us = (begin - self.now_us) * left / self.capacity;
        let own_us = PACKET_A_MS / self.capacity * 1000.0;
        let acked = self.now_us + self.base_us + queued_us + own_us;
        self.flight.push_back((self.now_us, acked));
        self.sk.snd_nxt += MSS;
        self.sk.packets_out += 1;
    }

    /// Goes on to the next ACK.
    pub(crate) fn ack(&mut self) {
        if self.flight.is_empty() {
            self.send_until(self.next_send_us.max(self.now_us));
        }
        let acked = self.flight.front().expect("something is in flight").1;
        self.send_until(acked);
        let (sent, acked) = self.flight.pop_front().expect("it is still there");
        self.now_us = acked;
        self.tell_time();
        let rtt_us = acked as u64 - sent as u64;
        self.sk.srtt_us = match self.sk.srtt_us {
            0 => rtt_us as u32 * 8,
            srtt => srtt - srtt / 8 + rtt_us as u32,
        };
        self.sk.rtt_min_us = self.sk.rtt_min_us.min(rtt_us as u32);
        self.sk.snd_una += MSS;
        self.sk.packets_out -= 1;
        self.sk.delivered += 1;
        let sample = AckSample {
            pkts_acked: 1,
            rtt_us: rtt_us as i32,
            in_flight: 0,
        };
        self.control.pkts_acked(&mut self.sk, &sample);
        self.control.cong_avoid(&mut self.sk, 0, 1);
        // What TCP does after each ACK.
        self.sk.sk_pacing_rate = u64::MAX;
        self.send_until(self.now_us);
    }

    /// Goes on until `done`, at most 100,000 ACKs.
    pub(crate) fn ack_until(&mut self, done: impl Fn(&Path) -> bool) {
        for _ in 0..100_000 {
            if done(self) {
                return;
            }
            self.ack();
        }
        panic!("not after 100,000 ACKs");
    }

    pub(crate) fn lose(&mut self) {
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.sk.snd_ssthresh = self.control.ssthresh(&mut self.sk);
        self.control.set_state(&mut self.sk, ca_state::RECOVERY);
    }

    pub(crate) fn undo(&mut self) {
        self.sk.snd_cwnd = self.control.undo_cwnd(&mut self.sk);
    }
}

/// In congestion avoidance with a window of 40 packets, over 10 packets in a millisecond of which
/// others use `others` and with a round-trip time of 20 ms.
fn path(others: f64) -> Path {
    let parameters = find("imtcp").unwrap().default_parameters();
    let mut path = Path::new(&parameters, 10.0 * PACKET_A_MS, others * PACKET_A_MS, 20.0);
    path.sk.snd_cwnd = 40;
    path.sk.snd_ssthresh = 20;
    path
}

#[test]
fn packets_are_paced() {
    assert_eq!(path(0.0).sk.sk_pacing_status, PACING_NEEDED);
}

#[test]
fn an_rtt_after_the_first_ack_the_window_shrinks_by_a_stream_and_comes_back_when_it_is_stored() {
    let mut path = path(0.0);
    path.ack_until(|path| path.sk.snd_cwnd < 40);
    // An RTT has added a packet to the 40. A stream has ten.
    assert_eq!(path.sk.snd_cwnd, 31);
    while path.sk.packets_out > 32 {
        path.ack();
        assert_eq!(path.sk.snd_cwnd, 31);
    }
    path.ack();
    assert_eq!((path.sk.snd_cwnd, path.sk.packets_out), (41, 41));
}

#[test]
fn the_burst_at_first_gives_the_middle_of_the_range() {
    // Its ten packets leave at once and arrive as fast as the path lets them pass, ten in a
    // millisecond: 115,840 kbit/s, and half of that to either side.
    let mut path = path(0.0);
    path.ack_until(|path| path.range() != (0, 0));
    let (low, high) = path.range();
    assert!(low.abs_diff(57_920) < 600, "{low}");
    assert!(high.abs_diff(173_760) < 1800, "{high}");
}

#[test]
fn the_rates_of_the_streams_rise_over_the_range() {
    let mut path = path(0.0);
    path.ack_until(|path| path.range() != (0, 0));
    // At a window of 40, bursts of six packets are the largest of which 5 make a stream; that is
    // the rate of 6 packets of 1/1024 s: 71,171 kbit/s. So the range is from its half.
    let before = path.rates.len();
    let paced = |path: &Path| -> Vec<f64> {
        let sent = &path.rates[before..];
        sent.iter()
            .copied()
            .filter(|rate| rate.is_finite())
            .collect()
    };
    // Four streams of half the window, which is 42 by now.
    path.ack_until(|path| paced(path).len() >= 84);
    let paced = &paced(&path)[..84];
    assert!((paced[0] - 35_585.0).abs() < 10.0, "{}", paced[0]);
    assert!(paced.windows(2).all(|two| two[0] <= two[1]), "{paced:?}");
    assert!(paced.last().unwrap() < &71_171.0);
    assert!(paced.last().unwrap() > &70_000.0, "{paced:?}");
}

#[test]
fn the_result_is_what_others_leave() {
    for others in [7.0, 8.0, 9.0] {
        let mut path = path(others);
        path.ack_until(|path| path.available() != 0);
        for _ in 0..2000 {
            path.ack();
        }
        let left = (10.0 - others) * PACKET_A_MS;
        let result = f64::from(path.available());
        assert!((result / left - 1.0).abs() < 0.1, "{result} of {left}");
    }
}

#[test]
fn the_next_range_is_around_the_result_and_at_least_a_fifth_of_it() {
    let mut path = path(8.0);
    path.ack_until(|path| path.available() != 0);
    for _ in 0..2000 {
        path.ack();
    }
    let result = path.available();
    let (low, high) = path.range();
    assert!(low <= result - result / 10 && result + result / 10 <= high);
    assert!(high - low < result);
}

#[test]
fn a_change_is_found_within_some_measurements() {
    let mut path = path(8.0);
    path.ack_until(|path| path.available() != 0);
    for _ in 0..2000 {
        path.ack();
    }
    path.others = 6.5 * PACKET_A_MS;
    for _ in 0..3000 {
        path.ack();
    }
    let result = f64::from(path.available()) / PACKET_A_MS;
    assert!(
        (result - 3.5).abs() < 0.25,
        "{result} packets in a millisecond"
    );
}

#[test]
fn a_window_of_less_than_two_streams_does_not_measure() {
    let mut path = path(0.0);
    path.sk.snd_cwnd = 15;
    path.sk.snd_cwnd_clamp = 19;
    for _ in 0..1000 {
        path.ack();
        assert!(path.sk.snd_cwnd >= 15);
    }
    assert_eq!(path.range(), (0, 0));
}

#[test]
fn a_loss_while_packets_are_stored_halves_the_whole_window() {
    let mut path = path(0.0);
    path.ack_until(|path| path.sk.snd_cwnd < 40);
    path.lose();
    assert_eq!((path.sk.snd_cwnd, path.sk.snd_ssthresh), (41, 20));
    path.sk.snd_cwnd = 20;
    path.undo();
    assert_eq!(path.sk.snd_cwnd, 41);
}

#[test]
fn growth_is_renos() {
    let mut path = path(0.0);
    for _ in 0..2000 {
        path.ack();
    }
    // One packet for each window acknowledged: 40 + 41 + … + 73 are 1921 packets, with 74 1995.
    let window = path.sk.snd_cwnd.max(path.word(0));
    assert!((73..=75).contains(&window), "{window}");
}
