//! What tables say of several values.

use fairwind_result::statistic::nearest_rank;

/// The mean; NaN without values.
pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.into_iter().collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation, with n - 1 in the denominator.
pub(crate) fn standard_deviation(values: &[f64]) -> f64 {
    let mean = mean(values.iter().copied());
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

/// The median; none without values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// The least value that this share of all does not exceed (nearest rank); none without values.
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    nearest_rank(&values, share).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values = || vec![5.0, 3.0, 1.0, 2.0, 4.0];
        assert_eq!(quantile(vec![], 0.5), None);
        assert_eq!(quantile(values(), 0.5), Some(3.0));
        assert_eq!(quantile(values(), 0.05), Some(1.0));
        assert_eq!(quantile(values(), 0.95), Some(5.0));
        assert_eq!(quantile(values(), 0.2), Some(1.0));
        assert_eq!(quantile(values(), 0.21), Some(2.0));
    }
}
