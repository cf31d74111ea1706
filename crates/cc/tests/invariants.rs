//! Invariants of every congestion control, whatever happens to the connection.

use fairwind_cc::native::{
    AckSample, Control, Parameters, RateSample, TcpSock, all, ca_event, ca_state,
};
use fairwind_testing::fuzz::cases;
use proptest::prelude::*;

/// An event of a connection.
#[derive(Clone, Debug)]
enum Operation {
    /// An ACK of new packets, `after_us` after the previous event.
    Ack {
        packets: u32,
        losses: u16,
        rtt_us: i32,
        after_us: u32,
        limited: bool,
    },
    /// Selective acknowledgements, but no loss yet.
    Disorder,
    /// A packet arrived with a CE mark, or without.
    Ecn { marked: bool },
    /// Fast recovery begins.
    Loss,
    /// Fast recovery or CWR ends.
    Recovered,
    /// ECN or a full local queue.
    Cwr,
    /// A retransmission timeout.
    Timeout,
    /// The latest reduction was spurious.
    Undo,
    /// Nothing was sent for `us`.
    Idle { us: u32 },
    /// The upper limit of the window changes, as by the route.
    Clamp { packets: u32 },
    /// The window jumps, as after a change of congestion control.
    Window { packets: u32 },
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let microseconds = prop_oneof![0..3000u32, 0..2_000_000_000u32];
    let operation = prop_oneof![
        20 => (
            prop_oneof![0..4u32, 0..100_000u32],
            prop_oneof![9 => Just(0), 1 => any::<u16>()],
            prop_oneof![-1..200_000i32, -1..i32::MAX],
            microseconds.clone(),
            any::<bool>(),
        )
            .prop_map(|(packets, losses, rtt_us, after_us, limited)| Operation::Ack {
                packets,
                losses,
                rtt_us,
                after_us,
                limited,
            }),
        1 => Just(Operation::Disorder),
        1 => any::<bool>().prop_map(|marked| Operation::Ecn { marked }),
        2 => Just(Operation::Loss),
        2 => Just(Operation::Recovered),
        1 => Just(Operation::Cwr),
        1 => Just(Operation::Timeout),
        1 => Just(Operation::Undo),
        1 => microseconds.prop_map(|us| Operation::Idle { us }),
        1 => (2..=u32::MAX).prop_map(|packets| Operation::Clamp { packets }),
        1 => (1..1_000_000u32).prop_map(|packets| Operation::Window { packets }),
    ];
    prop::collection::vec(operation, 1..200)
}

/// Where in the range of its values each parameter is.
fn places() -> impl Strategy<Value = [f64; 8]> {
    prop::array::uniform8(prop_oneof![Just(0.0), Just(1.0), 0.0..1.0_f64])
}

fn parameters(control: &'static Control, places: &[f64; 8]) -> Parameters {
    let mut parameters = control.default_parameters();
    for (parameter, place) in control.parameters().iter().zip(places) {
        let (min, max) = (f64::from(parameter.min()), f64::from(parameter.max()));
        let value = (min + place * (max - min)).round() as i64;
        parameters.set(parameter.name(), value).unwrap();
    }
    parameters
}

/// A connection as TCP drives it.
struct Connection {
    control: &'static Control,
    sk: TcpSock,
    us: u64,
    /// What its clock counts in, microseconds.
    tick_us: u64,
}

impl Connection {
    fn open(
        control: &'static Control,
        parameters: &Parameters,
        sk: TcpSock,
        us: u64,
        tick_us: u64,
    ) -> Connection {
        let mut connection = Connection {
            control,
            sk,
            us,
            tick_us,
        };
        connection.pass(0);
        control.assign(&mut connection.sk, parameters);
        connection.answer_syn(parameters);
        control.initialize(&mut connection.sk);
        connection
    }

    /// The SYN's acknowledgement comes before the hook `init`.
    fn answer_syn(&mut self, parameters: &Parameters) {
        let sample = AckSample {
            pkts_acked: 1,
            rtt_us: 20_000,
            in_flight: 0,
        };
        self.sk.delivered = 1;
        self.control.pkts_acked(&mut self.sk, &sample);
        let rate = RateSample {
            prior_mstamp: self.us,
            delivered: 1,
            interval_us: 20_000,
            rtt_us: 20_000,
            acked_sacked: 1,
            prior_in_flight: 1,
            ..RateSample::default()
        };
        self.control.cong_control(&mut self.sk, 0, 0, &rate);
        assert_eq!(&self.sk.parameters, parameters.values());
        self.sk.snd_cwnd = 10;
    }

