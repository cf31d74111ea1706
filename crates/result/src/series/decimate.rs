//! Thins a curve to the resolution of a plot.
//!
//! Time is divided into as many equal columns as the plot shows. Of each column the first, least,
//! greatest and last point are kept, so that the drawn line looks the same as with all points and
//! no spike is lost (Jugel et al., "M4: A Visualization-Oriented Time Series Data Aggregation",
//! VLDB 2014).

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Seconds.
    pub time_s: f64,
    /// In the curve's unit.
    pub value: f64,
}

impl From<(f64, f64)> for Point {
    fn from((time_s, value): (f64, f64)) -> Point {
        Point { time_s, value }
    }
}

/// The points, in the order of time, as a [`Decimator`] thins them.
pub fn thinned(
    duration_s: f64,
    columns: usize,
    points: impl IntoIterator<Item = Point>,
) -> Vec<Point> {
    let mut curve = Decimator::new(duration_s, columns);
    for Point { time_s, value } in points {
        curve.push(time_s, value);
    }
    curve.finish()
}

/// Takes points in the order of time and keeps at most four per column.
#[derive(Clone, Debug)]
pub struct Decimator {
    columns_per_second: f64,
    last_column: u64,
    column: u64,
    /// First, least, greatest and last point of the current column.
    held: Option<[Point; 4]>,
    kept: Vec<Point>,
}

impl Decimator {
    /// A decimator for a plot from 0 to `duration_s` with this number of columns; points outside
    /// belong to the first or last column.
    pub fn new(duration_s: f64, columns: usize) -> Decimator {
        let columns = columns.max(1);
        let usable = duration_s.is_finite() && duration_s > 0.0;
        Decimator {
            columns_per_second: if usable {
                columns as f64 / duration_s
            } else {
                0.0
            },
            last_column: columns as u64 - 1,
            column: 0,
            held: None,
            kept: Vec::new(),
        }
    }

    /// Takes the next point.
    pub fn push(&mut self, time_s: f64, value: f64) {
        let point = Point { time_s, value };
        // The cast saturates: negative and excessive times end up in the outer columns.
        let column = ((time_s * self.columns_per_second) as u64).min(self.last_column);
        if column != self.column {
            self.release();
            self.column = column;
        }
        match &mut self.held {
            None => self.held = Some([point; 4]),
            Some([_, least, greatest, last]) => {
                if value < least.value {
                    *least = point;
                }
                if value > greatest.value {
                    *greatest = point;
                }
                *last = point;
            }
        }
    }

    fn release(&mut self) {
        let Some([first, least, greatest, last]) = self.held.take() else {
            return;
        };
        let mut points = [first, least, greatest, last];
        points[1..3].sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
        for point in points {
            if self.kept.last() != Some(&point) {
                self.keep(point);
            }
        }
    }

    /// Keeps only the first and the last point of a run of equal values.
    fn keep(&mut self, point: Point) {
        if let [.., before, last] = self.kept.as_mut_slice()
            && before.value == point.value
            && last.value == point.value
        {
            *last = point;
            return;
        }
        self.kept.push(point);
    }

    /// The remaining points, in the order of time.
    pub fn finish(mut self) -> Vec<Point> {
        self.release();
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinned(columns: usize, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let mut decimator = Decimator::new(10.0, columns);
        for &(time_s, value) in points {
            decimator.push(time_s, value);
        }
        let points = decimator.finish();
        points.iter().map(|p| (p.time_s, p.value)).collect()
    }

    #[test]
    fn a_column_keeps_first_least_greatest_and_last() {
        let points = [
            (0.0, 5.0),
            (0.1, 6.0),
            (0.2, 9.0),
            (0.3, 7.0),
            (0.4, 1.0),
            (0.5, 2.0),
            (0.6, 3.0),
        ];
        assert_eq!(
            thinned(10, &points),
            [(0.0, 5.0), (0.2, 9.0), (0.4, 1.0), (0.6, 3.0)]
        );
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let points = [(0.5, 1.0), (1.5, 2.0), (2.5, 0.0)];
        assert_eq!(thinned(10, &points), points);
    }

    #[test]
    fn a_constant_curve_becomes_two_points() {
        let points: Vec<(f64, f64)> = (0..100).map(|n| (f64::from(n) / 10.0, 4.0)).collect();
        assert_eq!(thinned(10, &points), [(0.0, 4.0), (9.9, 4.0)]);
    }

    #[test]
    fn no_points_give_no_curve() {
        assert_eq!(thinned(10, &[]), []);
    }

    #[test]
    fn times_beyond_the_end_count_to_the_last_column() {
        assert_eq!(
            thinned(2, &[(9.0, 1.0), (11.0, 2.0), (12.0, 3.0)]),
            [(9.0, 1.0), (12.0, 3.0)]
        );
    }

    proptest::proptest! {
        #[test]
        fn a_curve_keeps_its_extremes_and_never_grows_beyond_four_a_column(
            values in proptest::collection::vec(-1e6..1e6_f64, 1..500),
            columns in 1..50_usize,
        ) {
            let points: Vec<(f64, f64)> = values
                .iter()
                .enumerate()
                .map(|(n, &value)| (n as f64 * 10.0 / values.len() as f64, value))
                .collect();
            let kept = thinned(columns, &points);
            proptest::prop_assert!(kept.len() <= 4 * columns);
            proptest::prop_assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
            proptest::prop_assert!(kept.iter().all(|point| points.contains(point)));
            let extremes = |points: &[(f64, f64)]| {
                let values = || points.iter().map(|p| p.1);
                (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max))
            };
            proptest::prop_assert_eq!(extremes(&kept), extremes(&points));
        }
    }
}
