//! The JSON Schema of the experiment file, generated from the doc comments of the model, so that editors show
//! what this crate reads.

use std::borrow::Cow;

use fairwind_path::aggregation::AggregationConfig;
use fairwind_path::delay::Jitter;
use fairwind_path::loss::LossConfig;
use fairwind_path::policer::PolicerConfig;
use fairwind_path::schema::{Nothing, Probability, Unlimited};
use fairwind_path::units::{Bandwidth, Duration};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::ExperimentFile;
use super::trace::TraceTable;

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

/// The schema of a field that can be written in several forms.
macro_rules! forms {
    ($name:ident, $description:literal, $($form:ty),+) => {
        #[doc = $description]
        pub(crate) struct $name;
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "description": $description,
                    "anyOf": [$(generator.subschema_for::<$form>()),+],
                })
            }
        }
    };
}

forms!(
    RateValue,
    "A bandwidth, `unlimited`, or a recorded trace.",
    Bandwidth,
    Unlimited,
    TraceTable
);
forms!(
    DelayValue,
    "A time, or a recorded trace.",
    Duration,
    TraceTable
);
forms!(
    LossValue,
    "A probability of independent losses, a model, or a recorded trace.",
    Probability,
    LossConfig,
    TraceTable
);
forms!(
    PolicerValue,
    "A policer, or `none`.",
    PolicerConfig,
    Nothing
);
forms!(
    AggregationValue,
    "An aggregation, or `none`.",
    AggregationConfig,
    Nothing
);
forms!(
    JitterValue,
    "A time (uniform jitter of this amount), or the whole model.",
    Duration,
    Jitter
);
forms!(
    ParameterValue,
    "A congestion control's parameter: a number in the parameter's own unit, a time, or a switch.",
    f64,
    bool,
    String
);
