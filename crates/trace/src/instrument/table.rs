//! The table of instruments: what they are, and how they are computed from the kernel's values.

use fairwind_instruments::{Instrument as Shared, instrument};

use super::{Instrument, Moment};
use crate::event::Sample;

/// `TCP_INFINITE_SSTHRESH`.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
/// Written by the kernel's side for values that the kernel does not count.
const NOT_COUNTED: u32 = u32::MAX;

fn in_flight(sample: &Sample) -> u32 {
    sample
        .packets_out
        .wrapping_sub(sample.sacked_out)
        .wrapping_sub(sample.lost_out)
        .wrapping_add(sample.retrans_out)
}

/// Octets from one sequence number to a later one; 0 if it is not later.
fn octets(from: u32, to: u32) -> i64 {
    i64::from((to.wrapping_sub(from) as i32).max(0))
}

fn unless(missing: bool, value: i64) -> Option<i64> {
    (!missing).then_some(value)
}

fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn delivery_rate(sample: &Sample) -> i64 {
    let bytes = u64::from(sample.rate_delivered) * u64::from(sample.mss_cache);
    let rate = (bytes * 1_000_000).checked_div(u64::from(sample.rate_interval_us));
    integer(rate.unwrap_or(0))
}

fn limited_by_sender(m: &Moment<'_>) -> Option<i64> {
    let elapsed = m.sample.head.time_ns.saturating_sub(m.opened_ns?) / 1000;
    let sending = m.jiffies_us(m.sample.busy_jiffies) + m.jiffies_us(m.sample.rwnd_limited_jiffies);
    Some((integer(elapsed) - sending).max(0))
}

/// An instrument that results do not have.
const fn own(
    name: &'static str,
    unit: &'static str,
    rfc4898: Option<&'static str>,
    meaning: &'static str,
) -> Shared {
    Shared {
        name,
        unit,
        rfc4898,
        meaning,
        optional: true,
    }
}

/// An instrument without its values, which are always missing.
const fn described(what: Shared, kernel: &'static str, note: &'static str) -> Instrument {
    Instrument {
        name: what.name,
        unit: what.unit,
        rfc4898: what.rfc4898,
        meaning: what.meaning,
        note,
        kernel,
        optional: true,
        value: |_| None,
        fill: |_, _, _| {},
    }
}

