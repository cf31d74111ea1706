//! A connection whose every event is scripted by a test.

use fairwind_cc::native::{AckSample, Control, Parameters, TcpSock, ca_event, ca_state, find};

/// A connection with a congestion control.
pub(crate) struct Connection {
    pub control: &'static Control,
    pub sk: TcpSock,
}

#[allow(dead_code, reason = "each test file uses its own share")]
impl Connection {
    /// Limited by its window, at 1000 jiffies per second, 1000 s after the clock started.
    pub(crate) fn new(control: &str) -> Connection {
        let control = find(control).unwrap();
        Connection::with(&control.default_parameters())
    }

    pub(crate) fn with(parameters: &Parameters) -> Connection {
        let control = parameters.control();
        let mut connection = Connection {
            control,
            sk: TcpSock {
                is_cwnd_limited: 1,
                ..TcpSock::default()
            },
        };
        connection.at(0);
        control.init(&mut connection.sk, parameters);
        connection
    }

    /// Sets the clock, in microseconds since the connection began.
    pub(crate) fn at(&mut self, us: u64) {
        let us = us + 1_000_000_000;
        self.sk.tcp_mstamp = us;
        self.sk.now_ns = us * 1000;
        self.sk.jiffies = (us * u64::from(self.sk.hz) / 1_000_000) as u32;
    }

    /// Sets the congestion window and ssthresh.
    pub(crate) fn window(&mut self, cwnd: u32, ssthresh: u32) {
        self.sk.snd_cwnd = cwnd;
        self.sk.snd_ssthresh = ssthresh;
    }

    /// An ACK of `packets`, without a round-trip time.
    pub(crate) fn ack(&mut self, packets: u32) {
        self.ack_with_rtt(packets, -1);
    }

    /// An ACK of `packets`, with a round-trip time in microseconds.
    pub(crate) fn ack_with_rtt(&mut self, packets: u32, rtt_us: i32) {
        let sample = AckSample {
            pkts_acked: packets,
            rtt_us,
            in_flight: 0,
        };
        self.sk.snd_una = self.sk.snd_una.wrapping_add(packets * 1448);
        self.control.pkts_acked(&mut self.sk, &sample);
        self.control.cong_avoid(&mut self.sk, 0, packets);
    }

    /// Enters fast recovery as TCP does.
    pub(crate) fn enter_recovery(&mut self) {
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.sk.snd_ssthresh = self.control.ssthresh(&mut self.sk);
        self.set_state(ca_state::RECOVERY);
    }

    /// Ends fast recovery at ssthresh.
    pub(crate) fn end_recovery(&mut self) {
        self.sk.snd_cwnd = self.sk.snd_ssthresh;
        self.control
            .cwnd_event(&mut self.sk, ca_event::COMPLETE_CWR);
        self.set_state(ca_state::OPEN);
    }

    /// A retransmission timeout as TCP handles it.
    pub(crate) fn time_out(&mut self) {
        if self.sk.icsk_ca_state < ca_state::CWR {
            self.sk.prior_cwnd = self.sk.snd_cwnd;
            self.sk.snd_ssthresh = self.control.ssthresh(&mut self.sk);
            self.control.cwnd_event(&mut self.sk, ca_event::LOSS);
        }
        self.sk.snd_cwnd = 1;
        self.sk.snd_cwnd_cnt = 0;
        self.set_state(ca_state::LOSS);
    }

    pub(crate) fn set_state(&mut self, state: u8) {
        self.control.set_state(&mut self.sk, state);
        self.sk.icsk_ca_state = state;
    }

    pub(crate) fn undo(&mut self) {
        self.sk.snd_cwnd = self.control.undo_cwnd(&mut self.sk);
    }
}