    fn after(
        control: &'static Control,
        parameters: &Parameters,
        operations: &[Operation],
    ) -> TcpSock {
        let mut connection =
            Connection::open(control, parameters, TcpSock::default(), 1_000_000, 1);
        for operation in operations {
            connection.apply(operation);
        }
        connection.sk
    }

    fn pass(&mut self, us: u32) {
        self.us += u64::from(us);
        let now_us = self.us / self.tick_us * self.tick_us;
        self.sk.tcp_mstamp = now_us;
        self.sk.now_ns = now_us * 1000;
        self.sk.jiffies = (now_us * u64::from(self.sk.hz) / 1_000_000) as u32;
    }

    fn begin_reduction(&mut self, state: u8) {
        if self.sk.icsk_ca_state < ca_state::CWR {
            self.sk.prior_cwnd = self.sk.snd_cwnd;
            self.sk.snd_ssthresh = self.control.ssthresh(&mut self.sk);
        }
        self.set_state(state);
    }

    fn set_state(&mut self, state: u8) {
        self.control.set_state(&mut self.sk, state);
        self.sk.icsk_ca_state = state;
    }

    fn ack(&mut self, packets: u32, losses: u16, rtt_us: i32) {
        // A coarse clock has next to no short times.
        let rtt_us = match rtt_us {
            1.. => (rtt_us / self.tick_us as i32 * self.tick_us as i32).max(1),
            none => none,
        };
        let sample = AckSample {
            pkts_acked: packets,
            rtt_us,
            in_flight: self.sk.snd_cwnd,
        };
        let prior_delivered = self.sk.delivered.saturating_sub(self.sk.snd_cwnd);
        self.sk.delivered = self.sk.delivered.wrapping_add(packets);
        self.sk.lost = self.sk.lost.wrapping_add(losses.into());
        self.sk.rcv_tsval = (self.us / 1000) as u32;
        if rtt_us > 0 {
            self.sk.srtt_us = (rtt_us as u32).saturating_mul(8);
            self.sk.rtt_min_us = self.sk.rtt_min_us.min(rtt_us as u32);
        }
        self.sk.snd_una = self.sk.snd_una.wrapping_add(packets.wrapping_mul(1448));
        self.sk.snd_nxt = self
            .sk
            .snd_una
            .wrapping_add(self.sk.snd_cwnd.wrapping_mul(1448));
        self.control.pkts_acked(&mut self.sk, &sample);
        if self.control.has_cong_control() {
            let rate = RateSample {
                prior_mstamp: self.us.saturating_sub(rtt_us.max(0) as u64),
                prior_delivered,
                delivered: self.sk.delivered.wrapping_sub(prior_delivered) as i32,
                interval_us: i64::from(rtt_us),
                losses: losses.into(),
                acked_sacked: packets,
                prior_in_flight: self.sk.snd_cwnd.min(100_000),
                rtt_us: i64::from(rtt_us),
                ..RateSample::default()
            };
            self.control.cong_control(&mut self.sk, 0, 0, &rate);
        } else if packets > 0 && self.sk.icsk_ca_state != ca_state::RECOVERY {
            self.control.cong_avoid(&mut self.sk, 0, packets);
        }
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Ack {
                packets,
                losses,
                rtt_us,
                after_us,
                limited,
            } => {
                self.pass(after_us);
                self.sk.is_cwnd_limited = limited.into();
                self.ack(packets, losses, rtt_us);
            }
            Operation::Disorder if self.sk.icsk_ca_state == ca_state::OPEN => {
                self.set_state(ca_state::DISORDER);
            }
            Operation::Disorder => {}
            Operation::Ecn { marked } => {
                let event = match marked {
                    true => ca_event::ECN_IS_CE,
                    false => ca_event::ECN_NO_CE,
                };
                self.control.cwnd_event(&mut self.sk, event);
            }
            Operation::Loss => self.begin_reduction(ca_state::RECOVERY),
            Operation::Cwr if self.sk.icsk_ca_state < ca_state::CWR => {
                self.begin_reduction(ca_state::CWR);
            }
            Operation::Cwr => {}
            Operation::Recovered => {
                if !self.control.has_cong_control() && self.sk.icsk_ca_state >= ca_state::CWR {
                    self.sk.snd_cwnd = self.sk.snd_ssthresh.min(self.sk.snd_cwnd);
                    self.control
                        .cwnd_event(&mut self.sk, ca_event::COMPLETE_CWR);
                }
                self.set_state(ca_state::OPEN);
            }
            Operation::Timeout => {
                if self.sk.icsk_ca_state < ca_state::CWR {
                    self.sk.prior_cwnd = self.sk.snd_cwnd;
                    self.sk.snd_ssthresh = self.control.ssthresh(&mut self.sk);
                    self.control.cwnd_event(&mut self.sk, ca_event::LOSS);
                }
                self.sk.snd_cwnd = 1;
                self.sk.snd_cwnd_cnt = 0;
                self.set_state(ca_state::LOSS);
            }
            Operation::Undo => {
                self.sk.snd_cwnd = self.control.undo_cwnd(&mut self.sk);
                self.set_state(ca_state::OPEN);
            }
            Operation::Idle { us } => {
                self.sk.lsndtime = self.sk.jiffies;
                self.pass(us);
                self.control
                    .cwnd_event(&mut self.sk, ca_event::CWND_RESTART);
                self.control.cwnd_event(&mut self.sk, ca_event::TX_START);
            }
            Operation::Clamp { packets } => self.sk.snd_cwnd_clamp = packets,
            Operation::Window { packets } => self.sk.snd_cwnd = packets,
        }
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn window_and_threshold_stay_in_bounds(
        operations in operations(),
        hz in prop::sample::select(vec![100u32, 250, 300, 1000]),
        start_us in 0..u64::MAX >> 20,
        tick_us in prop::sample::select(vec![1u64, 1000, 4000, 10_000]),
    ) {
        for control in all() {
            let sk = TcpSock { hz, ..TcpSock::default() };
            let mut connection =
                Connection::open(control, &control.default_parameters(), sk, start_us, tick_us);
            for (index, operation) in operations.iter().enumerate() {
                connection.apply(operation);
                let sk = &connection.sk;
                let name = control.name();
                prop_assert!(sk.snd_cwnd >= 1, "{name}: cwnd 0 after operation {index}");
                prop_assert!(sk.snd_ssthresh >= 2, "{name}: ssthresh after operation {index}");
                if let Operation::Ack { packets: 1.., limited: true, .. } = operation {
                    let grown = sk.snd_cwnd <= sk.snd_cwnd_clamp;
                    prop_assert!(
                        grown || sk.icsk_ca_state == ca_state::RECOVERY,
                        "{name}: above the clamp after operation {index}"
                    );
                }
            }
            control.release(&mut connection.sk);
            prop_assert!(connection.sk.snd_cwnd >= 1);
        }
    }

