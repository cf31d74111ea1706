//! The available bandwidth of the path: nine weeks of history, and the day of the story.

use std::time::Duration;

use fairwind_advice::{Curve, Sample};
use jiff::{SignedDuration, Timestamp};

use super::story::{Route, Story, TEST_INTERVAL, WEEKS};

/// Least traffic of the others, Mbit/s: a link's bandwidth cannot be 0.
const LEAST_MBPS: f64 = 1.0;
/// What the others want of the long path, Mbit/s.
const WANTED_MBPS: f64 = 40.0;

/// Tests of the available bandwidth.
#[derive(Clone, Debug)]
pub struct Day {
    /// Until the start of a run, ascending.
    pub history: Vec<Sample>,
    /// After the start of a run, ascending.
    pub tests: Vec<Sample>,
}

impl Day {
    /// The tests of this story, all from its seed.
    pub fn of(story: &Story) -> Day {
        let before = SignedDuration::from_hours(WEEKS * 7 * 24);
        let run = SignedDuration::from_secs_f64(story.length_s * story.rate);
        let capacity_mbps = story.route.capacity_mbps();
        let curve = Curve {
            seed: story.seed,
            step: Duration::from_secs(TEST_INTERVAL.as_secs().unsigned_abs()),
            capacity_mbps,
            day: vec![(4.0, capacity_mbps - 22.0), (15.0, capacity_mbps - 76.0)],
            weekend_mbps: 20.0,
            days_mbps: 0.0,
            slow_mbps: 2.0,
            fast_mbps: 0.0,
            ..Curve::default()
        };
        let from = story
            .begins
            .saturating_sub(before)
            .unwrap_or(Timestamp::MIN);
        let to = story
            .begins
            .saturating_add(run + TEST_INTERVAL)
            .unwrap_or(Timestamp::MAX);
        let mut samples = curve.samples(from, to);
        if story.route == Route::Long {
            for sample in &mut samples {
                sample.available_mbps = capacity_mbps - WANTED_MBPS;
            }
        }
        let (history, tests) = samples
            .into_iter()
            .partition(|sample| sample.time <= story.begins);
        Day { history, tests }
    }

    /// The tests from the start of a run on: seconds and Mbit/s.
    pub fn curve(&self, story: &Story) -> Vec<(f64, f64)> {
        let all = self.history.last().into_iter().chain(&self.tests);
        all.map(|sample| {
            let seconds = story.seconds_until(sample.time).max(0.0);
            (seconds, sample.available_mbps)
        })
        .collect()
    }

    /// The others' traffic as a bandwidth trace for a link: seconds and Mbit/s.
    pub fn traffic_csv(&self, story: &Story) -> String {
        let lines = self.curve(story).into_iter().map(|(seconds, available)| {
            let used = (story.route.capacity_mbps() - available).max(LEAST_MBPS);
            format!("{seconds:.3},{used:.3}\n")
        });
        format!("time_s,used_mbps\n{}", lines.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_follows_nine_weeks_of_five_minute_tests() {
        let story = Story::full(Route::Day, 1);
        let day = Day::of(&story);
        assert_eq!(day.history.len(), 9 * 7 * 288 + 1);
        assert_eq!(day.history.last().unwrap().time, story.begins);
        // 36 s are 18 hours; one more test closes the last interval.
        assert_eq!(day.tests.len(), 18 * 12);
        assert!(
            day.traffic_csv(&story)
                .starts_with("time_s,used_mbps\n0.000,")
        );
    }

    #[test]
    fn the_others_on_the_long_path_want_the_same_all_day() {
        let story = Story::quick(Route::Long, 1);
        let day = Day::of(&story);
        let mut all = day.history.iter().chain(&day.tests);
        assert!(all.all(|sample| sample.available_mbps == 160.0));
    }

    #[test]
    fn equal_seeds_give_the_same_day() {
        let story = |seed| Story::quick(Route::Day, seed);
        let csv = |seed| Day::of(&story(seed)).traffic_csv(&story(seed));
        assert_eq!(csv(3), csv(3));
        assert_ne!(csv(3), csv(4));
    }
}
