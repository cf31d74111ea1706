//! Invariants that hold for any series.

use std::time::Duration;

use crate::common::{five_minutes, time};
use fairwind_advice::{
    Forecast, History, HistorySet, Hop, Mode, ModelKind, Request, Sample, Samples, Settings, advise,
};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

const HOUR: Duration = Duration::from_secs(3600);

fn start() -> Timestamp {
    time("2026-03-02T00:00:00Z")
}

/// A little over three days of samples between 20 and 60 Mbit/s, some of them missing.
fn series() -> impl Strategy<Value = Samples> {
    prop::collection::vec(prop::option::weighted(0.9, 20.0..60.0_f64), 900..1_000).prop_map(
        |list| {
            let samples = list.iter().enumerate().filter_map(|(i, value)| {
                Some(Sample {
                    time: start() + SignedDuration::from_secs(300 * i as i64),
                    available_mbps: (*value)?,
                })
            });
            Samples::from_unordered(samples, Timestamp::MAX).0
        },
    )
}

fn mapped(samples: &Samples, value: impl Fn(f64) -> f64) -> Samples {
    let changed = samples.all().iter().map(|s| Sample {
        available_mbps: value(s.available_mbps),
        ..s
    });
    Samples::from_unordered(changed, Timestamp::MAX).0
}

fn settings(model: ModelKind) -> Settings {
    Settings {
        model,
        threshold_mbps: Some(42.0),
        ..Settings::default()
    }
}

fn forecast(samples: &Samples, model: ModelKind) -> Forecast {
    let now = samples.all().last().unwrap().time;
    Hop::new("", samples.clone())
        .forecast(now, HOUR, &settings(model))
        .unwrap()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * (1.0 + a.abs())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn samples_raised_raise_the_forecast_as_much(samples in series(), by in 0.0..1e3_f64) {
        for model in ModelKind::ALL {
            let (was, is) = (forecast(&samples, model), forecast(&mapped(&samples, |v| v + by), model));
            // The linear model extrapolates and is cut off at 0.
            if was.available_mbps > 0.0 {
                prop_assert!(near(was.available_mbps + by, is.available_mbps), "{was:?} {is:?}");
            }
            if let (Some(was), Some(is)) = (was.interval_mbps, is.interval_mbps) && was.0 > 0.0 {
                prop_assert!(near(was.0 + by, is.0) && near(was.1 + by, is.1));
            }
        }
    }

    #[test]
    fn another_unit_changes_nothing_but_the_unit(samples in series(), factor in 0.01..100.0_f64) {
        for model in ModelKind::ALL {
            let (was, is) = (forecast(&samples, model), forecast(&mapped(&samples, |v| v * factor), model));
            prop_assert!(near(was.available_mbps * factor, is.available_mbps));
        }
    }

    #[test]
    fn the_order_of_a_file_has_no_say(
        order in Just((0..300).collect::<Vec<i64>>()).prop_shuffle(),
        twice in 0..300_i64,
    ) {
        let one = |i: i64| Sample {
            time: start() + SignedDuration::from_secs(300 * (i % 290)),
            available_mbps: (i * 37 % 50) as f64,
        };
        let sorted = Samples::from_unordered((0..300).chain([twice]).map(one), Timestamp::MAX);
        let shuffled = Samples::from_unordered(order.into_iter().chain([twice]).map(one), Timestamp::MAX);
        prop_assert_eq!(sorted, shuffled);
    }

    #[test]
    fn later_samples_have_no_say(samples in series(), cut in 1..899_usize) {
        let known = samples.all().iter().take(cut);
        let (known, _) = Samples::from_unordered(known, Timestamp::MAX);
        let now = known.all().last().unwrap().time;
        for model in ModelKind::ALL {
            let ask = |samples: &Samples| {
                Hop::new("", samples.clone()).forecast(now, HOUR, &settings(model))
            };
            prop_assert_eq!(ask(&known), ask(&samples));
        }
    }

    #[test]
    fn learning_sample_by_sample_is_learning_at_once(
        samples in series(),
        set in prop::sample::select(vec![HistorySet::All, HistorySet::LastDays(2), HistorySet::SameWeekday]),
    ) {
        let settings = Settings { history_set: set, ..settings(ModelKind::Profile) };
        let mut hop = Hop::new("", Samples::new());
        for sample in samples.all().iter() {
            hop.learn(sample.time, &settings);
            hop.insert(sample, sample.time).unwrap();
        }
        let now = samples.all().last().unwrap().time;
        let at_once = Hop::new("", samples).forecast(now, HOUR, &settings);
        prop_assert_eq!(hop.forecast(now, HOUR, &settings), at_once);
    }

    #[test]
    fn the_interval_holds_the_forecast(samples in series()) {
        let forecast = forecast(&samples, ModelKind::Profile);
        let (low, high) = forecast.interval_mbps.unwrap();
        prop_assert!(0.0 <= low && low <= forecast.available_mbps && forecast.available_mbps <= high);
    }

    #[test]
    fn the_next_advice_is_within_its_bounds_whenever_asked(
        samples in series(),
        seconds in -100_000_000..100_000_000_i64,
        model in prop::sample::select(ModelKind::ALL.to_vec()),
    ) {
        let now = start() + SignedDuration::from_secs(seconds);
        let history = History { hops: vec![Hop::new("", samples)], rtt: Some(HOUR) };
        let advice = advise(&history, &Request::default(), now, &settings(model));
        let wait = advice.next_advice.duration_since(now).as_secs();
        prop_assert!((60..=3_600).contains(&wait), "{}", wait);
    }

    #[test]
    fn control_is_on_again_once_tests_have_ceased(
        samples in series(),
        known in 1..900_usize,
        stale_s in 30..7_200_u64,
        model in prop::sample::select(ModelKind::ALL.to_vec()),
    ) {
        let (samples, _) = Samples::from_unordered(samples.all().iter().take(known), Timestamp::MAX);
        let settings = Settings {
            // No hop is ever congested.
            threshold_mbps: Some(1.0),
            own_path: true,
            stale_after: Duration::from_secs(stale_s),
            ..settings(model)
        };
        let newest = samples.all().last().unwrap().time;
        let history = History { hops: vec![Hop::new("", samples)], rtt: None };
        let ask = |now| advise(&history, &Request::default(), now, &settings);
        let (mut now, mut advice) = (newest, ask(newest));
        prop_assert_eq!(advice.mode, Mode::NoCongestionControl);
        while advice.mode == Mode::NoCongestionControl {
            now = advice.next_advice;
            advice = ask(now);
        }
        let late_s = now.duration_since(newest).as_secs() - stale_s as i64;
        prop_assert!((0..=61).contains(&late_s), "{}", late_s);
    }
}

#[test]
fn a_constant_series_is_forecast_exactly() {
    let samples = five_minutes(start(), 5 * 288, |_| 37.5);
    for model in ModelKind::ALL {
        assert!(
            near(forecast(&samples, model).available_mbps, 37.5),
            "{model:?}"
        );
    }
}
