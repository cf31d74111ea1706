//! The usual available bandwidth by local time of the week, stored in a ring of slots.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Slots in a day; each is ten minutes.
const SLOTS_PER_DAY: usize = 144;
const SLOT_SECONDS: f64 = 600.0;
const SLOTS: usize = 7 * SLOTS_PER_DAY;

/// Number of slots on each side that a sample is spread over, with triangular weights.
const SPREAD: usize = 6;

/// Factor by which the weight of a day decays each day: 0.7 in a week.
const DAILY_DECAY: f64 = 0.950_322_799_248_690_9;

/// Weight, in samples, of the mean of the wider group of days in that of the narrower group. It only
/// matters while the narrower group has hardly any samples.
const SHRINKAGE: f64 = 0.5;

/// Number of groups of days: all, working days or days off, same weekday.
pub(super) const GROUPS: usize = 3;

/// A local time: its place on the ring, and its day, which sets its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LocalTime {
    /// 0 for Monday to 6 for Sunday.
    pub weekday: usize,
    /// Seconds after local midnight.
    second: f64,
    /// Days since 1970-01-01.
    pub day: i32,
}

impl LocalTime {
    /// The local time in `time_zone` at a Unix time in microseconds.
    pub(super) fn at(time_us: i64, time_zone: &TimeZone) -> Self {
        let seconds = time_us.div_euclid(1_000_000);
        let offset =
            Timestamp::from_second(seconds).map_or(0, |time| time_zone.to_offset(time).seconds());
        let local = seconds + i64::from(offset);
        let day = local.div_euclid(86_400);
        Self {
            // 1970-01-01 was a Thursday.
            weekday: (day + 3).rem_euclid(7) as usize,
            second: local.rem_euclid(86_400) as f64,
            day: day as i32,
        }
    }
}

/// Weighted sum and total weight of the values around one slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    sum: f64,
    weight: f64,
}

impl Slot {
    fn plus(self, other: Self) -> Self {
        Self {
            sum: self.sum + other.sum,
            weight: self.weight + other.weight,
        }
    }

    fn times(self, factor: f64) -> Self {
        Self {
            sum: self.sum * factor,
            weight: self.weight * factor,
        }
    }
}

/// Weighted means by local time of the week, with decreasing weight for older weeks.
#[derive(Clone, Debug)]
pub(super) struct Week {
    slots: Box<[Slot]>,
    /// The day of weight 1. Later days weigh more, which avoids decaying the stored sums.
    first_day: Option<i32>,
}

impl Week {
    /// An empty week.
    pub(super) fn new() -> Self {
        Self {
            slots: vec![Slot::default(); SLOTS].into(),
            first_day: None,
        }
    }

    /// Adds a value.
    pub(super) fn add(&mut self, time: LocalTime, value: f64) {
        let weight = self.weight_of(time.day);
        let centre = time.weekday * SLOTS_PER_DAY + (time.second / SLOT_SECONDS) as usize;
        for step in 0..=2 * SPREAD {
            let slot = &mut self.slots[(centre + SLOTS + step - SPREAD) % SLOTS];
            let share = weight * (SPREAD + 1 - step.abs_diff(SPREAD)) as f64;
            slot.sum += share * value;
            slot.weight += share;
        }
    }

    fn weight_of(&mut self, day: i32) -> f64 {
        let first = *self.first_day.get_or_insert(day);
        DAILY_DECAY.powi(first - day)
    }

    /// The usual value at `time` over all days, over working days or days off, whichever `time` is on, and
    /// over its weekday; None if no value near this time of day has been added.
    pub(super) fn usual(&self, time: LocalTime) -> Option<[f64; GROUPS]> {
        let day_off = |weekday: usize| weekday >= 5;
        let mut all = Slot::default();
        let mut class = Slot::default();
        for weekday in 0..7 {
            let here = self.between_slots(weekday, time.second);
            all = all.plus(here);
            if day_off(weekday) == day_off(time.weekday) {
                class = class.plus(here);
            }
        }
        if all.weight <= 0.0 {
            return None;
        }
        let one = self.one_sample(time.day);
        let towards = |slot: Slot, wider: f64| {
            (slot.sum + SHRINKAGE * one * wider) / (slot.weight + SHRINKAGE * one)
        };
        let all = all.sum / all.weight;
        let class = towards(class, all);
        let weekday = towards(self.between_slots(time.weekday, time.second), class);
        Some([all, class, weekday])
    }

    /// The weight that a sample of `day` adds to the slot at its centre.
    fn one_sample(&self, day: i32) -> f64 {
        let first = self.first_day.unwrap_or(day);
        (SPREAD + 1) as f64 * DAILY_DECAY.powi(first - day)
    }

    /// Linear interpolation between the slots on both sides of a time of day.
    fn between_slots(&self, weekday: usize, second: f64) -> Slot {
        let place = second / SLOT_SECONDS + SLOTS as f64 - 0.5;
        let before = place as usize;
        let share = place - before as f64;
        let ring = weekday * SLOTS_PER_DAY + before;
        let (near, far) = (self.slots[ring % SLOTS], self.slots[(ring + 1) % SLOTS]);
        near.times(1.0 - share).plus(far.times(share))
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil;

    use super::*;

    fn at(text: &str, zone: &str) -> LocalTime {
        let zone = TimeZone::get(zone).unwrap();
        LocalTime::at(text.parse::<Timestamp>().unwrap().as_microsecond(), &zone)
    }

    #[test]
    fn local_time_is_that_of_the_zone() {
        // A Monday, 02:30 in Kansas City on standard time.
        let monday = at("2004-03-01T08:30:00Z", "America/Chicago");
        assert_eq!((monday.weekday, monday.second), (0, 9_000.0));
        // The same hour of UTC after the clock went forward is 03:30.
        let april = at("2004-04-05T08:30:00Z", "America/Chicago");
        assert_eq!((april.weekday, april.second), (0, 12_600.0));
        assert_eq!(april.day - monday.day, 35);
    }

    #[test]
    fn nothing_is_usual_before_the_first_value() {
        assert_eq!(Week::new().usual(at("2004-03-01T08:30:00Z", "UTC")), None);
    }

    #[test]
    fn a_constant_is_usual_everywhere_that_it_was_seen() {
        let mut week = Week::new();
        for minute in 0..144 {
            let time = civil::date(2004, 3, 1).at(0, 0, 0, 0);
            let start = TimeZone::UTC.to_timestamp(time).unwrap().as_microsecond();
            week.add(
                LocalTime::at(start + minute * 600_000_000, &TimeZone::UTC),
                7.0,
            );
        }
        let usual = week.usual(at("2004-03-06T08:30:00Z", "UTC")).unwrap();
        for value in usual {
            assert!((value - 7.0).abs() < 1e-12);
        }
    }

    #[test]
    fn a_weekday_weighs_its_own_days_and_forgets_old_weeks() {
        let mut week = Week::new();
        // The same slot on two Mondays: weights 1 and 1 / 0.7.
        week.add(at("2004-03-01T08:35:00Z", "UTC"), 10.0);
        week.add(at("2004-03-08T08:35:00Z", "UTC"), 20.0);
        let usual = week.usual(at("2004-03-15T08:35:00Z", "UTC")).unwrap();
        // (10 + 20 / 0.7) / (1 + 1 / 0.7) = 27 / 1.7
        for value in usual {
            assert!((value - 15.882_352_941_176_47).abs() < 1e-9, "{value}");
        }
    }
}
