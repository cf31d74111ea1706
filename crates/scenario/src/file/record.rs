//! Which time series a run writes.

use fairwind_path::units::Duration;
use schemars::JsonSchema;

use super::decode::{Fields, Findings, boolean, positive_duration};
use super::value::Node;

/// Which time series are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Record {
    /// Whether time series are written.
    #[schemars(with = "Option<bool>", extend("default" = Record::default().series))]
    pub series: bool,
    /// Time between two samples of each flow and link, above 0.
    #[schemars(with = "Option<Duration>", extend("default" = Record::default().interval.to_string()))]
    pub interval: Duration,
    /// Sample each flow after every acknowledgement that it processes, instead of at the interval;
    /// links are still sampled at the interval.
    #[schemars(with = "Option<bool>", extend("default" = Record::default().every_ack))]
    pub every_ack: bool,
}

impl Default for Record {
    fn default() -> Record {
        Record {
            series: true,
            interval: Duration::from_millis(100),
            every_ack: false,
        }
    }
}

impl Record {
    /// Reads a `[record]` table.
    pub(super) fn read(node: &Node, findings: &mut Findings) -> Option<Record> {
        let mut fields = Fields::of("record", node, findings, "{ interval = \"100ms\" }")?;
        let default = Record::default();
        let record = Record {
            series: fields.get_or("series", default.series, boolean),
            interval: fields.get_or("interval", default.interval, positive_duration),
            every_ack: fields.get_or("every_ack", default.every_ack, boolean),
        };
        fields.finish(record)
    }
}
