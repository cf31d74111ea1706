//! `name=value` on the command line, the value in the units that people write.

use fairwind_cc::kernel::{self, Choice};
use fairwind_cc::native::{self, Control, Parameters};
use fairwind_scenario::units_text;

use crate::failure::Failure;

/// Splits `tau=50ms`.
pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("write NAME=VALUE, as tau=50ms".to_owned()),
    }
}

/// The congestion control of this name; with parameters it is one of fairwind's own.
pub(crate) fn choice(name: &str, parameters: &[(String, String)]) -> Result<Choice, Failure> {
    if parameters.is_empty() {
        return Ok(Choice::Named(name.to_owned()));
    }
    let own = native::find(kernel::own_name(name));
    let own = own.ok_or_else(|| {
        let all = native::all().iter().map(|control| control.name());
        Failure::input(format!(
            "--parameter is for the controls of `fairwind cc list`, not for `{name}`: {}",
            all.collect::<Vec<_>>().join(", ")
        ))
    })?;
    Ok(Choice::Own(assigned(own, parameters)?))
}

/// The control's parameters, with these values in the place of their defaults.
pub(crate) fn assigned(
    control: &'static Control,
    values: &[(String, String)],
) -> Result<Parameters, Failure> {
    let mut parameters = control.default_parameters();
    for (name, text) in values {
        let value = number(control, name, text)?;
        parameters.set(name, value).map_err(Failure::input)?;
    }
    Ok(parameters)
}

/// The value in the parameter's own unit. Whether the control has the parameter, and the value is in range,
/// is checked when it is set.
pub(crate) fn number(control: &Control, name: &str, text: &str) -> Result<i64, Failure> {
    let mut parameters = control.parameters().iter();
    let unit = parameters.find(|p| p.name() == name).map(|p| p.unit());
    in_unit(unit.unwrap_or("1"), text).ok_or_else(|| {
        let wanted = match unit {
            Some("us") => "a time such as 50ms",
            Some("on/off") => "on or off",
            Some("packets") => "a number of packets",
            Some(unit) if unit.starts_with("1/") => "a fraction such as 0.7",
            _ => "a whole number",
        };
        Failure::input(format!("`{name}` cannot be `{text}`: it takes {wanted}"))
    })
}

fn in_unit(unit: &str, text: &str) -> Option<i64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    match (unit, text) {
        ("on/off", "true") => return Some(1),
        ("on/off", "false") => return Some(0),
        _ => {}
    }
    let Some(parts) = unit.strip_prefix("1/") else {
        return units_text::parameter(text, unit);
    };
    let (parts, fraction): (f64, f64) = (parts.parse().ok()?, text.parse().ok()?);
    // Rust parses "nan" and "inf" as numbers.
    fraction
        .is_finite()
        .then_some((fraction * parts).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_the_units_of_the_parameters() {
        assert_eq!(in_unit("us", "50ms"), Some(50_000));
        assert_eq!(in_unit("us", "50000"), Some(50_000));
        assert_eq!(in_unit("packets", "300pkt"), Some(300));
        assert_eq!(in_unit("on/off", "off"), Some(0));
        // 0.7 * 1024 = 716.8
        assert_eq!(in_unit("1/1024", "0.7"), Some(717));
        assert_eq!(in_unit("packets", "30kB"), None);
        assert_eq!(in_unit("1", "much"), None);
        assert_eq!(in_unit("1/1024", "nan"), None);
    }

    #[test]
    fn an_assignment_has_two_sides() {
        assert_eq!(assignment("tau=50ms").unwrap().1, "50ms");
        assert!(assignment("tau").is_err());
        assert!(assignment("=1").is_err());
    }
}
