//! The normal distribution.

use std::f64::consts::{PI, SQRT_2};

/// The number of standard deviations on both sides of the mean that enclose the share `confidence` of a
/// normal distribution: 1.96 for 0.95. The confidence is clamped to the range 0 to 0.999_999.
pub fn two_sided(confidence: f64) -> f64 {
    let confidence = confidence.clamp(0.0, 0.999_999);
    // Newton's method does not overshoot when it starts below the root of a concave function.
    let mut z = 0.0;
    for _ in 0..64 {
        let density = (2.0 / PI).sqrt() * (-z * z / 2.0_f64).exp();
        let step = (confidence - libm::erf(z / SQRT_2)) / density;
        z += step;
        if step.abs() < 1e-12 {
            break;
        }
    }
    z
}

#[cfg(test)]
mod tests {
    use super::two_sided;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (confidence, z) in [
            (0.0, 0.0),
            (0.682_689_492_137, 1.0),
            (0.8, 1.281_551_565_5),
            (0.95, 1.959_963_984_5),
            (0.99, 2.575_829_303_5),
        ] {
            assert!(
                (two_sided(confidence) - z).abs() < 1e-9,
                "{confidence}: {}",
                two_sided(confidence)
            );
        }
    }
}
