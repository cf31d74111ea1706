//! Values of a congestion control's parameters, in the units that people write.

use fairwind_cc::native::{Control, Parameter, Parameters};

use crate::diagnostic::{Located, suggestion};
use crate::file::decode::{self, Findings};
use crate::file::value::{Node, Value};
use crate::units_text;

/// Reads the parameters of `control`, such as `{ tau = "50ms" }`.
pub(super) fn parameters(
    control: &'static Control,
    node: &Node,
    findings: &mut Findings,
) -> Option<Parameters> {
    let table = decode::table(node, findings, "{ tau = \"50ms\" }")?;
    let mut parameters = control.default_parameters();
    for (key, node) in &table.entries {
        set(control, &mut parameters, key, node, findings);
    }
    Some(parameters)
}

fn set(
    control: &'static Control,
    parameters: &mut Parameters,
    Located { value: key, span }: &Located<String>,
    node: &Node,
    findings: &mut Findings,
) {
    let all = control.parameters();
    let Some(parameter) = all.iter().find(|parameter| parameter.name() == key) else {
        let help = match all {
            [] => format!("leave it out: `{}` has no parameters", control.name()),
            _ => suggestion(key, all.iter().map(Parameter::name)),
        };
        let message = format!("`{}` has no parameter `{key}`", control.name());
        return findings.add(*span, message, help);
    };
    let message = match value(parameter, node) {
        None => format!("{} is not what `{key}` takes", node.noun()),
        Some(value) if parameters.set(key, value).is_err() => format!("`{key}` is out of range"),
        Some(_) => return,
    };
    findings.add(node.span, message, wanted(parameter));
}

/// The value in the parameter's own unit, rounded to the nearest.
fn value(parameter: &Parameter, node: &Node) -> Option<i64> {
    match (&node.value, parameter.unit()) {
        (Value::Boolean(on), "on/off") => Some(i64::from(*on)),
        (Value::String(text), unit) => units_text::parameter(text, unit),
        (Value::Float(fraction), unit) => Some((fraction * parts(unit)?).round() as i64),
        (Value::Integer(number), _) => Some(*number),
        _ => None,
    }
}

/// Units per 1, for units that are a fraction of 1, such as `1/1024`.
fn parts(unit: &str) -> Option<f64> {
    unit.strip_prefix("1/")?.parse().ok()
}

/// How to write the parameter, with its range.
fn wanted(parameter: &Parameter) -> String {
    let (min, max) = (parameter.min(), parameter.max());
    match parameter.unit() {
        "us" => format!("write a time from \"{min}us\" to \"{max}us\""),
        "on/off" => "write true or false".to_owned(),
        "packets" => format!("write a number of packets from {min} to {max}"),
        unit if parts(unit).is_some() => {
            let one = parts(unit).unwrap_or(1.0);
            format!(
                "write a fraction with a point from {:.4} to {:.4}, or a whole number of {unit} \
                 from {min} to {max}",
                f64::from(min) / one,
                f64::from(max) / one
            )
        }
        unit => format!("write a whole number from {min} to {max} (unit: {unit})"),
    }
}
