//! How files write quantities, as JSON Schemas for editors. The other types of a configuration derive theirs.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::queue::Capacity;
use crate::units::{Bandwidth, Bytes, Duration};

/// The schema of a type that is written as a text with a pattern.
macro_rules! text_schema {
    ($type:ty, $name:literal, $pattern:literal, $description:literal, $($example:literal),+) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "pattern": $pattern,
                    "description": $description,
                    "examples": [$($example),+],
                })
            }
        }
    };
}

text_schema!(
    Duration,
    "DurationText",
    "^[0-9.]+ ?(ns|us|µs|ms|s|min|h)$",
    "A length of time: a number and ns, us, ms, s, min or h.",
    "10ms",
    "300s"
);
text_schema!(
    Bandwidth,
    "BandwidthText",
    "^[0-9.]+ ?([kMGT]?bit/s|[kMG]?B/s)$",
    "A bandwidth: a number and bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, B/s, kB/s, MB/s or GB/s.",
    "50Mbit/s",
    "384kbit/s"
);
text_schema!(
    Bytes,
    "BytesText",
    "^[0-9.]+ ?([kMGT]?B|[KMG]iB)$",
    "A size: a number and B, kB, MB, GB, TB, KiB, MiB or GiB.",
    "500MB",
    "64KiB"
);
text_schema!(
    Capacity,
    "QueueText",
    "^([0-9.]+ ?(pkt|[kMGT]?B|[KMG]iB)|unlimited)$",
    "The length of a queue: packets, bytes, or `unlimited`.",
    "50pkt",
    "75kB"
);

/// A bandwidth without limit.
#[derive(Clone, Copy, Debug)]
pub struct Unlimited;

text_schema!(
    Unlimited,
    "UnlimitedText",
    "^unlimited$",
    "No limit.",
    "unlimited"
);

/// The word that switches something off.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

text_schema!(Nothing, "NoneText", "^none$", "None.", "none");

/// A probability as a percentage.
struct Percent;

text_schema!(
    Percent,
    "PercentText",
    "^[0-9.]+ ?%$",
    "A percentage.",
    "0.5%"
);

/// A probability, which the configuration holds as a number.
#[derive(Clone, Copy, Debug)]
pub struct Probability;

impl JsonSchema for Probability {
    fn schema_name() -> Cow<'static, str> {
        "Probability".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A probability from 0 to 1, or a percentage.",
            "anyOf": [
                { "type": "number", "format": "double", "minimum": 0.0, "maximum": 1.0 },
                generator.subschema_for::<Percent>(),
            ],
        })
    }
}
