//! Mean and 95 % confidence interval over repeated runs (Student's t distribution, runs taken as
//! independent and normally distributed).

use serde::{Deserialize, Serialize};

use super::round;

/// A metric over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistic {
    /// Arithmetic mean.
    #[serde(with = "round")]
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean; none for fewer than two values.
    #[serde(with = "round::option")]
    pub interval95: Option<f64>,
    /// Values counted; runs in which the metric does not exist are left out.
    pub n: u64,
    /// Smallest value.
    #[serde(with = "round")]
    pub min: f64,
    /// Largest value.
    #[serde(with = "round")]
    pub max: f64,
}

impl Statistic {
    /// The statistic of the finite values, summed in their order; none if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Statistic> {
        let values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let interval95 = (n > 1).then(|| {
            let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
            let deviation = (squares / (n - 1) as f64).sqrt();
            student_t_975(n as u64 - 1) * deviation / (n as f64).sqrt()
        });
        Some(Statistic {
            mean,
            interval95,
            n: n as u64,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// The least of the sorted values that this share of all, 0 to 1, does not exceed (nearest rank); none
/// without values.
pub fn nearest_rank<T>(sorted: &[T], share: f64) -> Option<&T> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1))
}

/// The 97.5 % quantile of Student's t distribution with `freedom` degrees of freedom, to 1e-5.
pub fn student_t_975(freedom: u64) -> f64 {
    const TABLE: [f64; 30] = [
        12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157,
        2.228139, 2.200985, 2.178813, 2.160369, 2.144787, 2.13145, 2.119905, 2.109816, 2.100922,
        2.093024, 2.085963, 2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831,
        2.048407, 2.04523, 2.042272,
    ];
    match freedom {
        0 => f64::INFINITY,
        1..=30 => TABLE[freedom as usize - 1],
        _ => {
            // Cornish-Fisher expansion around the normal quantile (Abramowitz and Stegun, 26.7.5).
            let z = 1.959_963_984_540_054_f64;
            let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
            let n = freedom as f64;
            z + (z3 + z) / (4.0 * n)
                + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
                + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * n * n * n)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_three_values_uses_two_degrees_of_freedom() {
        // Deviation 1, so the half-width is 4.302653 / sqrt(3) = 2.484138.
        let statistic = Statistic::of([1.0, 2.0, 3.0]).unwrap();
        assert_eq!(statistic.mean, 2.0);
        assert_eq!(statistic.n, 3);
        assert_eq!((statistic.min, statistic.max), (1.0, 3.0));
        assert!((statistic.interval95.unwrap() - 2.484_138).abs() < 1e-6);
    }

    #[test]
    fn one_value_has_no_interval() {
        let statistic = Statistic::of([7.0]).unwrap();
        assert_eq!(statistic.interval95, None);
        assert_eq!(statistic.mean, 7.0);
    }

    #[test]
    fn values_that_do_not_exist_are_left_out() {
        assert_eq!(Statistic::of([]), None);
        assert_eq!(Statistic::of([f64::NAN, 4.0]).unwrap().n, 1);
    }

    #[test]
    fn quantiles_agree_with_printed_tables() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
        for (freedom, printed) in [
            (1, 12.706),
            (4, 2.776),
            (9, 2.262),
            (30, 2.042),
            (40, 2.021),
            (100, 1.984),
        ] {
            assert!((student_t_975(freedom) - printed).abs() < 6e-4, "{freedom}");
        }
    }
}