    #[test]
    fn no_parameters_close_the_window(operations in operations(), places in places()) {
        for control in all() {
            let name = control.name();
            let parameters = parameters(control, &places);
            let mut connection =
                Connection::open(control, &parameters, TcpSock::default(), 1_000_000, 1);
            for (index, operation) in operations.iter().enumerate() {
                connection.apply(operation);
                let sk = &mut connection.sk;
                prop_assert!(sk.snd_cwnd >= 1, "{name}: cwnd 0 after operation {index}");
                prop_assert!(sk.snd_ssthresh >= 1, "{name}: ssthresh 0 after operation {index}");
                prop_assert!(control.min_tso_segs(sk) >= 1, "{name}");
            }
        }
    }

    #[test]
    fn what_happens_is_all_that_decides(operations in operations(), places in places()) {
        for control in all() {
            let parameters = parameters(control, &places);
            let once = Connection::after(control, &parameters, &operations);
            let again = Connection::after(control, &parameters, &operations);
            prop_assert_eq!(once, again, "{}", control.name());
        }
    }

    #[test]
    fn an_ack_in_congestion_avoidance_never_shrinks_the_window(
        cwnd in 2..1_000_000u32,
        packets in 1..1000u32,
        rtt_us in 1..10_000_000i32,
    ) {
        for control in all().iter().filter(|control| !control.has_cong_control()) {
            let mut sk = TcpSock { is_cwnd_limited: 1, ..TcpSock::default() };
            control.init(&mut sk, &control.default_parameters());
            sk.snd_cwnd = cwnd;
            sk.snd_ssthresh = 2;
            let mut connection = Connection { control, sk, us: 1_000_000, tick_us: 1 };
            connection.pass(10_000);
            connection.ack(packets, 0, rtt_us);
            prop_assert!(connection.sk.snd_cwnd >= cwnd, "{}", control.name());
        }
    }

    #[test]
    fn a_loss_never_raises_the_window(cwnd in 2..10_000_000u32) {
        for control in all().iter().filter(|control| !control.has_cong_control()) {
            let mut sk = TcpSock::default();
            control.init(&mut sk, &control.default_parameters());
            sk.snd_cwnd = cwnd;
            let ssthresh = control.ssthresh(&mut sk);
            prop_assert!(ssthresh <= cwnd, "{}: {cwnd} to {ssthresh}", control.name());
            prop_assert!(ssthresh >= 2);
        }
    }
}
