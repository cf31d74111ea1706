//! How fractions are written: at most six decimal places, and `null` for NaN and infinities.
//!
//! The rounding hides the last bits of a sum, in which builds may differ, so that the same run
//! gives the same bytes everywhere.

use serde::{Deserialize, Deserializer, Serializer};

/// Digits after the point of every fraction in a result.
pub const DIGITS: u32 = 6;

/// `value` rounded to [`DIGITS`] decimal places, halves away from zero; none for NaN and infinities.
pub fn rounded(value: f64) -> Option<f64> {
    if !value.is_finite() {
        return None;
    }
    let scale = 10_f64.powi(DIGITS as i32);
    let scaled = value * scale;
    // From 2^53 on a double has no fraction to round.
    if scaled.abs() >= 9_007_199_254_740_992.0 {
        return Some(value);
    }
    // Adding 0.0 turns -0.0 into 0.0.
    Some(scaled.round() / scale + 0.0)
}

/// For `serde(with)`: an `f64`.
pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    option::serialize(&Some(*value), serializer)
}

/// Reads a number; `null` becomes NaN.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// For `serde(with)`: an `Option<f64>`.
pub mod option {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes a rounded number or `null`.
    pub fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        match value.and_then(super::rounded) {
            Some(number) => serializer.serialize_f64(number),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a number or `null`.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f64>, D::Error> {
        Option::<f64>::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn fractions_keep_six_digits() {
        assert_eq!(rounded(1.0 / 3.0), Some(0.333_333));
        assert_eq!(rounded(2.0 / 3.0), Some(0.666_667));
        assert_eq!(rounded(-0.000_000_4).map(f64::to_bits), Some(0));
    }

    #[test]
    fn large_numbers_stay_as_they_are() {
        assert_eq!(rounded(1.234e15), Some(1.234e15));
    }

    #[test]
    fn what_is_no_number_is_nothing() {
        assert_eq!(rounded(f64::NAN), None);
        assert_eq!(rounded(f64::INFINITY), None);
    }
}
