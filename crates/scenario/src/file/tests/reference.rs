//! Generates the tables of fields in `docs/reference/experiment-file.md` from the schema.

use fairwind_testing::page::{Section, cell, check_sections, properties, table};
use serde_json::Value;

use super::{fields_read, schema_of};
use crate::file::schema;

/// How a section begins that has the fields of the table that messages call as the rest says.
const FIELDS_OF: &str = "fields of ";
/// How a section begins that has the kinds of such a table.
const KINDS_OF: &str = "kinds of ";

#[test]
fn generated_sections_have_the_fields_of_every_table() {
    let schema: Value = serde_json::from_str(&schema::json()).unwrap();
    let known = check_sections("experiment-file.md", |section| {
        if let Some(what) = section.what.strip_prefix(FIELDS_OF) {
            return Some(fields(&schema, schema_of(&schema, what), section));
        }
        let what = section.what.strip_prefix(KINDS_OF)?;
        Some(kinds(&schema["definitions"][what]))
    });
    for (what, mut fields) in fields_read() {
        fields.retain(|field| field != "kind");
        // The fields of `reverse` are among those of the link.
        let needs_no_section = fields.is_empty() || what == "reverse";
        let section = format!("{FIELDS_OF}{what}");
        assert!(
            needs_no_section || known.contains(&section),
            "no section {section}"
        );
    }
}

/// The fields of a table, other than its kind.
fn fields(schema: &Value, part: &Value, section: &Section<'_>) -> String {
    let rows = properties(part, section).into_iter();
    let rows = rows.filter(|field| field.name != "kind").map(|field| {
        let property = &part["properties"][&field.name];
        let mut meaning = field.meaning;
        for (word, described) in words(schema, property) {
            meaning.push_str(&format!(". `\"{word}\"`: {described}"));
        }
        let name = format!("`{}`", field.name);
        vec![name, meaning, values(schema, property), field.default]
    });
    let header = ["field", "meaning", "unit, range", "default"];
    table(&header, &rows.collect::<Vec<_>>())
}

/// The kinds of a table, and what they are.
fn kinds(definition: &Value) -> String {
    let kinds = definition["oneOf"].as_array().expect("there are kinds");
    let rows = kinds.iter().map(|kind| {
        let name = &kind["properties"]["kind"]["const"];
        vec![format!("`{name}`"), described(kind)]
    });
    table(&["`kind`, required", "meaning"], &rows.collect::<Vec<_>>())
}

fn described(schema: &Value) -> String {
    let description = schema["description"].as_str().unwrap_or_default();
    cell(description.trim_end_matches('.'))
}

/// The name of the definition that a property refers to.
fn definition(property: &Value) -> Option<&str> {
    let whole = property["$ref"].as_str();
    let name = whole.or(property["allOf"][0]["$ref"].as_str())?;
    name.strip_prefix("#/definitions/")
}

/// The words that a property can be, with their meanings; none if its values are not words.
fn words<'a>(schema: &'a Value, property: &Value) -> Vec<(&'a str, String)> {
    let definition = definition(property).map(|name| &schema["definitions"][name]);
    let alternatives = definition.and_then(|definition| definition["oneOf"].as_array());
    let alternatives = alternatives.into_iter().flatten();
    alternatives
        .filter_map(|word| Some((word["const"].as_str()?, described(word))))
        .collect()
}

/// The unit or type of a property's values, and their range.
fn values(schema: &Value, property: &Value) -> String {
    if !words(schema, property).is_empty() {
        return "one of these".to_owned();
    }
    if let Some(name) = definition(property) {
        return quantity(name).to_owned();
    }
    if let Some(values) = property["enum"].as_array() {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        return values.join(", ");
    }
    match property["type"].as_str() {
        Some("boolean") => "`true`, `false`".to_owned(),
        Some("string") => "text".to_owned(),
        Some("object") => "table".to_owned(),
        Some("array") => list(schema, property),
        Some("integer") => range(property).unwrap_or("whole number".to_owned()),
        Some("number") => range(property).unwrap_or("number".to_owned()),
        other => panic!("no words for {other:?}: {property}"),
    }
}

fn list(schema: &Value, property: &Value) -> String {
    let items = values(schema, &property["items"]);
    match (&property["minItems"], &property["maxItems"]) {
        _ if definition(&property["items"]).is_some() => items,
        (least, most) if least.is_number() && least == most => format!("{least} {items}s"),
        _ => format!("list of {items}s"),
    }
}

fn range(property: &Value) -> Option<String> {
    let (least, most) = (property["minimum"].as_f64()?, property["maximum"].as_f64()?);
    Some(format!("{least} to {most}"))
}

/// How the page calls what a definition of the schema stands for.
fn quantity(definition: &str) -> &'static str {
    match definition {
        "DurationText" => "time",
        "BandwidthText" => "bandwidth",
        "BytesText" => "size",
        "Probability" => "probability",
        "QueueText" => "`pkt`, a size, or `\"unlimited\"`",
        "RateValue" => {
            "bandwidth, `\"unlimited\"`, or a [recording](#bandwidth-traces-and-other-recordings)"
        }
        "DelayValue" => "time, or a [recording](#bandwidth-traces-and-other-recordings)",
        "LossValue" => {
            "probability, [table](#loss), or a [recording](#bandwidth-traces-and-other-recordings)"
        }
        "JitterValue" => "time (uniform, by this amount), or a [table](#jitter)",
        "PolicerValue" => "[table](#policer), or `\"none\"`",
        "AggregationValue" => "[table](#aggregation), or `\"none\"`",
        "Aqm" => "[table](#aqm)",
        "SchedulerTable" => "[table](#scheduler)",
        "Reorder" => "[table](#reorder)",
        "Record" => "table, see [`[record]`](#record)",
        "AdvisedStart" => "[table](#advised_start)",
        "Application" => "[table](#application)",
        "Direction" => "table of the fields below",
        "Link" => "at least one `[[link]]`",
        "Flow" => "at least one `[[flow]]`",
        "Switch" => "list of [tables](#switch)",
        other => panic!("say what the values of a {other} are"),
    }
}