/// An instrument that is never missing. One that results have too is described there; only a note
/// may add what is peculiar to the kernel's.
macro_rules! always {
    ($name:literal, $kernel:literal, $note:literal, $value:expr) => {
        always!(@ instrument($name), $kernel, $note, $value)
    };
    ($name:literal, $unit:literal, $rfc:expr, $kernel:literal, $meaning:literal, $value:expr) => {
        always!(@ own($name, $unit, $rfc, $meaning), $kernel, "", $value)
    };
    (@ $what:expr, $kernel:literal, $note:literal, $value:expr) => {
        Instrument {
            optional: false,
            value: |m| {
                let value: fn(&Moment<'_>) -> i64 = $value;
                Some(value(m))
            },
            fill: |samples, clock, values| {
                let value: fn(&Moment<'_>) -> i64 = $value;
                let values = &mut values.values;
                values.extend(samples.iter().map(|sample| value(&clock.at(sample))));
            },
            ..described($what, $kernel, $note)
        }
    };
}

/// An instrument that may be missing, in the same two ways.
macro_rules! sometimes {
    ($name:literal, $kernel:literal, $note:literal, $value:expr) => {
        sometimes!(@ instrument($name), $kernel, $note, $value)
    };
    ($name:literal, $unit:literal, $rfc:expr, $kernel:literal, $meaning:literal, $value:expr) => {
        sometimes!(@ own($name, $unit, $rfc, $meaning), $kernel, "", $value)
    };
    (@ $what:expr, $kernel:literal, $note:literal, $value:expr) => {
        Instrument {
            value: $value,
            fill: |samples, clock, values| {
                let value: fn(&Moment<'_>) -> Option<i64> = $value;
                for sample in samples {
                    values.push(value(&clock.at(sample)));
                }
            },
            ..described($what, $kernel, $note)
        }
    };
}

/// All instruments, in the order of the columns.
#[rustfmt::skip]
pub const INSTRUMENTS: [Instrument; 54] = [
    always!("CurCwnd", "snd_cwnd × mss_cache", "",
        |m| m.segments(m.sample.snd_cwnd)),
    sometimes!("CurSsthresh", "snd_ssthresh × mss_cache", "",
        |m| unless(m.sample.snd_ssthresh >= INFINITE_SSTHRESH, m.segments(m.sample.snd_ssthresh))),
    sometimes!("SmoothedRTT", "srtt_us / 8", "",
        |m| unless(m.sample.srtt_us == 0, i64::from(m.sample.srtt_us >> 3))),
    always!("CurRTO", "icsk_rto", "in whole jiffies",
        |m| m.jiffies_us(m.sample.rto_jiffies)),
    sometimes!("SampleRTT", "rack.rtt_us", "the kernel's is that of the packet most recently delivered",
        |m| unless(m.sample.sample_rtt_us == 0, i64::from(m.sample.sample_rtt_us))),
    sometimes!("MinRTT", "rtt_min", "the kernel's is that of the latest five minutes (`tcp_min_rtt_wlen`)",
        |m| unless(m.sample.min_rtt_us == u32::MAX, i64::from(m.sample.min_rtt_us))),
    always!("RTTVar", "rttvar_us / 4", "",
        |m| i64::from(m.sample.rttvar_us >> 2)),
    always!("PipeSize", "(packets_out − sacked_out − lost_out + retrans_out) × mss_cache", "",
        |m| m.segments(in_flight(m.sample))),
    always!("CurRwinRcvd", "snd_wnd", "",
        |m| i64::from(m.sample.snd_wnd)),
    always!("HCThruOctetsAcked", "bytes_acked", "the kernel counts a byte each for the SYN of the side that opened and for the FIN",
        |m| integer(m.sample.bytes_acked)),
    always!("SegsRetrans", "total_retrans", "",
        |m| i64::from(m.sample.total_retrans)),
    sometimes!("Timeouts", "total_rto", "with those of SYNs and those that follow another (the RFC counts these apart); missing before Linux 6.7",
        |m| unless(m.sample.total_rto == NOT_COUNTED, i64::from(m.sample.total_rto))),
    sometimes!("CongSignals", "none: counted at each change of icsk_ca_state", "missing for connections that were there before the trace",
        |m| m.opened_ns.map(|_| i64::from(m.sample.cong_signals))),
    always!("CurReceiveBuffer", "sk_rcvbuf", "",
        |m| i64::from(m.sample.sk_rcvbuf)),
    always!("SndLimTimeRwin", "chrono_stat (TCP_CHRONO_RWND_LIMITED)", "",
        |m| m.jiffies_us(m.sample.rwnd_limited_jiffies)),
    always!("SndLimTimeCwnd", "chrono_stat (TCP_CHRONO_BUSY)", "that is, with data under way and no other limit",
        |m| m.jiffies_us(m.sample.busy_jiffies)),
    sometimes!("SndLimTimeSnd", "the rest of the time since the first packet", "missing for connections that were there before the trace",
        limited_by_sender),
    sometimes!("PacingRate", "sk_pacing_rate", "`sk_pacing_status` is then none",
        |m| unless(m.sample.pacing_status == 0 || m.sample.pacing_rate == u64::MAX, integer(m.sample.pacing_rate))),
    always!("DeliveryRate", "rate_delivered × mss_cache / rate_interval_us", "",
        |m| delivery_rate(m.sample)),
    always!("CongestionState", "icsk_ca_state", "",
        |m| i64::from(m.sample.ca_state)),
    always!("State", "", None, "sk_state",
        "1 established, 2 SYN sent, 3 SYN received, 4 FIN wait 1, 5 FIN wait 2, 7 closed, 8 close wait, 9 last ACK, 11 closing; the kernel's numbers, not those of RFC 4022",
        |m| i64::from(m.sample.state)),
    always!("CurMSS", "bytes", Some("tcpEStatsPerfCurMSS"), "mss_cache",
        "payload of a segment at most",
        |m| i64::from(m.sample.mss_cache)),
    always!("CurRwinSent", "bytes", Some("tcpEStatsPerfCurRwinSent"), "rcv_wnd",
        "window that we advertised",
        |m| i64::from(m.sample.rcv_wnd)),
    sometimes!("RcvRTT", "us", Some("tcpEStatsPathRcvRTT"), "rcv_rtt_est.rtt_us / 8",
        "round-trip time as the receiver estimates it; missing before the first",
        |m| unless(m.sample.rcv_rtt_us == 0, i64::from(m.sample.rcv_rtt_us >> 3))),
    always!("HCThruOctetsReceived", "bytes", Some("tcpEStatsAppHCThruOctetsReceived"), "bytes_received",
        "payload received in order; the kernel counts a byte for the FIN",
        |m| integer(m.sample.bytes_received)),
    always!("HCDataOctetsOut", "bytes", Some("tcpEStatsPerfHCDataOctetsOut"), "bytes_sent",
        "payload sent, with what was retransmitted",
        |m| integer(m.sample.bytes_sent)),
    always!("OctetsRetrans", "bytes", Some("tcpEStatsPerfOctetsRetrans"), "bytes_retrans",
        "payload retransmitted",
        |m| integer(m.sample.bytes_retrans)),
    always!("SegsOut", "segments", Some("tcpEStatsPerfSegsOut"), "segs_out",
        "sent",
        |m| i64::from(m.sample.segs_out)),
    always!("DataSegsOut", "segments", Some("tcpEStatsPerfDataSegsOut"), "data_segs_out",
        "sent with payload",
        |m| i64::from(m.sample.data_segs_out)),
    always!("SegsIn", "segments", Some("tcpEStatsPerfSegsIn"), "segs_in",
        "received",
        |m| i64::from(m.sample.segs_in)),
    always!("DataSegsIn", "segments", Some("tcpEStatsPerfDataSegsIn"), "data_segs_in",
        "received with payload",
        |m| i64::from(m.sample.data_segs_in)),
    sometimes!("FastRetran", "", Some("tcpEStatsStackFastRetran"), "none: counted when icsk_ca_state becomes recovery",
        "fast recoveries begun; missing for connections that were there before the trace",
        |m| m.opened_ns.map(|_| i64::from(m.sample.fast_retran))),
    sometimes!("SubsequentTimeouts", "", Some("tcpEStatsStackSubsequentTimeouts"), "total_rto − total_rto_recoveries",
        "retransmission timeouts that followed another without an acknowledgement between; missing before Linux 6.7",
        |m| unless(m.sample.rto_recoveries == NOT_COUNTED, i64::from(m.sample.total_rto.wrapping_sub(m.sample.rto_recoveries)))),
    always!("CurTimeoutCount", "", Some("tcpEStatsStackCurTimeoutCount"), "icsk_retransmits",
        "retransmission timeouts since the latest acknowledgement of new data",
        |m| i64::from(m.sample.retransmits)),
    always!("DSACKDups", "segments", Some("tcpEStatsStackDSACKDups"), "dsack_dups",
        "duplicates that the other end reported",
        |m| i64::from(m.sample.dsack_dups)),
    always!("ECNsignals", "delivered_ce", "",
        |m| i64::from(m.sample.delivered_ce)),
    always!("RetranThresh", "segments", Some("tcpEStatsPathRetranThresh"), "reordering",
        "duplicate acknowledgements that signal a loss",
        |m| i64::from(m.sample.reordering)),
    always!("CurRetxQueue", "bytes", Some("tcpEStatsStackCurRetxQueue"), "snd_nxt − snd_una",
        "sent and not yet acknowledged",
        |m| octets(m.sample.snd_una, m.sample.snd_nxt)),
    always!("CurAppWQueue", "bytes", Some("tcpEStatsAppCurAppWQueue"), "write_seq − snd_nxt",
        "written by the application and not yet sent",
        |m| octets(m.sample.snd_nxt, m.sample.write_seq)),
    always!("CurAppRQueue", "bytes", Some("tcpEStatsAppCurAppRQueue"), "rcv_nxt − copied_seq",
        "received in order and not yet read by the application",
        |m| octets(m.sample.copied_seq, m.sample.rcv_nxt)),
    always!("SndUna", "", Some("tcpEStatsAppSndUna"), "snd_una",
        "sequence number of the oldest byte not acknowledged",
        |m| i64::from(m.sample.snd_una)),
    always!("SndNxt", "", Some("tcpEStatsAppSndNxt"), "snd_nxt",
        "sequence number of the next byte to send",
        |m| i64::from(m.sample.snd_nxt)),
    always!("RcvNxt", "", Some("tcpEStatsAppRcvNxt"), "rcv_nxt",
        "sequence number of the next byte to receive",
        |m| i64::from(m.sample.rcv_nxt)),
    always!("CurSendBuffer", "bytes", None, "sk_sndbuf",
        "send buffer, as `SO_SNDBUF` gives it",
        |m| i64::from(m.sample.sk_sndbuf)),
    always!("SendBufferUsed", "bytes", None, "sk_wmem_queued",
        "memory in the send buffer, with the kernel's own",
        |m| i64::from(m.sample.sk_wmem_queued as i32)),
    always!("ReceiveBufferUsed", "bytes", None, "sk_rmem_alloc",
        "memory in the receive buffer, with the kernel's own",
        |m| i64::from(m.sample.sk_rmem_alloc as i32)),
    always!("SndLimTimeSndBuf", "us", None, "chrono_stat (TCP_CHRONO_SNDBUF_LIMITED)",
        "the share of the send buffer in `SndLimTimeSnd`",
        |m| m.jiffies_us(m.sample.sndbuf_limited_jiffies)),
    always!("PacketsOut", "packets", None, "packets_out",
        "sent and not acknowledged",
        |m| i64::from(m.sample.packets_out)),
    always!("SackedOut", "packets", None, "sacked_out",
        "of these, delivered according to SACK or duplicate acknowledgements",
        |m| i64::from(m.sample.sacked_out)),
    always!("LostOut", "packets", None, "lost_out",
        "of these, considered lost",
        |m| i64::from(m.sample.lost_out)),
    always!("RetransOut", "packets", None, "retrans_out",
        "of these, retransmitted and not yet delivered",
        |m| i64::from(m.sample.retrans_out)),
    always!("Delivered", "packets", None, "delivered",
        "delivered in all; the SYN counts",
        |m| i64::from(m.sample.delivered)),
    always!("Lost", "packets", None, "lost",
        "ever considered lost",
        |m| i64::from(m.sample.lost)),
    always!("ReorderingSeen", "", None, "reord_seen",
        "times that packets were found to arrive in another order",
        |m| i64::from(m.sample.reord_seen)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instrument::find;

    fn value(name: &str, sample: &Sample) -> Option<i64> {
        let opened_ns = Some(1_000_000_000);
        let moment = Moment {
            sample,
            hz: 250,
            opened_ns,
        };
        find(name).unwrap().value(&moment)
    }

    #[test]
    fn a_connection_without_measurements_has_missing_values() {
        let sample = Sample {
            snd_ssthresh: 0x7fff_ffff,
            min_rtt_us: u32::MAX,
            total_rto: u32::MAX,
            rto_recoveries: u32::MAX,
            pacing_rate: u64::MAX,
            pacing_status: 1,
            ..Sample::default()
        };
        for name in [
            "CurSsthresh",
            "SmoothedRTT",
            "SampleRTT",
            "MinRTT",
            "RcvRTT",
            "PacingRate",
            "Timeouts",
            "SubsequentTimeouts",
        ] {
            assert_eq!(value(name, &sample), None, "{name}");
            assert!(find(name).unwrap().optional, "{name}");
        }
        assert_eq!(value("DeliveryRate", &sample), Some(0));
    }

    #[test]
    fn values_follow_from_the_kernels() {
        let mut sample = Sample {
            snd_cwnd: 10,
            snd_ssthresh: 7,
            mss_cache: 1448,
            packets_out: 9,
            sacked_out: 2,
            lost_out: 3,
            retrans_out: 1,
            srtt_us: 80_000,
            rttvar_us: 20_000,
            rto_jiffies: 53,
            // 20 packets in 10 ms.
            rate_delivered: 20,
            rate_interval_us: 10_000,
            snd_una: 0xffff_fff0,
            snd_nxt: 0x10,
            busy_jiffies: 100,
            rwnd_limited_jiffies: 25,
            sndbuf_limited_jiffies: 5,
            total_rto: 5,
            rto_recoveries: 2,
            ..Sample::default()
        };
        sample.head.time_ns = 3_000_000_000;
        let expected = [
            ("CurCwnd", 14_480),
            ("CurSsthresh", 10_136),
            ("PipeSize", 5 * 1448),
            ("SmoothedRTT", 10_000),
            ("RTTVar", 5_000),
            ("CurRTO", 212_000),
            ("DeliveryRate", 2_896_000),
            ("CurRetxQueue", 32),
            ("SndLimTimeCwnd", 400_000),
            ("SndLimTimeRwin", 100_000),
            // 2 s less the 500 ms above.
            ("SndLimTimeSnd", 1_500_000),
            ("SndLimTimeSndBuf", 20_000),
            ("SubsequentTimeouts", 3),
        ];
        for (name, number) in expected {
            assert_eq!(value(name, &sample), Some(number), "{name}");
        }
    }
}
