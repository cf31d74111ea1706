//! The JSON Schema of the experiment file, generated from the doc comments of the model, so that editors show
//! what this crate reads.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::ExperimentFile;

/// The schema as it ships in `docs/reference/experiment.schema.json`.
pub fn json() -> String {
    let settings = SchemaSettings::draft07().with_transform(RecursiveTransform(without_null));
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<ExperimentFile>();
    schema.insert("title".into(), "fairwind experiment".into());
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    text.push('\n');
    text
}

/// An optional field is not nullable: TOML has no null.
fn without_null(schema: &mut Schema) {
    let is_null = |value: &serde_json::Value| value["type"] == "null" || value == "null";
    if let Some(serde_json::Value::Array(types)) = schema.get_mut("type") {
        types.retain(|value| !is_null(value));
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(serde_json::Value::Array(alternatives)) = schema.get_mut("anyOf") {
        alternatives.retain(|value| !is_null(value));
        if let [only] = alternatives.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            // Draft 7 ignores what is beside a `$ref`.
            schema.insert("allOf".into(), serde_json::Value::Array(vec![only]));
        }
    }
}

/// A string with a pattern, for the fields whose type in memory is a quantity.
macro_rules! text_schema {
    ($name:ident, $pattern:literal, $description:literal, $($example:literal),+) => {
        #[doc = $description]
        pub(crate) struct $name;
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
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
    DurationText,
    "^[0-9.]+ ?(ns|us|µs|ms|s|min|h)$",
    "A length of time: a number and ns, us, ms, s, min or h.",
    "10ms",
    "300s"
);
text_schema!(
    BandwidthText,
    "^[0-9.]+ ?([kMGT]?bit/s|[kMG]?B/s)$",
    "A bandwidth: a number and bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, B/s, kB/s, MB/s or GB/s.",
    "50Mbit/s",
    "384kbit/s"
);
text_schema!(
    BytesText,
    "^[0-9.]+ ?([kMGT]?B|[KMG]iB)$",
    "A size: a number and B, kB, MB, GB, TB, KiB, MiB or GiB.",
    "500MB",
    "64KiB"
);
text_schema!(
    QueueText,
    "^([0-9.]+ ?(pkt|[kMGT]?B|[KMG]iB)|unlimited)$",
    "The length of a queue: packets, bytes, or `unlimited`.",
    "50pkt",
    "75kB"
);
text_schema!(PercentText, "^[0-9.]+ ?%$", "A percentage.", "0.5%");
text_schema!(UnlimitedText, "^unlimited$", "No limit.", "unlimited");

/// A probability from 0 to 1, or a percentage.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "stands for its schema")]
pub(crate) enum Probability {
    Share(#[schemars(range(min = 0.0, max = 1.0))] f64),
    Percent(PercentText),
}

/// A bandwidth, `unlimited`, or a recorded trace.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "stands for its schema")]
pub(crate) enum RateValue {
    Constant(BandwidthText),
    Unlimited(UnlimitedText),
    Trace(TraceTable),
}

/// A time, or a recorded trace.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "stands for its schema")]
pub(crate) enum DelayValue {
    Constant(DurationText),
    Trace(TraceTable),
}

/// A probability of independent losses, a model, or a recorded trace.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "stands for its schema")]
pub(crate) enum LossValue {
    Bernoulli(Probability),
    Model(super::link::LossModel),
    Trace(TraceTable),
}

/// A time (uniform jitter of this amount), or the whole model.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "stands for its schema")]
pub(crate) enum JitterValue {
    Amount(DurationText),
    Model(super::link::Jitter),
}

/// Which bytes a bandwidth counts.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[expect(dead_code, reason = "stands for its schema")]
pub(crate) enum AccountingWord {
    /// IP bytes, header included.
    Ip,
    /// Ethernet frames: 18 bytes more.
    Ethernet,
    /// Ethernet frames with preamble and gap: 38 bytes more.
    EthernetWire,
}

/// Which packet goes next.
#[derive(JsonSchema)]
#[schemars(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[expect(dead_code, reason = "stands for its schema")]
pub(crate) enum SchedulerTable {
    /// First in, first out.
    Fifo,
    /// Strict priority.
    Priority {
        /// Flows or hosts, the most important first; all others come last.
        order: Vec<String>,
    },
    /// WF2Q+: shares by weight.
    #[schemars(rename = "wf2q+")]
    Wf2q {
        /// Flows or hosts and their weights, 1 to 1000000; all others share one class of weight 1.
        weights: BTreeMap<String, u32>,
    },
}

/// A value that follows a recording.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "stands for its schema")]
pub(crate) struct TraceTable {
    /// The recording, relative to the experiment file; a name that ends in `.gz` is unpacked. A CSV
    /// file of times and values or, for a bandwidth, mahimahi's packet opportunities.
    trace: String,
    /// Start again at the end; otherwise the last value stays. Packet opportunities always repeat.
    #[schemars(extend("default" = false))]
    repeat: Option<bool>,
}

/// A congestion control's parameter: a number in the parameter's own unit, a time, or a switch.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "stands for its schema")]
pub(crate) enum ParameterValue {
    Number(f64),
    Switch(bool),
    Quantity(String),
}
