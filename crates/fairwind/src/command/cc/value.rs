//! `name=value` on the command line, the value in the units that people write.

use fairwind_cc::native::Control;
use fairwind_scenario::units_text::{self, Amount};

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
    match unit {
        "us" => {
            let nanos = units_text::duration(text).ok()?.as_nanos();
            i64::try_from((nanos + 500) / 1000).ok()
        }
        "on/off" => match text {
            "on" | "true" => Some(1),
            "off" | "false" => Some(0),
            _ => None,
        },
        "packets" => match units_text::amount(text).ok()? {
            Amount::Packets(packets) => i64::try_from(packets).ok(),
            Amount::Bytes(_) => None,
        },
        _ => {
            let parts: f64 = unit.strip_prefix("1/")?.parse().ok()?;
            let fraction: f64 = text.parse().ok()?;
            // Rust parses "nan" and "inf" as numbers.
            fraction
                .is_finite()
                .then_some((fraction * parts).round() as i64)
        }
    }
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
