//! The schemas of the fields that can be written in several forms.

use std::borrow::Cow;

use fairwind_path::delay::Jitter;
use fairwind_path::loss::LossConfig;
use fairwind_path::schema::{Probability, Unlimited};
use fairwind_path::units::{Bandwidth, Duration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::trace::TraceTable;

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
