//! Round numbers along an axis.

/// Ticks in steps of 1, 2 or 5 times a power of ten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ticks {
    step: f64,
    /// The first tick, in steps from 0.
    first: u32,
    /// The last tick, in steps from 0.
    last: u32,
    digits: usize,
}

impl Ticks {
    /// Ticks that cover 0 to `greatest` with at most `most` steps; 0 to 1 if `greatest` is not
    /// positive.
    pub(crate) fn up_to(greatest: f64, most: u32) -> Ticks {
        let greatest = if greatest.is_finite() && greatest > 0.0 {
            greatest
        } else {
            1.0
        };
        Ticks::cover(0.0, greatest, most)
    }

    /// Ticks around values that are not negative, with at most two steps more than `most`. They
    /// begin at 0 unless that would leave half of the axis empty.
    pub(crate) fn around(least: f64, greatest: f64, most: u32) -> Ticks {
        // Equal values give no scale.
        let spread = greatest - least;
        if !(least >= 0.5 * greatest && spread > 1e-6 * greatest) {
            Ticks::up_to(greatest, most)
        } else {
            Ticks::cover(least, greatest, most)
        }
    }

    fn cover(from: f64, to: f64, most: u32) -> Ticks {
        let wanted = (to - from) / f64::from(most.max(1));
        // Powers by repeated multiplication, so that every platform computes the same ticks.
        let mut power = 1.0;
        let mut digits: usize = 0;
        while power > wanted {
            power /= 10.0;
            digits += 1;
        }
        while power * 10.0 <= wanted {
            power *= 10.0;
        }
        let factor = [1.0, 2.0, 5.0]
            .into_iter()
            .find(|factor| factor * power >= wanted * (1.0 - 1e-9));
        if factor.is_none() {
            digits = digits.saturating_sub(1);
        }
        let step = factor.unwrap_or(10.0) * power;
        let first = (from / step + 1e-9).floor() as u32;
        Ticks {
            step,
            first,
            last: ((to / step - 1e-9).ceil() as u32).max(first + 1),
            digits,
        }
    }

    /// The first tick.
    pub(crate) fn start(&self) -> f64 {
        self.step * f64::from(self.first)
    }

    /// The last tick.
    pub(crate) fn end(&self) -> f64 {
        self.step * f64::from(self.last)
    }

    /// The position of a value between the first tick (0) and the last (1).
    pub(crate) fn share(&self, value: f64) -> f64 {
        (value - self.start()) / (self.end() - self.start())
    }

    /// Values and labels of the ticks, from the first to the last.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (f64, String)> + use<> {
        let Ticks { step, digits, .. } = *self;
        (self.first..=self.last).map(move |n| {
            let value = step * f64::from(n);
            (value, format!("{value:.digits$}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Ticks;

    fn labels(greatest: f64, most: u32) -> Vec<String> {
        Ticks::up_to(greatest, most)
            .labels()
            .map(|(_, label)| label)
            .collect()
    }

    #[test]
    fn steps_are_one_two_or_five() {
        assert_eq!(labels(15.0, 6), ["0", "5", "10", "15"]);
        assert_eq!(
            labels(300.0, 6),
            ["0", "50", "100", "150", "200", "250", "300"]
        );
        assert_eq!(labels(0.9, 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(0.04, 4), ["0.00", "0.01", "0.02", "0.03", "0.04"]);
        assert_eq!(labels(9_000.0, 4), ["0", "5000", "10000"]);
        assert_eq!(labels(6.0, 6), ["0", "1", "2", "3", "4", "5", "6"]);
        assert_eq!(labels(38.0, 5), ["0", "10", "20", "30", "40"]);
    }

    #[test]
    fn ticks_around_values_far_from_zero_leave_it_out() {
        let labels = |least, greatest| -> Vec<String> {
            let ticks = Ticks::around(least, greatest, 5);
            ticks.labels().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(6.95, 7.51), ["6.8", "7.0", "7.2", "7.4", "7.6"]);
        assert_eq!(labels(2.0, 5.0), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(labels(3.0, 3.0), ["0", "1", "2", "3"]);
        assert!((Ticks::around(6.95, 7.51, 5).share(7.2) - 0.5).abs() < 1e-9);
        assert_eq!(Ticks::around(f64::NAN, 3.0, 5).start(), 0.0);
    }

    #[test]
    fn an_axis_without_values_goes_to_one() {
        assert_eq!(Ticks::up_to(0.0, 1).end(), 1.0);
        assert_eq!(Ticks::up_to(f64::NAN, 1).end(), 1.0);
    }

    proptest::proptest! {
        #[test]
        fn ticks_cover_the_values_with_few_steps(greatest in 1e-6..1e12_f64, most in 2..12_u32) {
            let ticks = Ticks::up_to(greatest, most);
            proptest::prop_assert!(ticks.end() >= greatest * (1.0 - 1e-6));
            proptest::prop_assert!(ticks.labels().count() <= most as usize + 1);
            let labels: Vec<String> = ticks.labels().map(|(_, label)| label).collect();
            proptest::prop_assert!(labels.windows(2).all(|pair| pair[0] != pair[1]));
        }
    }
}
