//! The instruments of a flow from a kernel's sample, as traces compute them.

use fairwind_instruments::{INSTRUMENTS, Instruments};
use fairwind_trace::event::Sample;
use fairwind_trace::instrument::{Instrument, Moment, find};

/// The traces' instruments that a flow has.
#[derive(Debug)]
pub(crate) struct Traced {
    hz: u32,
    /// In the order of [`INSTRUMENTS`]; `None` for what only the peer knows.
    instruments: [Option<&'static Instrument>; INSTRUMENTS.len()],
}

impl Traced {
    /// Looks them up by name.
    pub(crate) fn new() -> Traced {
        let mut instruments = [None; INSTRUMENTS.len()];
        for (traced, instrument) in instruments.iter_mut().zip(INSTRUMENTS) {
            *traced = find(instrument.name);
        }
        Traced {
            hz: fairwind_kernel::hz(),
            instruments,
        }
    }

    /// The instruments at that moment. The caller fills in what only the peer knows.
    pub(crate) fn instruments(&self, sample: &Sample, opened_ns: u64) -> Instruments {
        let moment = Moment {
            sample,
            hz: self.hz,
            opened_ns: Some(opened_ns),
        };
        let values = self.instruments.map(|traced| traced?.value(&moment));
        Instruments {
            hc_thru_octets_acked: payload_acknowledged(sample),
            ..Instruments::from_values(values)
        }
    }
}

/// The kernel counts the acknowledgements of SYN and FIN as a byte each, but does not count either
/// as sent.
fn payload_acknowledged(sample: &Sample) -> u64 {
    let sent = sample.bytes_sent.saturating_sub(sample.bytes_retrans);
    sample.bytes_acked.min(sent)
}

/// Payload that this end has received in order. The kernel counts the peer's FIN as a byte.
pub(crate) fn payload_received(sample: &Sample) -> u64 {
    const CLOSE_WAIT: u8 = 8;
    const LAST_ACK: u8 = 9;
    let fin = matches!(sample.state, CLOSE_WAIT | LAST_ACK);
    sample.bytes_received.saturating_sub(u64::from(fin))
}

#[cfg(test)]
mod tests {
    use fairwind_instruments::CongestionState;

    use super::*;

    #[test]
    fn traces_have_all_but_what_the_peer_knows() {
        let traced = Traced::new().instruments;
        let all = INSTRUMENTS.iter().zip(traced);
        let missing: Vec<&str> = all
            .filter(|(_, traced)| traced.is_none())
            .map(|(instrument, _)| instrument.name)
            .collect();
        assert_eq!(missing, ["BytesReceived"]);
    }

    #[test]
    fn a_sample_of_the_kernel_becomes_bytes_and_microseconds() {
        let sample = Sample {
            snd_cwnd: 10,
            snd_ssthresh: 0x7fff_ffff,
            mss_cache: 1448,
            srtt_us: 160_000,
            min_rtt_us: 20_000,
            ca_state: 3,
            bytes_acked: 14_481,
            bytes_sent: 14_480,
            ..Sample::default()
        };
        let flow = Traced::new().instruments(&sample, 0);
        assert_eq!(flow.cur_cwnd, 14_480);
        assert_eq!(flow.cur_ssthresh, None);
        assert_eq!(flow.smoothed_rtt_us, Some(20_000));
        assert_eq!(flow.min_rtt_us, Some(20_000));
        assert_eq!(flow.congestion_state, CongestionState::Recovery);
        // The SYN is not payload.
        assert_eq!(flow.hc_thru_octets_acked, 14_480);
    }

    #[test]
    fn a_fin_is_no_payload() {
        let received = |state| {
            payload_received(&Sample {
                state,
                bytes_received: 1001,
                ..Sample::default()
            })
        };
        assert_eq!((received(1), received(8)), (1001, 1000));
    }
}
