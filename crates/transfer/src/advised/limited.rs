//! What limited the rate of a transfer, according to its sender's kernel.

use fairwind_advice_client::Limited;

/// A transfer that reaches this part of its pacing would have gone faster without it.
const NEAR: f64 = 0.8;

/// What is known about a transfer at its sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Time in which data was in flight or waiting to be, microseconds (`tcpi_busy_time`).
    pub busy_us: u64,
    /// The part of it in which the receiver's window was full (`tcpi_rwnd_limited`).
    pub receiver_us: u64,
    /// The part of it in which the send buffer was too small (`tcpi_sndbuf_limited`).
    pub buffer_us: u64,
    /// Whether the application had no more to send at the end.
    pub application: bool,
    /// The pacing that was set, bytes a second.
    pub pacing: Option<u64>,
    /// Payload that arrived, bytes.
    pub bytes: u64,
    /// How long the transfer took.
    pub seconds: f64,
}

impl Sent {
    /// Before 4.10 the kernel does not count these times: then all of it is the sender's.
    pub(super) fn limited(&self) -> Limited {
        let seconds = |microseconds: u64| microseconds as f64 * 1e-6;
        let of_others = self.receiver_us.saturating_add(self.buffer_us);
        let network_s = seconds(self.busy_us.saturating_sub(of_others)).min(self.seconds);
        let receiver_s = seconds(self.receiver_us).min(self.seconds);
        let rate = self.bytes as f64 / self.seconds;
        let kept_back = self
            .pacing
            .is_some_and(|pacing| rate > NEAR * pacing as f64);
        // While data was always in flight, but never as much as the window allowed, the kernel charges
        // neither receiver nor buffer.
        let network_s = if self.application || kept_back {
            0.0
        } else {
            network_s
        };
        Limited {
            network_s,
            receiver_s,
            sender_s: (self.seconds - network_s - receiver_s).max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 MB in 10 s, busy throughout, the receiver's window full for 1 s, the buffer for 0.5 s.
    const SENT: Sent = Sent {
        busy_us: 10_000_000,
        receiver_us: 1_000_000,
        buffer_us: 500_000,
        application: false,
        pacing: None,
        bytes: 100_000_000,
        seconds: 10.0,
    };

    fn times(sent: Sent) -> [f64; 3] {
        let limited = sent.limited();
        [limited.network_s, limited.receiver_s, limited.sender_s]
    }

    #[test]
    fn what_neither_receiver_nor_sender_limited_the_network_did() {
        assert_eq!(times(SENT), [8.5, 1.0, 0.5]);
        let idle = Sent {
            busy_us: 4_000_000,
            ..SENT
        };
        assert_eq!(times(idle), [2.5, 1.0, 6.5]);
    }

    #[test]
    fn an_application_that_trickles_limits_itself() {
        let trickle = Sent {
            application: true,
            ..SENT
        };
        assert_eq!(times(trickle), [0.0, 1.0, 9.0]);
    }

    #[test]
    fn a_rate_that_was_kept_is_no_limit_of_the_network() {
        let paced = |pacing| Sent {
            pacing: Some(pacing),
            ..SENT
        };
        assert_eq!(times(paced(11_000_000)), [0.0, 1.0, 9.0]);
        assert_eq!(times(paced(20_000_000)), [8.5, 1.0, 0.5]);
    }

    #[test]
    fn a_transfer_that_took_no_time_that_was_counted_waited_for_its_sender() {
        let idle = Sent {
            busy_us: 0,
            receiver_us: 0,
            buffer_us: 0,
            ..SENT
        };
        assert_eq!(times(idle), [0.0, 0.0, 10.0]);
    }
}
