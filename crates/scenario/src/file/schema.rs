//! The JSON Schema of the experiment file, generated from the doc comments of the model, so that editors show
//! what this crate reads.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;

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
