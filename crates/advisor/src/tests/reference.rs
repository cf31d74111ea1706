//! Generates what `docs/reference/advisor.md` says of the configuration file and of the REST interface.

use fairwind_testing::page::{Section, cell, check_sections, keys, properties, table};
use serde_json::{Value, json};
use utoipa::PartialSchema;

use crate::config::Config;
use crate::config::Discovery;
use crate::http::document;
use crate::path::PathConfig;

#[test]
fn generated_sections_are_those_of_the_code() {
    let document = json!(document());
    let component = |name: &str| document["components"]["schemas"][name].clone();
    let known = check_sections("advisor.md", |section| match section.what {
        "keys of the configuration file" => Some(keys(&json!(Config::schema()), section)),
        "keys of discovery" => {
            let Discovery {
                networks,
                forget_after_days,
                hosts_at_most,
            } = Discovery::default();
            let defaults = json!({
                "networks": networks,
                "forget_after_days": forget_after_days,
                "hosts_at_most": hosts_at_most,
            });
            let schema = with_defaults(json!(Discovery::schema()), &defaults);
            Some(keys(&schema, section))
        }
        "keys of a path" => {
            let defaults = json!(PathConfig::new("", Vec::new()));
            let mut schema = with_defaults(component("PathConfig"), &defaults);
            // Over REST the name is in the URL.
            schema["required"] = json!(["name", "hosts"]);
            Some(keys(&schema, section))
        }
        "fields of a report" => Some(keys(&component("TransferReport"), section)),
        "fields of an answer" => {
            let mut answer = json!({ "properties": {} });
            collect(
                &component("AdviceAnswer"),
                &component,
                &mut answer["properties"],
            );
            Some(fields(&answer, section))
        }
        "requests" => Some(requests(&document, section)),
        _ => None,
    });
    assert_eq!(known.len(), 6, "{known:?}");
}

/// A schema whose properties have these values by default.
fn with_defaults(mut schema: Value, defaults: &Value) -> Value {
    let described = schema["properties"].as_object_mut();
    for (name, property) in described.expect("it is an object") {
        property["default"] = defaults[name.as_str()].clone();
    }
    schema
}

/// Adds the properties of a schema, which may consist of parts, each its own or that of a component.
fn collect(schema: &Value, component: &dyn Fn(&str) -> Value, properties: &mut Value) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().expect("a name");
        collect(&component(name), component, properties);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        collect(part, component, properties);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        properties[name.as_str()] = property.clone();
    }
}

/// The fields of an answer, which are there or null.
fn fields(schema: &Value, section: &Section<'_>) -> String {
    let rows = properties(schema, section).into_iter();
    let rows = rows.map(|field| vec![format!("`{}`", field.name), field.meaning]);
    table(&["field", "meaning"], &rows.collect::<Vec<_>>())
}

/// All requests, by their addresses.
fn requests(document: &Value, section: &Section<'_>) -> String {
    let paths = document["paths"].as_object().expect("it has paths");
    let mut rows = Vec::new();
    for (path, operations) in paths {
        let operations = operations.as_object().expect("a path has operations");
        for (method, operation) in operations {
            let request = format!("`{} {path}{}`", method.to_uppercase(), query(operation));
            let purpose = ["summary", "description"]
                .iter()
                .filter_map(|part| operation[part].as_str())
                .collect::<Vec<_>>()
                .join(" ");
            let answers = operation["responses"].as_object();
            let answers: Vec<&str> = answers
                .expect("an operation has answers")
                .keys()
                .map(String::as_str)
                .collect();
            rows.push(vec![
                section.linked(&cell(&request), path),
                cell(purpose.trim().trim_end_matches('.')),
                answers.join(", "),
            ]);
        }
    }
    table(&["request", "purpose", "status"], &rows)
}

/// The parameters of an operation behind its address; what may be left out is in brackets.
fn query(operation: &Value) -> String {
    let none = Vec::new();
    let parameters = operation["parameters"].as_array().unwrap_or(&none).iter();
    let mut query = String::new();
    for parameter in parameters.filter(|parameter| parameter["in"] == "query") {
        let name = parameter["name"].as_str().expect("a parameter has a name");
        let sign = if query.is_empty() { '?' } else { '&' };
        let pair = format!("{sign}{name}={}", name.to_uppercase());
        match parameter["required"] == true {
            true => query.push_str(&pair),
            false => query.push_str(&format!("[{pair}]")),
        }
    }
    query
}
