//! The columns of the series, with their units.
//!
//! Flow instruments have their names in RFC 4898 (without the `tcpEStats` prefix and group), where
//! it defines them. Times are in microseconds, as the kernel counts them; the RFC's own objects are
//! in milliseconds.

use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};

use crate::record::{FlowSample, LinkSample};

/// First column of every series: seconds since the start of the run.
pub const TIME: &str = "time_s";
/// Second column of `flows.parquet`: the flow's name.
pub const FLOW: &str = "flow";
/// Second column of `links.parquet`: the link's name.
pub const LINK: &str = "link";

/// A column of 64-bit integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name in the file.
    pub name: &'static str,
    /// Unit: `bytes`, `us`, `packets`, …; empty for plain numbers.
    pub unit: &'static str,
    /// Whether a row may lack a value.
    pub optional: bool,
}

const fn always(name: &'static str, unit: &'static str) -> Column {
    Column {
        name,
        unit,
        optional: false,
    }
}

const fn sometimes(name: &'static str, unit: &'static str) -> Column {
    Column {
        name,
        unit,
        optional: true,
    }
}

/// The integer columns of `flows.parquet`, in their order.
pub const FLOW_COLUMNS: [Column; 22] = [
    always("connection", ""),
    always("CurCwnd", "bytes"),
    sometimes("CurSsthresh", "bytes"),
    sometimes("SmoothedRTT", "us"),
    always("CurRTO", "us"),
    sometimes("SampleRTT", "us"),
    sometimes("MinRTT", "us"),
    always("RTTVar", "us"),
    always("PipeSize", "bytes"),
    always("CurRwinRcvd", "bytes"),
    always("HCThruOctetsAcked", "bytes"),
    always("SegsRetrans", "segments"),
    always("Timeouts", ""),
    always("CongSignals", ""),
    always("CurReceiveBuffer", "bytes"),
    always("SndLimTimeRwin", "us"),
    always("SndLimTimeCwnd", "us"),
    always("SndLimTimeSnd", "us"),
    sometimes("PacingRate", "bytes/s"),
    always("DeliveryRate", "bytes/s"),
    always("CongestionState", ""),
    always("BytesReceived", "bytes"),
];

/// The integer columns of `links.parquet`, in their order.
pub const LINK_COLUMNS: [Column; 4] = [
    always("queue_packets", "packets"),
    always("queue_bytes", "bytes"),
    always("drops", "packets"),
    always("bytes", "bytes"),
];

/// The values of a sample in the order of [`FLOW_COLUMNS`].
pub fn flow_row(sample: &FlowSample) -> [Option<i64>; FLOW_COLUMNS.len()] {
    [
        Some(i64::from(sample.connection)),
        Some(integer(sample.cur_cwnd)),
        sample.cur_ssthresh.map(integer),
        sample.smoothed_rtt_us.map(i64::from),
        Some(i64::from(sample.cur_rto_us)),
        sample.sample_rtt_us.map(i64::from),
        sample.min_rtt_us.map(i64::from),
        Some(i64::from(sample.rtt_var_us)),
        Some(integer(sample.pipe_size)),
        Some(integer(sample.cur_rwin_rcvd)),
        Some(integer(sample.hc_thru_octets_acked)),
        Some(integer(sample.segs_retrans)),
        Some(integer(sample.timeouts)),
        Some(integer(sample.cong_signals)),
        Some(integer(sample.cur_receive_buffer)),
        Some(integer(sample.snd_lim_time_rwin_us)),
        Some(integer(sample.snd_lim_time_cwnd_us)),
        Some(integer(sample.snd_lim_time_snd_us)),
        sample.pacing_rate.map(integer),
        Some(integer(sample.delivery_rate)),
        Some(sample.congestion_state as i64),
        Some(integer(sample.bytes_received)),
    ]
}

/// The values of a sample in the order of [`LINK_COLUMNS`].
pub fn link_row(sample: &LinkSample) -> [Option<i64>; LINK_COLUMNS.len()] {
    [
        Some(integer(sample.queue_packets)),
        Some(integer(sample.queue_bytes)),
        Some(integer(sample.drops)),
        Some(integer(sample.bytes)),
    ]
}

fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The Parquet schema of a series: [`TIME`], the name column, then `columns`.
pub(super) fn schema(name_column: &str, columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let time = Type::primitive_type_builder(TIME, PhysicalType::DOUBLE)
        .with_repetition(Repetition::REQUIRED)
        .build()?;
    let name = Type::primitive_type_builder(name_column, PhysicalType::BYTE_ARRAY)
        .with_repetition(Repetition::REQUIRED)
        .with_converted_type(ConvertedType::UTF8)
        .with_logical_type(Some(LogicalType::String))
        .build()?;
    let mut fields = vec![Arc::new(time), Arc::new(name)];
    for column in columns {
        let repetition = if column.optional {
            Repetition::OPTIONAL
        } else {
            Repetition::REQUIRED
        };
        let field = Type::primitive_type_builder(column.name, PhysicalType::INT64)
            .with_repetition(repetition)
            .build()?;
        fields.push(Arc::new(field));
    }
    let schema = Type::group_type_builder("schema")
        .with_fields(fields)
        .build()?;
    Ok(Arc::new(schema))
}
