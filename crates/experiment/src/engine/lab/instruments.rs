//! Converts a kernel's sample to the instruments of a flow, as traces compute them.

use fairwind_trace::event::Sample;
use fairwind_trace::instrument::{self, Instrument, Moment};

use crate::record::{CongestionState, FlowSample};

/// The traces' instruments that make up a [`FlowSample`].
#[derive(Debug)]
pub struct Instruments {
    hz: u32,
    cwnd: &'static Instrument,
    ssthresh: &'static Instrument,
    smoothed_rtt: &'static Instrument,
    rto: &'static Instrument,
    sample_rtt: &'static Instrument,
    min_rtt: &'static Instrument,
    rtt_var: &'static Instrument,
    pipe_size: &'static Instrument,
    rwin_rcvd: &'static Instrument,
    retransmits: &'static Instrument,
    timeouts: &'static Instrument,
    signals: &'static Instrument,
    limited_by_receiver: &'static Instrument,
    limited_by_cwnd: &'static Instrument,
    limited_by_sender: &'static Instrument,
    pacing_rate: &'static Instrument,
    delivery_rate: &'static Instrument,
}

impl Instruments {
    /// Looks them up by name.
    pub fn new() -> Instruments {
        let find = |name| instrument::find(name).expect("traces have what results have");
        Instruments {
            hz: fairwind_kernel::hz(),
            cwnd: find("CurCwnd"),
            ssthresh: find("CurSsthresh"),
            smoothed_rtt: find("SmoothedRTT"),
            rto: find("CurRTO"),
            sample_rtt: find("SampleRTT"),
            min_rtt: find("MinRTT"),
            rtt_var: find("RTTVar"),
            pipe_size: find("PipeSize"),
            rwin_rcvd: find("CurRwinRcvd"),
            retransmits: find("SegsRetrans"),
            timeouts: find("Timeouts"),
            signals: find("CongSignals"),
            limited_by_receiver: find("SndLimTimeRwin"),
            limited_by_cwnd: find("SndLimTimeCwnd"),
            limited_by_sender: find("SndLimTimeSnd"),
            pacing_rate: find("PacingRate"),
            delivery_rate: find("DeliveryRate"),
        }
    }

    /// The instruments at that moment. The caller fills in time, connection and what only the peer
    /// knows.
    pub fn flow_sample(&self, sample: &Sample, opened_ns: u64) -> FlowSample {
        let moment = Moment {
            sample,
            hz: self.hz,
            opened_ns: Some(opened_ns),
        };
        let value = |instrument: &Instrument| {
            let value = instrument.value(&moment)?;
            Some(u64::try_from(value).unwrap_or(0))
        };
        let number = |instrument| value(instrument).unwrap_or(0);
        let us = |instrument| value(instrument).map(|us| u32::try_from(us).unwrap_or(u32::MAX));
        FlowSample {
            time_ns: 0,
            connection: 0,
            cur_cwnd: number(self.cwnd),
            cur_ssthresh: value(self.ssthresh),
            smoothed_rtt_us: us(self.smoothed_rtt),
            cur_rto_us: us(self.rto).unwrap_or(0),
            sample_rtt_us: us(self.sample_rtt),
            min_rtt_us: us(self.min_rtt),
            rtt_var_us: us(self.rtt_var).unwrap_or(0),
            pipe_size: number(self.pipe_size),
            cur_rwin_rcvd: number(self.rwin_rcvd),
            hc_thru_octets_acked: payload_acknowledged(sample),
            segs_retrans: number(self.retransmits),
            timeouts: number(self.timeouts),
            cong_signals: number(self.signals),
            cur_receive_buffer: 0,
            snd_lim_time_rwin_us: number(self.limited_by_receiver),
            snd_lim_time_cwnd_us: number(self.limited_by_cwnd),
            snd_lim_time_snd_us: number(self.limited_by_sender),
            pacing_rate: value(self.pacing_rate),
            delivery_rate: number(self.delivery_rate),
            congestion_state: congestion_state(sample.ca_state),
            bytes_received: 0,
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
pub fn payload_received(sample: &Sample) -> u64 {
    const CLOSE_WAIT: u8 = 8;
    const LAST_ACK: u8 = 9;
    let fin = matches!(sample.state, CLOSE_WAIT | LAST_ACK);
    sample.bytes_received.saturating_sub(u64::from(fin))
}

fn congestion_state(state: u8) -> CongestionState {
    match state {
        1 => CongestionState::Disorder,
        2 => CongestionState::Cwr,
        3 => CongestionState::Recovery,
        4 => CongestionState::Loss,
        _ => CongestionState::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let flow = Instruments::new().flow_sample(&sample, 0);
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
