//! The instruments of a TCP connection that simulator and kernel both have, which the series of
//! results hold: RFC 4898's variables, and some that the RFC lacks.
//!
//! One table defines them. [`INSTRUMENTS`] describes them, and [`Instruments`] are their values at
//! one moment. The columns of the series, their units and the tables of the reference pages follow;
//! only how a value comes about is elsewhere: `fairwind-sim` has it for the simulator,
//! `fairwind-trace` for the kernel. Traces hold more, which only the kernel has.
//!
//! Names are those of RFC 4898 without the prefix `tcpEStats` and the group; instruments that the
//! RFC lacks have names of our own. Times are in microseconds, as the kernel counts them; the RFC's
//! are in milliseconds.

#[cfg(feature = "parquet")]
pub mod layout;

mod congestion_state;
mod value;

pub use congestion_state::CongestionState;
use value::Value;

/// What an instrument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instrument {
    /// Name of the column.
    pub name: &'static str,
    /// Unit: `bytes`, `us`, `packets`, …; empty for plain numbers.
    pub unit: &'static str,
    /// The object of RFC 4898, if it has one.
    pub rfc4898: Option<&'static str>,
    /// Its meaning, and what a missing value means.
    pub meaning: &'static str,
    /// Whether it may be missing in the series of results.
    pub optional: bool,
}

macro_rules! instruments {
    ($($field:ident: $type:ty, $name:literal, $unit:literal, $rfc4898:expr, $meaning:literal;)+) => {
        /// What the instruments are, in the order of the columns.
        pub const INSTRUMENTS: &[Instrument] = &[$(
            Instrument {
                name: $name,
                unit: $unit,
                rfc4898: $rfc4898,
                meaning: $meaning,
                optional: <$type as Value>::OPTIONAL,
            }
        ),+];

        /// The values of the [`INSTRUMENTS`] at one moment, under their names in snake case.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct Instruments {
            $(
                #[doc = concat!("`", $name, "`: ", $meaning, ".")]
                pub $field: $type,
            )+
        }

        impl Instruments {
            /// The values in the order of the columns.
            pub fn to_values(self) -> [Option<i64>; INSTRUMENTS.len()] {
                [$(self.$field.to_column()),+]
            }

            /// The same from the columns. A value that may not be missing is 0 if it is.
            pub fn from_values(values: [Option<i64>; INSTRUMENTS.len()]) -> Instruments {
                let [$($field),+] = values;
                Instruments {
                    $($field: Value::from_column($field),)+
                }
            }
        }
    };
}

