//! The columns of the series, with their units. Those of the flows are the [`INSTRUMENTS`].

use fairwind_instruments::INSTRUMENTS;
use fairwind_trace::file::layout;
use parquet::errors::ParquetError;
use parquet::schema::types::TypePtr;

use crate::record::{FlowSample, LinkSample};

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

/// The integer columns of `flows.parquet`, in their order: the connection's number, and the
/// instruments.
pub const FLOW_COLUMNS: [Column; 1 + INSTRUMENTS.len()] = {
    let mut columns = [always("connection", ""); 1 + INSTRUMENTS.len()];
    let mut at = 0;
    while at < INSTRUMENTS.len() {
        columns[1 + at] = Column {
            name: INSTRUMENTS[at].name,
            unit: INSTRUMENTS[at].unit,
            optional: INSTRUMENTS[at].optional,
        };
        at += 1;
    }
    columns
};

/// The integer columns of `links.parquet`, in their order.
pub const LINK_COLUMNS: [Column; 4] = [
    always("queue_packets", "packets"),
    always("queue_bytes", "bytes"),
    always("drops", "packets"),
    always("bytes", "bytes"),
];

/// The values of a sample in the order of [`FLOW_COLUMNS`].
pub fn flow_row(sample: &FlowSample) -> [Option<i64>; FLOW_COLUMNS.len()] {
    let mut row = [Some(i64::from(sample.connection)); FLOW_COLUMNS.len()];
    row[1..].copy_from_slice(&sample.instruments.to_values());
    row
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

/// The Parquet schema of a series: the time, the name column, then `columns`.
pub(super) fn schema(name_column: &str, columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let mut fields = vec![layout::text(name_column, false)?];
    for column in columns {
        fields.push(layout::integer(column.name, column.optional)?);
    }
    layout::schema(fields)
}