instruments! {
    cur_cwnd: u64, "CurCwnd", "bytes", Some("tcpEStatsPerfCurCwnd"),
        "congestion window";
    cur_ssthresh: Option<u64>, "CurSsthresh", "bytes", Some("tcpEStatsPerfCurSsthresh"),
        "slow-start threshold; missing before the first reduction";
    smoothed_rtt_us: Option<u32>, "SmoothedRTT", "us", Some("tcpEStatsPerfSmoothedRTT"),
        "smoothed round-trip time; missing before the first measurement";
    cur_rto_us: u32, "CurRTO", "us", Some("tcpEStatsPerfCurRTO"),
        "retransmission timeout";
    sample_rtt_us: Option<u32>, "SampleRTT", "us", Some("tcpEStatsPathSampleRTT"),
        "latest round-trip time; missing before the first";
    min_rtt_us: Option<u32>, "MinRTT", "us", Some("tcpEStatsPathMinRTT"),
        "smallest round-trip time; missing before the first";
    rtt_var_us: u32, "RTTVar", "us", Some("tcpEStatsPathRTTVar"),
        "deviation of the round-trip time that enters the timeout";
    pipe_size: u64, "PipeSize", "bytes", Some("tcpEStatsPerfPipeSize"),
        "data in flight";
    cur_rwin_rcvd: u64, "CurRwinRcvd", "bytes", Some("tcpEStatsPerfCurRwinRcvd"),
        "window that the other end advertised";
    hc_thru_octets_acked: u64, "HCThruOctetsAcked", "bytes", Some("tcpEStatsAppHCThruOctetsAcked"),
        "payload acknowledged";
    segs_retrans: u64, "SegsRetrans", "segments", Some("tcpEStatsPerfSegsRetrans"),
        "segments retransmitted";
    timeouts: u64, "Timeouts", "", Some("tcpEStatsPerfTimeouts"),
        "retransmission timeouts";
    cong_signals: u64, "CongSignals", "", Some("tcpEStatsPerfCongSignals"),
        "reductions of the window by loss, timeout or ECN";
    cur_receive_buffer: u64, "CurReceiveBuffer", "bytes", None,
        "receive buffer, as `SO_RCVBUF` gives it";
    snd_lim_time_rwin_us: u64, "SndLimTimeRwin", "us", Some("tcpEStatsPerfSndLimTimeRwin"),
        "time limited by the receiver's window";
    snd_lim_time_cwnd_us: u64, "SndLimTimeCwnd", "us", Some("tcpEStatsPerfSndLimTimeCwnd"),
        "time limited by the congestion window";
    snd_lim_time_snd_us: u64, "SndLimTimeSnd", "us", Some("tcpEStatsPerfSndLimTimeSnd"),
        "time limited by the sending application or its buffer";
    pacing_rate: Option<u64>, "PacingRate", "bytes/s", None,
        "rate at which packets are spread; missing without pacing";
    delivery_rate: u64, "DeliveryRate", "bytes/s", None,
        "latest rate of delivery, as `tcpi_delivery_rate`; 0: not known";
    congestion_state: CongestionState, "CongestionState", "", None,
        "as `tcpi_ca_state`: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss";
    ecn_signals: u64, "ECNsignals", "packets", Some("tcpEStatsPathECNsignals"),
        "delivered with congestion reported by ECN";
    bytes_received: u64, "BytesReceived", "bytes", None,
        "payload delivered in order to the receiving application";
}

/// What the instrument with this name is.
///
/// # Panics
/// If there is none; in a constant, this ends the build.
pub const fn instrument(name: &str) -> Instrument {
    let mut at = 0;
    while at < INSTRUMENTS.len() {
        if is_same(INSTRUMENTS[at].name, name) {
            return INSTRUMENTS[at];
        }
        at += 1;
    }
    panic!("there is no instrument of this name")
}

/// `==`, which constants do not have for strings.
const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instrument_is_found_by_its_whole_name() {
        assert_eq!(instrument("CurRTO").unit, "us");
        assert_eq!(instrument("Timeouts").unit, "");
        assert!(std::panic::catch_unwind(|| instrument("CurRTO2")).is_err());
    }

    #[test]
    fn what_may_be_missing_follows_from_the_type() {
        assert!(instrument("CurSsthresh").optional);
        assert!(!instrument("Timeouts").optional);
    }

    #[test]
    fn values_are_in_the_order_of_the_columns_and_come_back() {
        let instruments = Instruments {
            cur_cwnd: 14_480,
            smoothed_rtt_us: Some(20_000),
            congestion_state: CongestionState::Recovery,
            bytes_received: 7,
            ..Instruments::default()
        };
        let values = instruments.to_values();
        assert_eq!(values[..4], [Some(14_480), None, Some(20_000), Some(0)]);
        assert_eq!(values[19..], [Some(3), Some(0), Some(7)]);
        assert_eq!(Instruments::from_values(values), instruments);
    }

    #[test]
    fn values_that_do_not_fit_are_the_nearest_that_do() {
        let most = Instruments {
            pacing_rate: Some(u64::MAX),
            ..Instruments::default()
        };
        assert_eq!(most.to_values()[17], Some(i64::MAX));
        let mut values = [Some(-1); INSTRUMENTS.len()];
        values[3] = Some(i64::MAX);
        let read = Instruments::from_values(values);
        assert_eq!((read.cur_cwnd, read.cur_rto_us), (0, u32::MAX));
        assert_eq!(read.congestion_state, CongestionState::Open);
    }
}
